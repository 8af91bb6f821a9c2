"""What happened in a run, in order: all that the checker knows.

The world outside of the product writes it: the log, the network, subscribers, the database, those
who publish and operate, and whoever makes faults. Times are those of the virtual loop.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from hashlib import blake2b
from typing import Final, TypeVar

E = TypeVar("E", bound="Event")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened at a time."""

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
    """The publisher of the message got a 201."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unacknowledged(Event):
    """The publisher of the message got a 503, or no answer."""

    message: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored(Event):
    """The leader of a partition has a record."""

    topic: str
    partition: int
    offset: int
    message: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost(Event):
    """The records from `start` to before `end` are not in the log any more: why says how."""

    topic: str
    partition: int
    start: int
    end: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent(Event):
    """A worker wrote a request of a subscription, which it began to connect for at `begun`."""

    worker: str
    incarnation: str
    request: int
    message: str
    retry_count: int
    begun: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreached(Event):
    """A worker could not connect to a subscriber, or gave up."""

    worker: str
    subscription: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived(Event):
    """The subscriber has read the request, whatever it does then; `body` is its digest."""

    request: int
    message: str
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Event):
    """The subscriber has decided on the request: 0 if it never answers."""

    request: int
    message: str
    status: int
    retry_after: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard(Event):
    """The worker has read the whole answer."""

    request: int
    message: str
    status: int
    retry_after: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken(Event):
    """The worker gave the request up, or its connection is gone: no answer will be heard."""

    request: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Discarded(Event):
    """The stream of undelivered messages has a discard."""

    incarnation: str
    topic: str
    partition: int
    offset: int
    message: str
    reason: str
    epoch: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed(Event):
    """The log applied a commit of a subscription; `done` is what is finished above `offset`."""

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
    """A worker has read where to start."""

    process: str
    group: str
    incarnation: str
    partition: int
    offset: int
    done: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned(Event):
    """A worker was told that it owns a partition (`gained`), or that it does not any more."""

    process: str
    topic: str
    partition: int
    gained: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribed(Event):
    """A subscription was created, and starts at these offsets; by `seek` when it was moved."""

    subscription: str
    incarnation: str
    topic: str
    start: tuple[int, ...]
    seek: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered(Event):
    """Somebody asked for a change of a subscription; its rate and requests in flight after it."""

    incarnation: str
    what: str
    rate: int
    in_flight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Done(Event):
    """The change was answered; `applied` says that all workers have it in effect."""

    incarnation: str
    what: str
    applied: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault(Event):
    """A fault began, or ended; `where` is a process, a subscriber, or the log or database."""

    what: str
    where: str
    begins: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured(Event):
    """A worker's own report on a subscription: what it holds in memory."""

    worker: str
    incarnation: str
    in_flight: int
    waiting_retries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted(Event):
    """At the end: what the metrics of a subscription say, and what is listed as undelivered."""

    incarnation: str
    delivered: int
    discarded: int
    filtered: int
    listed: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(Event):
    """All faults had ended, and this is what was not finished in time: empty if all drained."""

    left: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Complained(Event):
    """The product logged an unexpected error, or the loop caught one."""

    process: str
    what: str


DIGEST_BYTES: Final = 12


class History:
    """The events of a run."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.closed = False

    def add(self, event: Event) -> None:
        """Append an event, unless the run is over."""
        if not self.closed:
            self.events.append(event)

    def of(self, kind: type[E]) -> Iterator[E]:
        """The events of a kind, in order."""
        return (each for each in self.events if isinstance(each, kind))

    def digest(self) -> str:
        """The same for the same events."""
        total = blake2b(digest_size=DIGEST_BYTES)
        for each in self.events:
            total.update(str(each).encode())
        return total.hexdigest()
