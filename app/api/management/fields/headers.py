"""Static headers of a subscription. Their values can be set, but are never shown."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from app.api.bodies.base import JsonObject, Schema, checked
from app.domain.catalogue.headers import Header
from app.domain.errors import ValidationFailedError
from app.domain.secrets import MASK, MASKED


def _real_value(text: str) -> str:
    if text == MASK:
        raise ValidationFailedError.of("value", f"{MASKED}, or leave the header out")
    return text


class HeaderBody(Schema):
    """A header that is sent with every message."""

    name: str = Field(examples=["X-Api-Key"])
    value: Annotated[str, checked(_real_value)] = Field(
        description="stored encrypted; `*****` keeps the value of the header of that name"
    )

    @classmethod
    def of(cls, header: Header) -> "HeaderBody":
        """Return the body that describes the header with its value."""
        return cls(name=header.name, value=header.value)

    def to_domain(self) -> Header:
        """Return the header."""
        return Header(name=self.name, value=self.value)


class HeaderRead(Schema):
    """A header that is sent with every message, without its value."""

    name: str
    value: str = Field(default=MASK, description="never shown", examples=[MASK])

    @classmethod
    def of(cls, header: Header) -> "HeaderRead":
        """Return the response for a header, which has its name only."""
        return cls(name=header.name)


def unmasked(given: object, current: Sequence[Header]) -> object:
    """Return `given` (the headers in a body) with stored values in place of masks.

    A mask stands for the value of the current header with the same name. If a name is repeated, the
    headers are matched in order. Other masks stay unchanged, and validation refuses them.
    """
    if not isinstance(given, list):
        return given
    kept: dict[str, Iterator[Header]] = {
        name: iter([each for each in current if each.name.lower() == name])
        for name in {each.name.lower() for each in current}
    }
    return [_unmasked(each, kept) for each in given]


def _unmasked(given: object, kept: Mapping[str, Iterator[Header]]) -> Any:  # noqa: ANN401 - JSON can have any type
    name = given.get("name") if isinstance(given, dict) else None
    if not isinstance(given, dict) or not isinstance(name, str) or given.get("value") != MASK:
        return given
    found = next(kept.get(name.lower(), iter(())), None)
    return given if found is None else JsonObject(given) | {"value": found.value}
