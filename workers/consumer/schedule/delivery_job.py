"""A message or batch in delivery: the number of its attempts, and their limits."""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from app.domain.delivery import Discarded  # noqa: TC001 - TYPE_CHECKING would gain nothing
from app.domain.message import Message
from workers.consumer.commit.cursor import Cursor
from workers.consumer.source.collected_batch import CollectedBatch
from workers.delivery.in_flight import StartedRequest  # noqa: TC001 - TYPE_CHECKING would gain nothing
from workers.transport.used_connection import UsedConnection  # noqa: TC001 - TYPE_CHECKING would gain nothing


class Failing:
    """When a message began to fail, and how long its time to live had been paused until then."""

    __slots__ = ("paused_for", "since")

    def __init__(self, since: float) -> None:
        self.since = since
        self.paused_for: float | None = None


class DeliveryJob:
    """A message in delivery: its content, its position, and the number of its attempts.

    Attributes:
        refused: The reason to discard the message without another attempt.
        status: The last response status.
        due: The earliest time of the first attempt.
        deadline: The end of the time to live, which was `ttl_s` seconds when the message was
            opened.
        request: The current attempt, if its outcome comes by a callback.
        deferred: Whether the subscriber's last response was a deferral (`Retry-After`).
        deferred_alone: How often this message was the first request after a deferral and was
            deferred again.
        failing: When the attempts began to fail. The circuit breaker uses it.
        opened_ms: When the message was opened (epoch ms), for traces.
        ended_at: When its last attempt ended, for traces.
        unsent: Whether its next attempt has already been started, but nothing was sent.
        used_connection: The connection of an attempt that may have opened one, for traces.
        progress: What the destination must remember until the next attempt.
    """

    __slots__ = (
        "attempts",
        "backoffs",
        "cursor",
        "deadline",
        "deferred",
        "deferred_alone",
        "due",
        "ended_at",
        "failing",
        "message",
        "opened_ms",
        "pace_epoch",
        "progress",
        "refused",
        "request",
        "sent_at",
        "status",
        "ttl_s",
        "unsent",
        "used_connection",
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
        # When the last attempt was sent, and the number that `Pacing.sent` returned for it.
        self.sent_at = 0.0
        self.pace_epoch = 0
        self.failing: Failing | None = None
        self.refused: Discarded | None = None
        self.status: int | None = None
        self.request: StartedRequest | None = None
        self.opened_ms = 0
        self.ended_at = 0.0
        self.used_connection: UsedConnection | None = None
        self.deferred = False
        self.deferred_alone = 0
        self.unsent = False

    def request_started(self) -> None:
        """Called before a request for this message is sent."""
        self.cursor.request_started()

    def request_ended(self) -> None:
        """Called when the request has ended, whatever its outcome."""
        self.cursor.request_ended()

    def delivered(self) -> None:
        """Close the message: the subscriber accepted it."""
        self.cursor.delivered(self.message)

    def recall_attempts(self) -> None:
        """Read the number of attempts from the last commit."""
        self.attempts = self.cursor.attempts.get(self.message.offset, 0)

    def keep_attempts(self) -> None:
        """Store the number of attempts, which commits then contain."""
        self.cursor.tried(self.message, self.attempts)

    def leave(self, cursors: AbstractSet[Cursor]) -> bool:
        """Drop the messages of closing `cursors`; return whether no message is left."""
        return self.cursor in cursors

    def is_left(self) -> bool:
        """Whether this worker makes no more attempts, because all cursors here are closing."""
        return self.cursor.closing

    def singles(self) -> "Iterator[DeliveryJob]":
        """Yield each message as a separate `DeliveryJob`."""
        yield self

    @property
    def is_open(self) -> bool:
        """Whether the message, or any message of the batch, is unfinished."""
        return self.cursor.is_open(self.message)


class BatchJob(DeliveryJob):
    """A batch in delivery. It is sent as a whole, and finished message by message.

    `cursor` is the cursor of its first message.
    """

    __slots__ = ("_started", "batch")

    def __init__(self, batch: CollectedBatch, cursor: Cursor, deadline: float) -> None:
        super().__init__(batch, cursor, deadline)
        self.batch = batch
        self._started: Sequence[Cursor] = ()

    def request_started(self) -> None:
        """Called before a request is sent; each cursor of the batch counts it."""
        self._started = self.batch.cursors
        for cursor in self._started:
            cursor.request_started()

    def request_ended(self) -> None:
        """Called when the request has ended.

        Cursors that have left the batch meanwhile count it, too.
        """
        for cursor in self._started:
            cursor.request_ended()

    def delivered(self) -> None:
        """Close all messages, because the subscriber accepted them."""
        for opened in self.batch.opened:
            opened.cursor.delivered(opened.message)

    def recall_attempts(self) -> None:
        """Read the number of attempts from the last commit: the lowest number of all messages.

        A batch can also contain new messages, which have no attempts, so the lowest number is
        right.
        """
        opened = self.batch.opened
        self.attempts = min(o.cursor.attempts.get(o.message.offset, 0) for o in opened)

    def keep_attempts(self) -> None:
        """Store the number of attempts of each message, which commits then contain."""
        for opened in self.batch.opened:
            opened.cursor.tried(opened.message, self.attempts)

    def leave(self, cursors: AbstractSet[Cursor]) -> bool:
        """Drop the messages of closing `cursors`; return whether no message is left."""
        if not self.batch.leave(cursors):
            return True
        self.cursor = self.batch.opened[0].cursor
        return False

    def is_left(self) -> bool:
        """Whether all cursors of the batch are closing.

        Messages of closing cursors are dropped.
        """
        return self.leave({cursor for cursor in self.batch.cursors if cursor.closing})

    def singles(self) -> Iterator[DeliveryJob]:
        """Yield each message as a separate `DeliveryJob`, which has the attempts of the batch."""
        for opened in self.batch.opened:
            job = DeliveryJob(opened.message, opened.cursor, self.deadline)
            job.due, job.attempts, job.status = self.due, self.attempts, self.status
            job.ttl_s = self.ttl_s
            yield job

    @property
    def is_open(self) -> bool:
        """Whether any message of the batch is unfinished."""
        return any(each.cursor.is_open(each.message) for each in self.batch.opened)


def job_of(message: Message, cursor: Cursor, deadline: float) -> DeliveryJob:
    """Return the `DeliveryJob` of a message, or the `BatchJob` of a batch."""
    if isinstance(message, CollectedBatch):
        return BatchJob(message, cursor, deadline)
    return DeliveryJob(message, cursor, deadline)
