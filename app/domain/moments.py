"""Times in the forms that users write (pure)."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_AGO: Final = re.compile(r"-([0-9]{1,6})([smhd])")
_UNITS: Final = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}


def ago_of(text: str) -> timedelta | None:
    """Return the duration of `-30s`, `-30m`, `-6h` or `-2d`; None for another form."""
    found = _AGO.fullmatch(text)
    return int(found[1]) * _UNITS[found[2]] if found else None


def parsed_moment(text: str) -> datetime:
    """Parse a time as RFC 3339 (UTC if it has no offset), or as milliseconds since the epoch.

    Raises:
        ValueError, OverflowError, OSError: The text has another form, or the time is out of range.
    """
    if text.isascii() and text.isdigit():
        return datetime.fromtimestamp(int(text) / 1000, UTC)
    parsed = datetime.fromisoformat(text)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
