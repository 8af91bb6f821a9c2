"""Commits of one cursor that failed one after another: when the next is due, and what users see."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from app.domain.message import Partition
from workers.reading.holds import Hold

# Failed commits are shown to users only after this time. A new coordinator of a group, for example,
# takes less.
SHOWN_AFTER: Final = timedelta(seconds=30)
# The pause after the second failure. The first failure has none, because most are the only one.
_PAUSE_MIN: Final = timedelta(milliseconds=300)
_DOUBLINGS_MAX: Final = 20


@dataclass(slots=True)
class FailedCommits:
    """The last commits of a cursor, which all failed: since when, how many, and why the last."""

    since: datetime
    count: int = 0
    reason: str = ""

    def add(self, reason: str) -> None:
        """Note another failed commit."""
        self.count += 1
        self.reason = reason

    def pause(self, pause_max: timedelta) -> timedelta:
        """Return the pause before the next commit. It doubles with each failure but the first."""
        if self.count == 1:
            return timedelta()
        return min(_PAUSE_MIN * (1 << min(self.count - 2, _DOUBLINGS_MAX)), pause_max)

    def hold(self, partition: Partition, now: datetime | None = None) -> Hold | None:
        """Return what the commits wait for; None if they have not failed for SHOWN_AFTER."""
        if (now or datetime.now(UTC)) - self.since < SHOWN_AFTER:
            return None
        return Hold(partition, f"the log to take its commits ({self.reason})", self.since)
