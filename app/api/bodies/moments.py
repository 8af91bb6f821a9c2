"""Times as requests say them."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from app.domain.errors import ValidationFailedError

_AGO: Final = re.compile(r"-([0-9]{1,6})([smhd])")
_UNITS: Final = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}


_RULE: Final = (
    "must be a time like 2026-01-31T12:00:00Z, milliseconds since the epoch, or how long ago: -30s,"
    " -30m, -6h, -2d"
)


def moment_of(text: str, *, now: datetime, path: str) -> datetime:
    """The time that a text names; ValidationFailedError.

    RFC 3339 (UTC unless it has an offset), ms since the epoch, or `-30s`, `-30m`, `-6h`, `-2d`.
    """
    if ago := _AGO.fullmatch(text):
        try:
            return now - int(ago[1]) * _UNITS[ago[2]]
        except OverflowError:
            return datetime.min.replace(tzinfo=UTC)
    try:
        return _instant(text)
    except (ValueError, OverflowError, OSError) as exc:
        raise ValidationFailedError.of(path, _RULE) from exc


def instant_of(text: str | None, *, path: str) -> datetime | None:
    """As `moment_of`, from now; None where nothing is given."""
    return None if text is None else moment_of(text, now=datetime.now(UTC), path=path)


def _instant(text: str) -> datetime:
    if text.isascii() and text.isdigit():
        return datetime.fromtimestamp(int(text) / 1000, UTC)
    parsed = datetime.fromisoformat(text)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
