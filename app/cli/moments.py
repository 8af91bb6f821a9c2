"""Times as users type them: 2026-01-31T12:00, or -6h for six hours ago (pure)."""

from datetime import datetime
from typing import Final

from app.domain.moments import ago_of, parsed_moment

RULE: Final = (
    "must be a time as 2026-01-31T12:00 (UTC unless it has an offset), ms since the epoch,"
    " or -30s, -30m, -6h, -2d"
)


def moment_of(text: str, *, now: datetime) -> datetime:
    """Parse a time as people type it. Relative times, such as -6h, are relative to `now`.

    Raises:
        ValueError: The text is no time.
    """
    try:
        ago = ago_of(text)
        return parsed_moment(text) if ago is None else now - ago
    except (ValueError, OverflowError, OSError) as exc:
        raise ValueError(RULE) from exc
