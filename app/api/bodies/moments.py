"""Times in requests."""

from datetime import UTC, datetime
from typing import Final

from app.domain.errors import ValidationFailedError
from app.domain.moments import ago_of, parsed_moment

_RULE: Final = (
    "must be a time like 2026-01-31T12:00:00Z, milliseconds since the epoch, or how long ago: -30s,"
    " -30m, -6h, -2d"
)


def moment_of(text: str, *, now: datetime, path: str) -> datetime:
    """Parse RFC 3339 (UTC unless it has an offset), ms since the epoch, or `-30s` to `-2d`.

    A time before the year 1 becomes the start of year 1.

    Raises:
        ValidationFailedError: The text is not a time in one of these forms; the error names `path`.
    """
    try:
        return _before(text, now) or parsed_moment(text)
    except (ValueError, OverflowError, OSError) as exc:
        raise ValidationFailedError.of(path, _RULE) from exc


def instant_of(text: str | None, *, path: str) -> datetime | None:
    """Parse a time as `moment_of` does, relative to now; return None for None."""
    return None if text is None else moment_of(text, now=datetime.now(UTC), path=path)


def _before(text: str, now: datetime) -> datetime | None:
    ago = ago_of(text)
    try:
        return None if ago is None else now - ago
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)
