"""Messages between two attempts: they hold no thread, no connection, no timer of their own."""

import heapq
from collections.abc import Callable
from typing import Final

from workers.consumer.schedule.delivery_job import DeliveryJob

# So many of those that are gone are no reason to tidy up.
_GONE_MIN: Final = 64


class RetryQueue:
    """Jobs by the time at which they may be tried again (monotonic seconds)."""

    def __init__(self) -> None:
        # The heaps may name jobs that are gone; these are the ones that wait, with their times.
        self._waiting: dict[int, tuple[float, DeliveryJob]] = {}
        self._by_due: list[tuple[float, int]] = []
        self._by_age: list[tuple[float, int]] = []
        # Those that are deferred, by age.
        self._deferred: list[tuple[float, int]] = []
        self._sequence = 0

    def __len__(self) -> int:
        """Jobs that wait."""
        return len(self._waiting)

    def has(self, due: float) -> bool:
        """Whether there is one that is due by then."""
        first = self.next_due
        return first is not None and first <= due

    @property
    def next_due(self) -> float | None:
        """When the first of them is due."""
        number = self._first(self._by_due)
        return None if number is None else self._waiting[number][0]

    @property
    def oldest(self) -> DeliveryJob | None:
        """As `take_oldest`, and it stays."""
        number = self._first(self._by_age)
        return None if number is None else self._waiting[number][1]

    def has_deferred(self, due: float) -> bool:
        """Whether the oldest of those that are deferred is due by then."""
        oldest = self.deferred_due
        return oldest is not None and oldest <= due

    @property
    def deferred_due(self) -> float | None:
        """When the oldest of those that are deferred is due."""
        number = self._first(self._deferred) if self._deferred else None
        return None if number is None else self._waiting[number][0]

    def add(self, job: DeliveryJob, due: float) -> None:
        """Keep `job` until `due`."""
        self._sequence += 1
        self._waiting[self._sequence] = (due, job)
        heapq.heappush(self._by_due, (due, self._sequence))
        heapq.heappush(self._by_age, (job.due, self._sequence))
        if job.deferred:
            heapq.heappush(self._deferred, (job.due, self._sequence))
        if max(len(self._by_due), len(self._by_age)) > 2 * len(self._waiting) + _GONE_MIN:
            self._tidy()

    def take(self, now: float) -> DeliveryJob | None:
        """The job that has been due longest."""
        due = self.next_due
        return None if due is None or due > now else self._taken(self._by_due)

    def take_oldest(self) -> DeliveryJob | None:
        """The job whose first attempt was due first, due again or not."""
        return self._taken(self._by_age)

    def take_deferred(self) -> DeliveryJob | None:
        """The oldest of those that are deferred, due or not."""
        return self._taken(self._deferred)

    def remove(self, unwanted: Callable[[DeliveryJob], bool]) -> None:
        """Forget the jobs that are `unwanted`."""
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
