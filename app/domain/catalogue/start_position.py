"""The start position of a new subscription: whether it gets older messages of its topic."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from app.domain.errors import ValidationFailedError

FIELD: Final = "startFrom"
# How far in the future a start time may be, because the caller's clock may be ahead.
AHEAD_MAX: Final = timedelta(minutes=1)


class Edge(StrEnum):
    """EARLIEST: start with the oldest message in the log. LATEST: start with the next message."""

    EARLIEST = "earliest"
    LATEST = "latest"


# Where to start. A time means the first message of each partition that was published then or later.
Beginning = Edge | datetime


def require_reached(beginning: Beginning, *, now: datetime) -> Beginning:
    """Return `beginning` if it is not in the future; otherwise raise a ValidationFailedError.

    A start in the future is not possible: earlier messages could not be held back.
    """
    if isinstance(beginning, datetime) and beginning > now + AHEAD_MAX:
        raise ValidationFailedError.of(FIELD, "must not be a time to come")
    return beginning


def beginning_text(beginning: Beginning) -> str:
    """Return the start position as text for audit events."""
    return beginning.isoformat() if isinstance(beginning, datetime) else beginning.value
