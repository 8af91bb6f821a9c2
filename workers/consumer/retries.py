"""Messages between two attempts: they hold no thread, no connection, no timer of their own."""

import heapq
from collections.abc import Callable

from app.domain.delivery import Discarded  # noqa: TC001 - hidden types help nobody
from app.domain.message import Message
from workers.consumer.cursor import Cursor


class Job:
    """One message on its way: what was read, where, and how often it was tried.

    One that is `refused` is not sent any more. `status` is the last that was answered.
    """

    __slots__ = (
        "attempts",
        "backoffs",
        "cursor",
        "deadline",
        "epoch",
        "message",
        "refused",
        "sent_at",
        "status",
    )

    def __init__(self, message: Message, cursor: Cursor, deadline: float) -> None:
        self.message = message
        self.cursor = cursor
        self.deadline = deadline
        self.attempts = 0
        self.backoffs = 0
        # Of its last attempt: when it left, and in which epoch of its line's pace.
        self.sent_at = 0.0
        self.epoch = 0
        self.refused: Discarded | None = None
        self.status: int | None = None


class RetryPark:
    """Jobs by the time at which they may be tried again (monotonic seconds)."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Job]] = []
        self._sequence = 0

    def __len__(self) -> int:
        """Jobs that wait."""
        return len(self._heap)

    @property
    def next_due(self) -> float | None:
        """When the first of them is due."""
        return self._heap[0][0] if self._heap else None

    def park(self, job: Job, due: float) -> None:
        """Keep `job` until `due`."""
        self._sequence += 1
        heapq.heappush(self._heap, (due, self._sequence, job))

    def take(self, now: float) -> Job | None:
        """The job that has been due longest."""
        if self._heap and self._heap[0][0] <= now:
            return heapq.heappop(self._heap)[2]
        return None

    def remove(self, unwanted: Callable[[Job], bool]) -> None:
        """Forget the jobs that are `unwanted`."""
        self._heap = [entry for entry in self._heap if not unwanted(entry[2])]
        heapq.heapify(self._heap)
