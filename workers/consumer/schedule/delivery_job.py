"""One message, or batch, on its way: how often it was tried, and what its attempts may still do."""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from app.domain.delivery import Discarded  # noqa: TC001 - hidden types help nobody
from app.domain.message import Message
from workers.consumer.commit.cursor import Cursor
from workers.consumer.source.collected_batch import CollectedBatch
from workers.delivery.in_flight import StartedRequest  # noqa: TC001 - hidden types help nobody
from workers.transport.used_connection import UsedConnection  # noqa: TC001 - hidden types help nobody


class Failing:
    """Since when a message fails, and how long its time to live was paused before it was exempt."""

    __slots__ = ("paused_for", "since")

    def __init__(self, since: float) -> None:
        self.since = since
        self.paused_for: float | None = None


class DeliveryJob:
    """One message on its way: what was read, where, and how often it was tried.

    One that is `refused` is not sent any more. `status` is the last that was answered. Its first
    attempt may be made from `due` on, and its time to live, which ends at its `deadline`, was
    `ttl_s` seconds when it was opened. `request` is its attempt until that has ended, if it is
    called back. It is `deferred` if its last answer asked to come later, and `deferred_alone` has
    how often that answered the one request after the requested time. `failing` is the
    circuit breaker's. `opened_ms` (since the epoch) and `ended_at`, when its last attempt was over,
    are the trace's, and so is what is known of the connection of an attempt that is awaited
    (`used_connection`). `progress` is kept for its destination: nobody else looks at it.
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
        # Of its last attempt: when it left, and in which epoch of its consumer's pace.
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

    def request_started(self) -> None:
        """A request of it is about to leave."""
        self.cursor.request_started()

    def request_ended(self) -> None:
        """That request is over, whatever came of it."""
        self.cursor.request_ended()

    def delivered(self) -> None:
        """The subscriber has it."""
        self.cursor.delivered(self.message)

    def recall_attempts(self) -> None:
        """Count on from the attempts in the last commit."""
        self.attempts = self.cursor.attempts.get(self.message.offset, 0)

    def keep_attempts(self) -> None:
        """Have commits keep how often it was tried."""
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

    __slots__ = ("_started",)

    message: CollectedBatch
    _started: Sequence[Cursor]

    def request_started(self) -> None:
        """A request of it is about to leave, for each of its cursors."""
        self._started = self.message.cursors
        for cursor in self._started:
            cursor.request_started()

    def request_ended(self) -> None:
        """That request is over, also for cursors that have left it meanwhile."""
        for cursor in self._started:
            cursor.request_ended()

    def delivered(self) -> None:
        """The subscriber has all of it."""
        for opened in self.message.opened:
            opened.cursor.delivered(opened.message)

    def recall_attempts(self) -> None:
        """Count on from the attempts at the message that was tried least, in the last commit.

        Messages that are new are batched with others that were tried before.
        """
        opened = self.message.opened
        self.attempts = min(o.cursor.attempts.get(o.message.offset, 0) for o in opened)

    def keep_attempts(self) -> None:
        """Have commits keep how often each of its messages was tried."""
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
