"""Redrives of discarded messages: requests and results."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from app.api.bodies.base import OwnSchema, Schema, Text
from app.api.bodies.moments import MomentText
from app.api.management.discards.undelivered_bodies import epoch_ms
from app.api.management.replay.retransmission_fields import parsed, way_of
from app.domain.discards.redrive import Redrivable
from app.services.discards.redrives import Redriven

SHOWN_MAX: Final = 20

_ONLY: Final = "discarded"


def _only_discarded(text: str) -> str:
    if text != _ONLY:
        message = (
            f"must be {_ONLY}, or all, undelivered or missing; PUT with retransmissionDate sends"
            " all again, by moving the subscription back"
        )
        raise PydanticCustomError("only", "{problem}", {"problem": message})
    return text


Only = Annotated[str, AfterValidator(_only_discarded)]


class RedriveBody(OwnSchema):
    """Which undelivered messages are sent again: those that match all given fields."""

    only: Only = Field(description=_ONLY, examples=[_ONLY])
    from_: MomentText | None = Field(
        default=None, alias="from", description="discarded since: RFC 3339 or ms, inclusive"
    )
    to: MomentText | None = Field(
        default=None, description="discarded until: RFC 3339 or ms, exclusive"
    )
    reason: Text | None = Field(default=None, description="part of the reason")
    status_codes: list[Annotated[int, Field(ge=100, le=599)]] | None = Field(
        default=None, min_length=1, max_length=100, description="the subscriber's last answer"
    )
    message_ids: list[Text] | None = Field(default=None, min_length=1, max_length=1000)
    key: Text | None = Field(default=None, description="the messages' Partition-Key")
    text: Text | None = Field(default=None, description="part of the body, as it was published")
    again: bool = Field(default=False, description="also those that were sent again before")
    mode: Literal["replay"] = Field(default="replay", description="seek moves a subscription")
    dry_run: bool = Field(default=False, description="only say what would be sent")


class RedrivableRead(Schema):
    """A discarded message that would be sent again."""

    message_id: str
    timestamp: int = Field(description="of its discard, ms since the epoch")
    reason: str
    status_code: int | None = Field(default=None, description="the subscriber's last answer")
    partition: int
    offset: int
    size: int = Field(description="bytes of its body")


class RedriveRead(Schema):
    """What was sent again, or would be in a dry run: the oldest discards first."""

    id: str | None = Field(
        default=None, description="in `Hermes-Retransmission` of the requests; absent if none"
    )
    count: int = Field(description="messages")
    bytes: int = Field(description="of their bodies")
    more: bool = Field(description="ask again for the rest")
    newest: int | None = Field(
        default=None, description="discard of the last of them, ms since the epoch"
    )
    messages: list[RedrivableRead] | None = Field(
        default=None, description=f"the first {SHOWN_MAX}, in a dry run"
    )


def redrive_body(body: Mapping[str, Any]) -> RedriveBody:
    """Return the request for a redrive. No field is ignored.

    Raises:
        ValidationFailedError: The body is invalid.
    """
    return parsed(RedriveBody, body, way_of(body))


def redrive_read(redriven: Redriven, *, dry_run: bool) -> RedriveRead:
    """Return the response to a redrive request."""
    messages = redriven.messages
    return RedriveRead(
        id=redriven.id,
        count=len(messages),
        bytes=sum(each.size for each in messages),
        more=redriven.more,
        newest=epoch_ms(messages[-1].discarded_at) if messages else None,
        messages=[_redrivable_read(each) for each in messages[:SHOWN_MAX]] if dry_run else None,
    )


def _redrivable_read(each: Redrivable) -> RedrivableRead:
    return RedrivableRead(
        message_id=each.message_id,
        timestamp=epoch_ms(each.discarded_at),
        reason=each.reason,
        status_code=each.status,
        partition=each.partition,
        offset=each.offset,
        size=each.size,
    )
