"""The start position of a new subscription: whether it gets older messages of its topic."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from app.domain.errors import ValidationFailedError

FIELD: Final = "startFrom"
# How far in the future a start time may be, because the caller's clock may be ahead.
AHEAD_MAX: Final = timedelta(minutes=1)


class Edge(StrEnum):
    """Where a new subscription starts. EARLIEST: with the oldest message in the log.

    LATEST: with the next message that is published.
    """

    EARLIEST = "earliest"
    LATEST = "latest"


# Where a new subscription starts. A time means: in each partition with the first message that was
# published then or later.
Beginning = Edge | datetime


def require_reached(beginning: Beginning, *, now: datetime) -> Beginning:
    """Return `beginning` if it is not in the future; otherwise raise a ValidationFailedError.

    Until a time in the future, the subscription would have to skip messages, which is not possible.
    """
    if isinstance(beginning, datetime) and beginning > now + AHEAD_MAX:
        raise ValidationFailedError.of(FIELD, "must not be a time to come")
    return beginning


def beginning_text(beginning: Beginning) -> str:
    """Return the start position as text for audit events."""
    return beginning.isoformat() if isinstance(beginning, datetime) else beginning.value
