"""Times in requests."""

from datetime import UTC, datetime
from typing import Annotated, Final

from pydantic import BeforeValidator, WithJsonSchema

from app.api.bodies.base import Text
from app.domain.errors import ValidationFailedError
from app.domain.moments import ago_of, parsed_moment

_RULE: Final = (
    "must be a time like 2026-01-31T12:00:00Z, milliseconds since the epoch, or how long ago: -30s,"
    " -30m, -6h, -2d"
)


def moment_text(given: object) -> object:
    """Return a whole number, milliseconds since the epoch, as text; any other value unchanged."""
    return str(given) if type(given) is int else given


MomentText = Annotated[
    Text,
    BeforeValidator(moment_text),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "integer"}]}),
]
"""The text of a time in a body, for `moment_of`. A body may also have milliseconds as a number."""


def moment_of(text: str, *, now: datetime, path: str) -> datetime:
    """Parse a time: as in RFC 3339, in milliseconds since the epoch, or as a time before `now`.

    A time before `now` is written as `-30s`, `-30m`, `-6h` or `-2d`. An RFC 3339 time without an
    offset is in UTC. A time before the year 1 becomes the start of year 1.

    Raises:
        ValidationFailedError: The text is not a time in one of these forms. The error names `path`.
    """
    try:
        return _before(text, now) or parsed_moment(text)
    except (ValueError, OverflowError, OSError) as exc:
        raise ValidationFailedError.of(path, _RULE) from exc


def instant_of(text: str | None, *, path: str) -> datetime | None:
    """Parse a time as `moment_of` does, with the current time as `now`; return None for None."""
    return None if text is None else moment_of(text, now=datetime.now(UTC), path=path)


def _before(text: str, now: datetime) -> datetime | None:
    ago = ago_of(text)
    try:
        return None if ago is None else now - ago
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)
