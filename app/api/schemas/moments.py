"""Times as requests say them."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from app.domain.errors import ValidationFailedError

_AGO: Final = re.compile(r"-([0-9]{1,6})([mhd])")
_UNITS: Final = {
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}


def moment_of(text: str, *, now: datetime, path: str) -> datetime:
    """The time that a text names: RFC 3339, ms, or `-30m`, `-6h`, `-2d`; ValidationFailedError."""
    if ago := _AGO.fullmatch(text):
        try:
            return now - int(ago[1]) * _UNITS[ago[2]]
        except OverflowError:
            return datetime.min.replace(tzinfo=UTC)
    moment = instant_of(text, path=path)
    if moment is None:
        raise ValidationFailedError.of(path, "must not be empty")
    return moment


def instant_of(text: str | None, *, path: str) -> datetime | None:
    """A query parameter that is an RFC 3339 time (UTC unless it has an offset) or epoch ms."""
    if text is None:
        return None
    try:
        return _instant(text)
    except (ValueError, OverflowError, OSError) as exc:
        message = "must be a time like 2026-01-31T12:00:00Z, or milliseconds since the epoch"
        raise ValidationFailedError.of(path, message) from exc


def _instant(text: str) -> datetime:
    if text.isascii() and text.isdigit():
        return datetime.fromtimestamp(int(text) / 1000, UTC)
    parsed = datetime.fromisoformat(text)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
