"""Where a new subscription begins in its topic: with history, or with what comes next."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from app.domain.errors import ValidationFailedError

FIELD: Final = "startFrom"
# How far the clock of who asks may be ahead of ours.
AHEAD_MAX: Final = timedelta(minutes=1)


class Edge(StrEnum):
    """EARLIEST: with the oldest message that the log has. LATEST: with the next one."""

    EARLIEST = "earliest"
    LATEST = "latest"


# A time: with the first message of each partition that was published then or later.
Beginning = Edge | datetime


def require_reached(beginning: Beginning, *, now: datetime) -> Beginning:
    """`beginning`, unless it is a time to come: messages before it could not be held back."""
    if isinstance(beginning, datetime) and beginning > now + AHEAD_MAX:
        raise ValidationFailedError.of(FIELD, "must not be a time to come")
    return beginning


def beginning_text(beginning: Beginning) -> str:
    """As it is written into audit events."""
    return beginning.isoformat() if isinstance(beginning, datetime) else beginning.value
