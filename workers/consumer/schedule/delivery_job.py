"""A message or batch in delivery, with the number of its attempts and its limits."""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from app.domain.delivery import NO_FAILURE, Discarded
from app.domain.message import Message
from workers.consumer.commit.cursor import Cursor
from workers.consumer.source.collected_batch import CollectedBatch
from workers.delivery.in_flight import StartedRequest  # noqa: TC001 - TYPE_CHECKING would gain nothing
from workers.transport.used_connection import UsedConnection  # noqa: TC001 - TYPE_CHECKING would gain nothing


class Failing:
    """When a message began to fail, and how long its time to live had been paused.

    `paused_for` is set only if the time to live continues while the circuit is open.
    """

    __slots__ = ("paused_for", "since")

    def __init__(self, since: float) -> None:
        self.since = since
        self.paused_for: float | None = None


class DeliveryJob:
    """A message in delivery: its content, its position, and the number of its attempts.

    Attributes:
        refused: The reason to discard the message without another attempt.
        status: The status code of the last response.
        last_failure: Why the last attempt failed, if the status does not say it, and the start of
            its response.
        due: The earliest time of the first attempt.
        deadline: The end of the time to live, on the clock for times to live.
        ttl_s: The whole time to live in seconds, in force when the message was opened.
        request: The current attempt, if its outcome comes by a callback.
        deferred: Whether the subscriber's last response was a deferral (`Retry-After`).
        deferred_alone: How often this message was the first request after a deferral and was
            deferred again.
        failing: When the attempts began to fail. The circuit breaker uses this time.
        opened_ms: When the message was opened (epoch ms), for traces.
        ended_at: When the last attempt of the message ended, for traces.
        unsent: Whether the next attempt was started already, but nothing was sent.
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
        "last_failure",
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
        # The time when the last attempt was sent, and the number that `Pacing.sent` returned for
        # this attempt.
        self.sent_at = 0.0
        self.pace_epoch = 0
        self.failing: Failing | None = None
        self.refused: Discarded | None = None
        self.status: int | None = None
        self.last_failure = NO_FAILURE
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
        """Finish the message as delivered, because the subscriber accepted it."""
        self.cursor.delivered(self.message)

    def recall_attempts(self) -> None:
        """Set the number of attempts to the number in the last commit."""
        self.attempts = self.cursor.attempts.get(self.message.offset, 0)

    def keep_attempts(self) -> None:
        """Store the number of attempts in the cursor, so that its commits contain it."""
        self.cursor.tried(self.message, self.attempts)

    def leave(self, cursors: AbstractSet[Cursor]) -> bool:
        """Drop the messages of closing `cursors`. Return whether no message remains."""
        return self.cursor in cursors

    def is_left(self) -> bool:
        """Whether this worker makes no more attempts, because the message's cursor is closing."""
        return self.cursor.closing

    def singles(self) -> "Iterator[DeliveryJob]":
        """Yield each message of this job as a separate `DeliveryJob`."""
        yield self

    @property
    def is_open(self) -> bool:
        """Whether the message, or any message of the batch, is unfinished."""
        return self.cursor.is_open(self.message)


class BatchJob(DeliveryJob):
    """A batch in delivery. It is sent as a whole, but each message is finished separately.

    `cursor` is the cursor of the first message.
    """

    __slots__ = ("_started", "batch")

    def __init__(self, batch: CollectedBatch, cursor: Cursor, deadline: float) -> None:
        super().__init__(batch, cursor, deadline)
        self.batch = batch
        self._started: Sequence[Cursor] = ()

    def request_started(self) -> None:
        """Called just before a request is sent. Each cursor of the batch counts the request."""
        self._started = self.batch.cursors
        for cursor in self._started:
            cursor.request_started()

    def request_ended(self) -> None:
        """Called when the request has ended.

        Cursors that have left the batch during the request also count its end.
        """
        for cursor in self._started:
            cursor.request_ended()

    def delivered(self) -> None:
        """Finish all messages as delivered, because the subscriber accepted them."""
        for opened in self.batch.opened:
            opened.cursor.delivered(opened.message)

    def recall_attempts(self) -> None:
        """Set the number of attempts from the last commit: the lowest number of all messages.

        The lowest number is right, because a batch can also contain new messages without attempts.
        """
        opened = self.batch.opened
        self.attempts = min(o.cursor.attempts.get(o.message.offset, 0) for o in opened)

    def keep_attempts(self) -> None:
        """Store the number of attempts in each message's cursor, so that commits contain it."""
        for opened in self.batch.opened:
            opened.cursor.tried(opened.message, self.attempts)

    def leave(self, cursors: AbstractSet[Cursor]) -> bool:
        """Drop the messages of closing `cursors`. Return whether no message remains."""
        if not self.batch.leave(cursors):
            return True
        self.cursor = self.batch.opened[0].cursor
        return False

    def is_left(self) -> bool:
        """Drop the messages whose cursors are closing. Return whether no message remains."""
        return self.leave({cursor for cursor in self.batch.cursors if cursor.closing})

    def singles(self) -> Iterator[DeliveryJob]:
        """Yield each message as a separate `DeliveryJob`, with the batch's number of attempts."""
        for opened in self.batch.opened:
            job = DeliveryJob(opened.message, opened.cursor, self.deadline)
            job.due, job.attempts, job.status = self.due, self.attempts, self.status
            job.ttl_s, job.last_failure = self.ttl_s, self.last_failure
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
