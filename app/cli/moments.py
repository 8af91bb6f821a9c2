"""Times as people type them: 2026-01-31T12:00, or -6h for six hours ago (pure)."""

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
RULE: Final = (
    "must be a time as 2026-01-31T12:00 (UTC unless it has an offset), ms since the epoch,"
    " or -30s, -30m, -6h, -2d"
)


def moment_of(text: str, *, now: datetime) -> datetime:
    """The time that `text` means; ValueError."""
    try:
        if ago := _AGO.fullmatch(text):
            return now - int(ago[1]) * _UNITS[ago[2]]
        if text.isascii() and text.isdigit():
            return datetime.fromtimestamp(int(text) / 1000, UTC)
        parsed = datetime.fromisoformat(text)
    except (ValueError, OverflowError, OSError) as exc:
        raise ValueError(RULE) from exc
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
