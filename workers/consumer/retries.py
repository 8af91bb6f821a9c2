"""Messages between two attempts: they hold no thread, no connection, no timer of their own."""

import heapq
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from app.domain.delivery import Discarded  # noqa: TC001 - hidden types help nobody
from app.domain.message import Message
from workers.consumer.collected import CollectedBatch
from workers.consumer.cursor import Cursor
from workers.delivery.flight import InAir  # noqa: TC001 - hidden types help nobody
from workers.transport.opening import Opening  # noqa: TC001 - hidden types help nobody

# So many of those that are gone are no reason to tidy up.
_GONE_MIN: Final = 64


class Failing:
    """Since when a message fails, and what its time to live is spared if that does not stand."""

    __slots__ = ("since", "spared")

    def __init__(self, since: float) -> None:
        self.since = since
        self.spared: float | None = None


class DeliveryJob:
    """One message on its way: what was read, where, and how often it was tried.

    One that is `refused` is not sent any more. `status` is the last that was answered. Its first
    attempt may be made from `due` on, and its time to live, which ends at its `deadline`, was
    `ttl_s` seconds when it was opened. `in_air` is its attempt until that has landed, if it is
    called back. It is `put_off` if it was answered last: come later. It was so `alone` as many
    times, as the one request after the time that was asked for. `failing` is a circuit breaker's to
    know. `opened_ms` (since the epoch) and
    `ended_at`, when its last attempt was over, are a trace's, and so is what is known of the
    connection of an attempt that is awaited (`opening`). `progress` is held for its destination,
    once that has made some: nobody else looks at it.
    """

    __slots__ = (
        "alone",
        "attempts",
        "backoffs",
        "cursor",
        "deadline",
        "due",
        "ended_at",
        "epoch",
        "failing",
        "in_air",
        "message",
        "opened_ms",
        "opening",
        "progress",
        "put_off",
        "refused",
        "sent_at",
        "status",
        "ttl_s",
    )

    progress: object

    def __init__(self, message: Message, cursor: Cursor, deadline: float) -> None:
        self.message = message
        self.cursor = cursor
        self.deadline = deadline
        self.ttl_s = 0.0
        self.due = 0.0
        self.attempts = 0
        self.backoffs = 0
        # Of its last attempt: when it left, and in which epoch of its line's pace.
        self.sent_at = 0.0
        self.epoch = 0
        self.failing: Failing | None = None
        self.refused: Discarded | None = None
        self.status: int | None = None
        self.in_air: InAir | None = None
        self.opened_ms = 0
        self.ended_at = 0.0
        self.opening: Opening | None = None
        self.put_off = False
        self.alone = 0

    def started(self) -> None:
        """A request of it is about to leave."""
        self.cursor.started()

    def landed(self) -> None:
        """That request is over, whatever came of it."""
        self.cursor.landed()

    def delivered(self) -> None:
        """The subscriber has it."""
        self.cursor.delivered(self.message)

    def recall_attempts(self) -> None:
        """Count on from what commits said."""
        self.attempts = self.cursor.attempts.get(self.message.offset, 0)

    def keep_attempts(self) -> None:
        """Have commits say how often it was tried."""
        self.cursor.tried(self.message, self.attempts)

    def leave(self, cursors: AbstractSet[Cursor]) -> bool:
        """Forget what is of `cursors`, which close; whether nothing is left of it."""
        return self.cursor in cursors

    def is_left(self) -> bool:
        """Whether nothing of it is to be tried again here, as its cursors close."""
        return self.cursor.closing

    def singles(self) -> "Iterator[DeliveryJob]":
        """Each message as a job of its own."""
        yield self

    @property
    def is_open(self) -> bool:
        """Whether any of its messages is unfinished."""
        return self.cursor.is_open(self.message)


class BatchJob(DeliveryJob):
    """A batch on its way: it is tried as one, and finished message by message.

    `cursor` is that of its first message.
    """

    __slots__ = ("_in_air",)

    message: CollectedBatch
    _in_air: Sequence[Cursor]

    def started(self) -> None:
        """A request of it is about to leave, for each of its cursors."""
        self._in_air = self.message.cursors
        for cursor in self._in_air:
            cursor.started()

    def landed(self) -> None:
        """That request is over, also for cursors that have left it meanwhile."""
        for cursor in self._in_air:
            cursor.landed()

    def delivered(self) -> None:
        """The subscriber has all of it."""
        for opened in self.message.opened:
            opened.cursor.delivered(opened.message)

    def recall_attempts(self) -> None:
        """Count on from what commits said of the message that was tried least.

        Messages that are new are batched with others that were tried before.
        """
        opened = self.message.opened
        self.attempts = min(o.cursor.attempts.get(o.message.offset, 0) for o in opened)

    def keep_attempts(self) -> None:
        """Have commits say how often each of its messages was tried."""
        for opened in self.message.opened:
            opened.cursor.tried(opened.message, self.attempts)

    def leave(self, cursors: AbstractSet[Cursor]) -> bool:
        """Forget what is of `cursors`; whether nothing is left of it."""
        if not self.message.leave(cursors):
            return True
        self.cursor = self.message.opened[0].cursor
        return False

    def is_left(self) -> bool:
        """Whether all its cursors close; what is of some that close is forgotten."""
        return self.leave({cursor for cursor in self.message.cursors if cursor.closing})

    def singles(self) -> Iterator[DeliveryJob]:
        """Each message as a job of its own, as often tried as the batch."""
        for opened in self.message.opened:
            job = DeliveryJob(opened.message, opened.cursor, self.deadline)
            job.due, job.attempts, job.status = self.due, self.attempts, self.status
            job.ttl_s = self.ttl_s
            yield job

    @property
    def is_open(self) -> bool:
        """Whether any of its messages is unfinished."""
        return any(each.cursor.is_open(each.message) for each in self.message.opened)


def job_of(message: Message, cursor: Cursor, deadline: float) -> DeliveryJob:
    """The job of a message, or of a batch."""
    kind = BatchJob if isinstance(message, CollectedBatch) else DeliveryJob
    return kind(message, cursor, deadline)


class RetryPark:
    """Jobs by the time at which they may be tried again (monotonic seconds)."""

    def __init__(self) -> None:
        # The heaps may name jobs that are gone; these are the ones that wait, with their times.
        self._waiting: dict[int, tuple[float, DeliveryJob]] = {}
        self._by_due: list[tuple[float, int]] = []
        self._by_age: list[tuple[float, int]] = []
        # Those that are put off, by age.
        self._put_off: list[tuple[float, int]] = []
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

    def has_put_off(self, due: float) -> bool:
        """Whether the oldest of those that are put off is due by then."""
        oldest = self.put_off_due
        return oldest is not None and oldest <= due

    @property
    def put_off_due(self) -> float | None:
        """When the oldest of those that are put off is due."""
        number = self._first(self._put_off) if self._put_off else None
        return None if number is None else self._waiting[number][0]

    def park(self, job: DeliveryJob, due: float) -> None:
        """Keep `job` until `due`."""
        self._sequence += 1
        self._waiting[self._sequence] = (due, job)
        heapq.heappush(self._by_due, (due, self._sequence))
        heapq.heappush(self._by_age, (job.due, self._sequence))
        if job.put_off:
            heapq.heappush(self._put_off, (job.due, self._sequence))
        if max(len(self._by_due), len(self._by_age)) > 2 * len(self._waiting) + _GONE_MIN:
            self._tidy()

    def take(self, now: float) -> DeliveryJob | None:
        """The job that has been due longest."""
        due = self.next_due
        return None if due is None or due > now else self._taken(self._by_due)

    def take_oldest(self) -> DeliveryJob | None:
        """The job whose first attempt was due first, due again or not."""
        return self._taken(self._by_age)

    def take_put_off(self) -> DeliveryJob | None:
        """The oldest of those that are put off, due or not."""
        return self._taken(self._put_off)

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
        self._put_off = [
            (job.due, number) for number, (_, job) in self._waiting.items() if job.put_off
        ]
        for heap in (self._by_due, self._by_age, self._put_off):
            heapq.heapify(heap)
