"""Where a new subscription starts: whether it gets older messages of its topic."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from app.domain.errors import ValidationFailedError

FIELD: Final = "startFrom"
# The maximum time by which a start time may be in the future. The clock of the caller may be ahead.
AHEAD_MAX: Final = timedelta(minutes=1)


class Edge(StrEnum):
    """One of the two ends of a topic, at which a new subscription may start.

    EARLIEST: it starts with the oldest message in the log. LATEST: it starts with the next message
    that is published.
    """

    EARLIEST = "earliest"
    LATEST = "latest"


# Where a new subscription starts: at an end of the topic, or at a time. With a time, it starts in
# each partition with the first message that was published at this time or later.
Beginning = Edge | datetime


def require_reached(beginning: Beginning, *, now: datetime) -> Beginning:
    """Return `beginning` if it is not a time in the future.

    A subscription cannot start in the future, because it cannot skip messages until then.

    Raises:
        ValidationFailedError: The time is in the future.
    """
    if isinstance(beginning, datetime) and beginning > now + AHEAD_MAX:
        raise ValidationFailedError.of(FIELD, "must not be a time to come")
    return beginning


def beginning_text(beginning: Beginning) -> str:
    """Return the start position as text for audit events."""
    return beginning.isoformat() if isinstance(beginning, datetime) else beginning.value
