"""What a subscription that lags will lose, and when, if all goes on as it does (pure).

A queue is what waits for one cursor: messages from `front` on, each with the time at which it
arrived and, `life` later, the time at which it is lost unless it was taken before. Messages leave
it in order, so many a second. In between it is a fluid: a message may be a part of one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from app.domain.health.arrivals import Point

# Messages that are published within this time are looked at, too, if they go on arriving.
HORIZON: Final = timedelta(days=1)
# Less than this is an error of rounding.
_LEAST: Final = 0.5


class LossCause(StrEnum):
    """What ends before a message is delivered.

    RETENTION: the log keeps it no longer. PUBLISH_TTL: it is too old for its first attempt.
    MESSAGE_TTL: it has been tried for too long. RETRY_BUFFER: so that it makes room for others.
    """

    RETENTION = "RETENTION"
    PUBLISH_TTL = "PUBLISH_TTL"
    MESSAGE_TTL = "MESSAGE_TTL"
    RETRY_BUFFER = "RETRY_BUFFER"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """The first message is lost at that time, and of those that wait now so many altogether.

    With `rate` deliveries a second from now on no more would be lost; None: no rate helps.
    """

    cause: LossCause
    at: datetime
    messages: int
    rate: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """What waits for a cursor: `arrived` begins with the first message and ends now.

    Messages a second: `arrival_rate` from now on, `output_rate` taken out of it.
    """

    arrived: Sequence[Point]
    arrival_rate: float
    output_rate: float

    @property
    def front(self) -> float:
        """The next message to be taken."""
        return self.arrived[0].offset

    @property
    def end(self) -> float:
        """Where the next message arrives."""
        return self.arrived[-1].offset

    @property
    def now(self) -> float:
        """The time it describes, in seconds since the epoch."""
        return self.arrived[-1].at

    @property
    def waiting(self) -> float:
        """Messages that wait."""
        return self.end - self.front


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """What one queue loses: the first message `first_in` seconds from now; None: nothing.

    `messages` are of those that wait now. `rate` would lose no more, in messages a second.
    """

    first_in: float | None
    messages: float
    rate: float


def drain_seconds(queue: Queue) -> float | None:
    """When nothing waits any more, in seconds from now; None: never."""
    if queue.waiting < 1:
        return 0.0
    gain = queue.output_rate - queue.arrival_rate
    return queue.waiting / gain if gain > 0 else None


def expiry(queue: Queue, life: timedelta) -> Expiry:
    """What the queue loses of messages that are lost `life` after their arrival."""
    walk = _Walk(queue)
    for point, deadline in _deadlines(queue, life.total_seconds()):
        walk.to(point.offset, deadline, waits=point.at <= queue.now)
    # In the end as much must leave as arrives.
    rate = max(walk.rate, queue.arrival_rate)
    return Expiry(first_in=walk.first, messages=walk.lost, rate=rate)


def _deadlines(queue: Queue, life: float) -> Iterator[tuple[Point, float]]:
    """Points of the arrivals, those to come included, each with the seconds it has left."""
    horizon = HORIZON.total_seconds()
    later = Point(queue.now + horizon, queue.end + queue.arrival_rate * horizon)
    overdue = queue.now - life
    before = queue.arrived[0]
    for point in (*queue.arrived, later):
        if before.at < overdue < point.at:
            share = (overdue - before.at) / (point.at - before.at)
            yield Point(overdue, before.offset + share * (point.offset - before.offset)), 0.0
        yield point, max(0.0, point.at - overdue)
        before = point


class _Walk:
    """From deadline to deadline: what is before the point must have been taken, or is lost."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._taken = queue.front
        # The point before, and when its deadline is.
        self._offset = queue.front
        self._deadline = 0.0
        self._overdue = queue.front
        self.first: float | None = None
        self.lost = 0.0
        self.rate = 0.0

    def to(self, offset: float, deadline: float, *, waits: bool) -> None:
        """Go on to the next point, which is among what waits, or will only come."""
        # It may be ahead of what has arrived by then: whatever takes so much loses nothing later.
        taken = self._taken + self._queue.output_rate * (deadline - self._deadline)
        short = offset - taken
        if short > _LEAST:
            if self.first is None:
                self.first = self._crossing(offset, deadline)
            self.lost += short if waits else 0.0
        self._need(offset, deadline)
        self._taken = max(taken, offset)
        self._offset, self._deadline = offset, deadline

    def _need(self, offset: float, deadline: float) -> None:
        """The rate that takes all before the point in time; nothing helps what is overdue."""
        if deadline > 0:
            self.rate = max(self.rate, (offset - self._overdue) / deadline)
        else:
            self._overdue = max(self._overdue, offset)

    def _crossing(self, offset: float, deadline: float) -> float:
        """When the deadlines overtake what is taken, between the point before and this one."""
        span = deadline - self._deadline
        gaining = (offset - self._offset) - self._queue.output_rate * span
        share = (self._taken - self._offset) / gaining if gaining > 0 else 0.0
        return self._deadline + min(1.0, max(0.0, share)) * span
