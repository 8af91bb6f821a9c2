"""The history of a run: its events in order. The checker knows nothing else.

The simulated world around the product records the events: the log, the network, subscribers, the
database, publishers, operators, and the source of faults. Times are seconds of the virtual loop's
clock.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from hashlib import blake2b
from typing import Final, TypeVar

E = TypeVar("E", bound="Event")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event of a run, at the time `at`."""

    at: float

    def __str__(self) -> str:
        told = ((each.name, getattr(self, each.name)) for each in fields(self)[1:])
        said = " ".join(f"{name}={value!r}" for name, value in told)
        return f"{self.at:10.4f} {type(self).__name__:<13} {said}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Published(Event):
    """A publisher sent a message."""

    message: str
    topic: str
    key: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged(Event):
    """The publisher of the message got the status 201."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unacknowledged(Event):
    """The publisher of the message got the status 503, or no answer."""

    message: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored(Event):
    """The leader of a partition has stored a record."""

    topic: str
    partition: int
    offset: int
    message: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied(Event):
    """The leader of a partition has stored a message that a retransmission sends again.

    `message` is its name (see `copy_name`), and `source` the partition and offset of the original.
    """

    topic: str
    partition: int
    offset: int
    message: str
    incarnation: str
    retransmission: int
    source: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost(Event):
    """The log has lost the records from `start` to before `end`, for the reason `why`."""

    topic: str
    partition: int
    start: int
    end: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent(Event):
    """A worker sent a request of a subscription.

    `begun` is when it began to connect; without a new connection, it is when it sent the request.
    """

    worker: str
    incarnation: str
    request: int
    message: str
    retry_count: int
    begun: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Batched(Event):
    """The request that was sent last has a batch of these messages. `size` is that of its body."""

    request: int
    messages: tuple[str, ...]
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Addressed(Event):
    """The request that was sent last went to this address, one of several of its subscription."""

    request: int
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Authorized(Event):
    """The request that was sent last has this OAuth token."""

    request: int
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenAsked(Event):
    """A worker sent a request for a token. `begun` is as in Sent."""

    worker: str
    request: int
    begun: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenAnswered(Event):
    """The provider has decided how to answer a token request.

    Status 0 means that it never answers. Without a token, `token` is empty.
    """

    request: int
    status: int
    token: str
    retry_after: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEnded(Event):
    """The worker has received the answer to a token request; status 0 if it receives none."""

    request: int
    status: int
    retry_after: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreached(Event):
    """A worker could not connect to a subscriber, or gave up connecting."""

    worker: str
    subscription: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived(Event):
    """The subscriber has received the whole request. `body` is the digest of its body."""

    request: int
    message: str
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Event):
    """The subscriber has decided how to answer the request.

    Status 0 means that it never answers.
    """

    request: int
    message: str
    status: int
    retry_after: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard(Event):
    """The worker has received the whole answer."""

    request: int
    message: str
    status: int
    retry_after: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken(Event):
    """The worker gave the request up, or lost its connection, so it receives no answer."""

    request: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Discarded(Event):
    """A discard was stored in the stream of undelivered messages."""

    incarnation: str
    topic: str
    partition: int
    offset: int
    message: str
    reason: str
    epoch: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLettered(Event):
    """A copy of a discarded message was stored in the dead-letter topic.

    `id` is its own id, and `body` the digest of its body. All else is of the message, and of the
    subscription that discarded it.
    """

    id: str
    subscription: str
    topic: str
    partition: int
    offset: int
    message: str
    key: str | None
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed(Event):
    """The log has stored a commit of a subscription.

    `done` has the ranges of finished offsets above `offset`.
    """

    process: str
    group: str
    incarnation: str
    partition: int
    offset: int
    done: tuple[tuple[int, int], ...]
    delivered: int
    discarded: int
    filtered: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRead(Event):
    """A worker has read a commit, which says where to continue."""

    process: str
    group: str
    incarnation: str
    partition: int
    offset: int
    done: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned(Event):
    """A worker was told that it owns a partition now (`gained`), or that it no longer does."""

    process: str
    topic: str
    partition: int
    gained: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribed(Event):
    """A subscription was created, or with `seek` moved.

    `start` has its new offset in each partition.
    """

    subscription: str
    incarnation: str
    topic: str
    start: tuple[int, ...]
    seek: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered(Event):
    """An operator asked for a change of a subscription.

    `rate` and `in_flight` are its rate, and its limit of requests in flight, after the change. The
    change "undone" is made by a failing over of the database that has lost earlier changes, "lost"
    if it has lost the creation.
    """

    incarnation: str
    what: str
    rate: int
    in_flight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebatched(Event):
    """An operator asked for a change of a subscription, with this many messages in a batch."""

    incarnation: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Done(Event):
    """The change of a subscription was answered.

    `applied` says whether all workers have applied it, and `ordered_at` when it was asked for.
    """

    incarnation: str
    what: str
    ordered_at: float
    applied: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Resent(Event):
    """A retransmission of the messages at the positions `chosen` may begin."""

    incarnation: str
    retransmission: int
    chosen: tuple[tuple[int, int], ...]
    share: float
    rate_max: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResendEnded(Event):
    """The state of a retransmission at the end of the run.

    `marked` has the positions of the discards that count as sent again by it.
    """

    incarnation: str
    retransmission: int
    state: str
    written: int
    finished: int
    marked: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault(Event):
    """A fault began or ended. `where` is a process, a subscriber, the log or the database."""

    what: str
    where: str
    begins: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured(Event):
    """A worker reported how many requests and waiting retries of a subscription it has."""

    worker: str
    incarnation: str
    in_flight: int
    waiting_retries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted(Event):
    """The counts of a subscription at the end, and the positions of its listed discards."""

    incarnation: str
    delivered: int
    discarded: int
    filtered: int
    listed: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced(Event):
    """At the end, the trace of a message has this entry. `attempt` is its number, from 1."""

    worker: str
    incarnation: str
    message: str
    status: str
    partition: int
    offset: int
    attempt: int
    status_code: int | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(Event):
    """The run has ended.

    `left` says what was not finished in time; it is empty if nothing was left.
    """

    left: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Complained(Event):
    """The product logged an unexpected error, or the event loop caught one."""

    process: str
    what: str


DIGEST_BYTES: Final = 12


def copy_name(message: str, retransmission_id: str) -> str:
    """Return the name of the copy of a message that a retransmission sends.

    The name of an original is its id, and `retransmission_id` is empty.
    """
    return f"{message}+{int(retransmission_id, 16)}" if retransmission_id else message


def original(message: str) -> str:
    """Return the id of a message, also for the name of a copy."""
    return message.partition("+")[0]


class History:
    """The events of a run, in order."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.closed = False

    def add(self, event: Event) -> None:
        """Append an event, unless the run is over."""
        if not self.closed:
            self.events.append(event)

    def of(self, kind: type[E]) -> Iterator[E]:
        """Yield the events of a class, in order."""
        return (each for each in self.events if isinstance(each, kind))

    def digest(self) -> str:
        """Return a digest of all events: two equal histories have the same digest."""
        total = blake2b(digest_size=DIGEST_BYTES)
        for each in self.events:
            total.update(str(each).encode())
        return total.hexdigest()
