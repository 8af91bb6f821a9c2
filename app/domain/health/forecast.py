"""Computes which messages a lagging subscription will lose, and when, if nothing changes (pure).

The model is a queue: the messages that wait for one cursor, from the offset `front` on, each with
its arrival time. Messages are taken from the queue in order, at a constant rate. A message is lost
if it is not taken within the time `life` after its arrival. Numbers of messages need not be whole
numbers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from app.domain.health.arrivals import Point

# How far the forecast looks into the future. It assumes that until then messages are published at
# the current rate.
HORIZON: Final = timedelta(days=1)
# A smaller number of lost messages than this is a rounding error.
_LEAST: Final = 0.5


class LossCause(StrEnum):
    """Why a message is lost: the limit that it reaches before it is delivered.

    RETENTION: the log deletes the message. PUBLISH_TTL: the message is too old for its first
    attempt. MESSAGE_TTL: the message was retried for too long. RETRY_BUFFER: the message is
    discarded to make space for others in the retry buffer.
    """

    RETENTION = "RETENTION"
    PUBLISH_TTL = "PUBLISH_TTL"
    MESSAGE_TTL = "MESSAGE_TTL"
    RETRY_BUFFER = "RETRY_BUFFER"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """The messages that a subscription will probably lose for one cause.

    Attributes:
        cause: Why the messages will be lost.
        at: When the first message will be lost.
        messages: How many of the messages that wait now will be lost.
        rate: How many messages per second must be delivered so that no further message is lost.
            None: no rate helps.
    """

    cause: LossCause
    at: datetime
    messages: int
    rate: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """The messages that wait for a cursor.

    Attributes:
        arrived: When the waiting messages arrived, as points. The last point is the end of the
            partition now.
        arrival_rate: How many messages per second arrive from now on.
        output_rate: How many messages per second are taken from now on.
    """

    arrived: Sequence[Point]
    arrival_rate: float
    output_rate: float

    @property
    def front(self) -> float:
        """The offset of the next message to take."""
        return self.arrived[0].offset

    @property
    def end(self) -> float:
        """The offset of the next message to arrive."""
        return self.arrived[-1].offset

    @property
    def now(self) -> float:
        """The current time in seconds since the epoch."""
        return self.arrived[-1].at

    @property
    def waiting(self) -> float:
        """The number of messages that wait now."""
        return self.end - self.front


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """The messages that will be lost from one queue.

    Attributes:
        first_in: The seconds until the first message will be lost; None if no message will be lost.
        messages: How many of the messages that wait now will be lost.
        rate: How many messages per second must be taken so that no further message is lost.
    """

    first_in: float | None
    messages: float
    rate: float


def drain_seconds(queue: Queue) -> float | None:
    """Return the seconds until no message waits any more; None if this never happens."""
    if queue.waiting < 1:
        return 0.0
    gain = queue.output_rate - queue.arrival_rate
    return queue.waiting / gain if gain > 0 else None


def expiry(queue: Queue, life: timedelta) -> Expiry:
    """Return which messages of the queue will be lost.

    A message is lost if it is not taken within the time `life` after its arrival.
    """
    walk = _Walk(queue)
    for point, deadline in _deadlines(queue, life.total_seconds()):
        walk.to(point.offset, deadline, waits=point.at <= queue.now)
    # The needed rate is at least the rate of arrivals. A lower rate is not enough in the long term.
    rate = max(walk.rate, queue.arrival_rate)
    return Expiry(first_in=walk.first, messages=walk.lost, rate=rate)


def _deadlines(queue: Queue, life: float) -> Iterator[tuple[Point, float]]:
    """Yield points of past and future arrivals, each with its deadline.

    The deadline is the number of seconds until messages that arrived at the point are lost.
    """
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
    """Checks the points of a queue, in the order of their deadlines.

    If not all messages before a point are taken by the deadline of the point, some are lost.
    """

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._taken = queue.front
        # The offset of the last checked point of the queue.
        self._offset = queue.front
        # The deadline of the last checked point of the queue.
        self._deadline = 0.0
        # The deadlines of the messages before this offset have passed, so no rate can save them.
        self._overdue = queue.front
        # The results so far: the seconds until the first loss, the number of lost messages, and the
        # rate that is needed.
        self.first: float | None = None
        self.lost = 0.0
        self.rate = 0.0

    def to(self, offset: float, deadline: float, *, waits: bool) -> None:
        """Check the next point, which has the offset `offset` and the deadline `deadline`.

        `waits` says whether the messages before the point have already arrived.
        """
        # The messages before the offset `taken` can be taken by the deadline. This offset may be
        # higher than the offset of the last message that has arrived by then. In this case, no
        # later message is lost either.
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
        """Remember the rate with which all messages before the point are taken by its deadline.

        If the deadline has passed, no rate is high enough.
        """
        if deadline > 0:
            self.rate = max(self.rate, (offset - self._overdue) / deadline)
        else:
            self._overdue = max(self._overdue, offset)

    def _crossing(self, offset: float, deadline: float) -> float:
        """Return the time from which on messages are taken too late, in seconds from now.

        The time is between the deadline of the previous point and `deadline`.
        """
        span = deadline - self._deadline
        gaining = (offset - self._offset) - self._queue.output_rate * span
        share = (self._taken - self._offset) / gaining if gaining > 0 else 0.0
        return self._deadline + min(1.0, max(0.0, share)) * span
