"""The messages that wait between two attempts.

A waiting message needs no thread, connection or timer of its own.
"""

import heapq
from collections.abc import Callable
from typing import Final

from workers.consumer.schedule.delivery_job import DeliveryJob

# A heap also has entries of messages that were removed from the queue. If it has more entries than
# twice the number of waiting messages plus this number, the entries of removed messages are taken
# out.
_GONE_MIN: Final = 64


class RetryQueue:
    """Messages and batches that wait, ordered by the time of their next attempt.

    Times are monotonic seconds.
    """

    def __init__(self) -> None:
        # The waiting messages and batches, with their times. Removed ones may still be in the
        # heaps, but are not here.
        self._waiting: dict[int, tuple[float, DeliveryJob]] = {}
        self._by_due: list[tuple[float, int]] = []
        self._by_age: list[tuple[float, int]] = []
        # Deferred messages and batches, the oldest first.
        self._deferred: list[tuple[float, int]] = []
        self._sequence = 0

    def __len__(self) -> int:
        """The number of waiting messages and batches."""
        return len(self._waiting)

    def has(self, due: float) -> bool:
        """Whether a message or batch is due at the time `due` or before."""
        first = self.next_due
        return first is not None and first <= due

    @property
    def next_due(self) -> float | None:
        """The time at which the first message or batch is due; None if none waits."""
        number = self._first(self._by_due)
        return None if number is None else self._waiting[number][0]

    @property
    def oldest(self) -> DeliveryJob | None:
        """Return the message or batch that `take_oldest` would return, and keep it in the queue."""
        number = self._first(self._by_age)
        return None if number is None else self._waiting[number][1]

    def has_deferred(self, due: float) -> bool:
        """Whether the oldest deferred message or batch is due at the time `due` or before."""
        oldest = self.deferred_due
        return oldest is not None and oldest <= due

    @property
    def deferred_due(self) -> float | None:
        """The time at which the oldest deferred message or batch is due; None if there is none."""
        number = self._first(self._deferred) if self._deferred else None
        return None if number is None else self._waiting[number][0]

    def add(self, job: DeliveryJob, due: float) -> None:
        """Add the message or batch `job`, which is due at the time `due`."""
        self._sequence += 1
        self._waiting[self._sequence] = (due, job)
        heapq.heappush(self._by_due, (due, self._sequence))
        heapq.heappush(self._by_age, (job.due, self._sequence))
        if job.deferred:
            heapq.heappush(self._deferred, (job.due, self._sequence))
        if max(len(self._by_due), len(self._by_age)) > 2 * len(self._waiting) + _GONE_MIN:
            self._tidy()

    def hasten(self, now: float) -> None:
        """Let all deferred messages and batches be due at `now`."""
        self._waiting = {
            number: (min(due, now) if job.deferred else due, job)
            for number, (due, job) in self._waiting.items()
        }
        self._tidy()

    def take(self, now: float) -> DeliveryJob | None:
        """Remove and return the message or batch that was due first; None if none is due."""
        due = self.next_due
        return None if due is None or due > now else self._taken(self._by_due)

    def take_oldest(self) -> DeliveryJob | None:
        """Remove and return the message or batch with the earliest first attempt, due or not."""
        return self._taken(self._by_age)

    def take_deferred(self) -> DeliveryJob | None:
        """Remove and return the oldest deferred message or batch, whether it is due or not."""
        return self._taken(self._deferred)

    def remove(self, unwanted: Callable[[DeliveryJob], bool]) -> None:
        """Remove the messages and batches for which `unwanted` is true."""
        self._waiting = {n: kept for n, kept in self._waiting.items() if not unwanted(kept[1])}
        self._tidy()

    def _taken(self, heap: list[tuple[float, int]]) -> DeliveryJob | None:
        number = self._first(heap)
        return None if number is None else self._waiting.pop(number)[1]

    def _first(self, heap: list[tuple[float, int]]) -> int | None:
        while heap and heap[0][1] not in self._waiting:
            heapq.heappop(heap)
        return heap[0][1] if heap else None

    def _tidy(self) -> None:
        self._by_due = [(due, number) for number, (due, _) in self._waiting.items()]
        self._by_age = [(job.due, number) for number, (_, job) in self._waiting.items()]
        self._deferred = [
            (job.due, number) for number, (_, job) in self._waiting.items() if job.deferred
        ]
        for heap in (self._by_due, self._by_age, self._deferred):
            heapq.heapify(heap)
