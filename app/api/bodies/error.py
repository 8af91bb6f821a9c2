"""The common form of all errors."""

from pydantic import Field

from app.api.bodies.base import Schema
from app.api.codes import codes


class ProblemRead(Schema):
    """A field that is wrong."""

    path: str = Field(examples=["subscriptionPolicy.rate"])
    message: str = Field(examples=["must be a whole number, 1 to 1000000"])


class ErrorRead(Schema):
    """An error: `code` is stable and for programs, `message` is for people."""

    message: str = Field(examples=["Topic not found: shop.orders"])
    code: str = Field(examples=["TOPIC_NOT_EXISTS"], json_schema_extra={"enum": [*codes()]})
    details: tuple[ProblemRead, ...] | None = None
    duplicate_of: str | None = Field(
        default=None,
        description="with DUPLICATE_MESSAGE: the id of the message that was stored",
    )
