"""A history in a form for the checker: the attempts of each subscription, and the faults."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final, NamedTuple

from tests.simulation.history import (
    Acknowledged,
    Addressed,
    Answered,
    Arrived,
    Authorized,
    Batched,
    Broken,
    CommitRead,
    Committed,
    Copied,
    Counted,
    Discarded,
    Done,
    Fault,
    Heard,
    History,
    Lost,
    Ordered,
    Owned,
    Published,
    Rebatched,
    ResendEnded,
    Sent,
    Stored,
    Subscribed,
)
from tests.simulation.plan import MessagePlan, Plan, SubscriptionPlan

# Kinds of faults that can prevent a worker's commits or requests.
OF_LOG: Final = frozenset(
    {"log down", "log slow", "log lossy", "leader", "unclean", "replicas"}
    # `upset` stands for any fault in a test of real processes, about which less is known.
    | {"commits refused", "commits late", "upset"}
)
OF_WORKER: Final = frozenset({"kill", "pause", "log cut", "log deaf"})
# Faults that are over immediately, and changes: their end is not recorded.
_MOMENTS: Final = frozenset(
    {"kill", "stop", "join", "reset", "revoke", "retention", "partitions"}
    | {"suspend", "edit", "delete", "recreate", "create", "seek", "resend"}
)
OF_DATABASE: Final = frozenset({"database down", "database slow", "database lossy", "failover"})


class Position(NamedTuple):
    """The position of a record in a topic."""

    partition: int
    offset: int


@dataclass(slots=True)
class Attempt:
    """One request, and the events about it. A batch is an attempt of each of its messages."""

    sent: Sent
    batch: Batched | None = None
    address: str = ""
    token: str = ""
    arrived: Arrived | None = None
    answered: Answered | None = None
    heard: Heard | None = None
    broken: Broken | None = None

    def has_another_body(self, digest: str) -> bool:
        """Whether the message that arrived has another body than this. A batch has no such body."""
        return self.batch is None and self.arrived is not None and self.arrived.body != digest

    @property
    def accepted_at(self) -> float:
        """When the subscriber accepted the message; infinite if it did not."""
        accepted = self.answered is not None and 200 <= self.answered.status < 300
        return self.answered.at if accepted and self.answered else inf

    @property
    def delivered_at(self) -> float:
        """When the worker received the answer that accepts the message; infinite if it did not."""
        return self.heard.at if self.heard and 200 <= self.heard.status < 300 else inf

    @property
    def finished_at(self) -> float:
        """When the worker received an acceptance or a final refusal; infinite if it did not."""
        refused = self.heard is not None and self.heard.status == 400
        return self.heard.at if refused and self.heard else self.delivered_at

    @property
    def ended_at(self) -> float:
        """When the worker knew the outcome of the attempt; infinite if it never did."""
        ends = [each.at for each in (self.heard, self.broken) if each is not None]
        return min(ends, default=inf)


@dataclass(slots=True)
class Life:
    """One incarnation of a subscription, and all events about it."""

    created: Subscribed
    plan: SubscriptionPlan
    seeks: list[Subscribed] = field(default_factory=list)
    ordered: list[Ordered] = field(default_factory=list)
    done: list[Done] = field(default_factory=list)
    attempts: dict[str, list[Attempt]] = field(default_factory=lambda: defaultdict(list))
    discarded: list[Discarded] = field(default_factory=list)
    rebatched: list[Rebatched] = field(default_factory=list)
    reads: dict[tuple[str, int], list[CommitRead]] = field(
        default_factory=lambda: defaultdict(list)
    )
    counted: Counted | None = None

    @property
    def id(self) -> str:
        """The id of the incarnation."""
        return self.created.incarnation

    @property
    def is_deleted(self) -> bool:
        """Whether an operator asked for its deletion, or the database has lost its creation."""
        return any(each.what in {"delete", "lost"} for each in self.ordered)

    @property
    def begins_again(self) -> bool:
        """Whether it was moved, or its deletion was undone. Then it may get messages again."""
        undone = any(each.what == "undone" for each in self.ordered)
        return bool(self.seeks) or (self.is_deleted and undone)

    def all_attempts(self) -> list[Attempt]:
        """Return all attempts, in the order in which they were sent."""
        every = {each.sent.request: each for some in self.attempts.values() for each in some}
        return [every[number] for number in sorted(every)]

    def sent_messages(self) -> Iterator[tuple[str, Attempt]]:
        """Yield each message with each of its attempts."""
        return ((message, each) for message, some in self.attempts.items() for each in some)

    def accepted_at(self, message: str) -> float:
        """Return when the subscriber accepted the message; infinite if it did not.

        With several addresses, all of them must accept it.
        """
        attempts = self.attempts.get(message, ())
        if not self.plan.addresses:
            return min((each.accepted_at for each in attempts), default=inf)
        first: dict[str, float] = {}
        for each in attempts:
            first[each.address] = min(first.get(each.address, inf), each.accepted_at)
        return max(first.values()) if len(first) > len(self.plan.addresses) else inf

    def start(self, partition: int) -> int:
        """Return the first offset of a partition from which every message must be delivered."""
        moves = [self.created, *self.seeks]
        return max(each.start[partition] if partition < len(each.start) else 0 for each in moves)

    def last_read(self, worker: str, partition: int, before: float) -> CommitRead | None:
        """Return the last commit of a partition that the worker read until the time `before`."""
        reads = self.reads.get((worker, partition), ())
        found = [each for each in reads if each.at <= before]
        return found[-1] if found else None

    def settings(self, since: float, until: float) -> tuple[int, int]:
        """Return the highest rate, and the highest limit of requests in flight, of that time."""
        rate, in_flight = [self.plan.rate], [self.plan.in_flight]
        for each in self.ordered:
            if each.at > until:
                break
            # Forget the earlier settings only after an answered edit: an edit without an answer may
            # not be stored.
            if each.what == "edit" and self._is_answered(each, since):
                rate, in_flight = [], []
            rate.append(each.rate)
            in_flight.append(each.in_flight)
        return max(rate), max(in_flight)

    def _is_answered(self, ordered: Ordered, until: float) -> bool:
        return any(
            each.what == ordered.what and ordered.at <= each.at <= until for each in self.done
        )


class Trouble(NamedTuple):
    """A fault, with the times at which it begins and ends."""

    what: str
    where: str
    begins: float
    ends: float


class Story:
    """A whole history, sorted by subscriptions, attempts and faults."""

    def __init__(self, plan: Plan, history: History) -> None:
        self.plan = plan
        self.history = history
        self.lives: dict[str, Life] = {}
        self.messages: Mapping[str, MessagePlan] = {each.name: each for each in plan.messages}
        self.published: dict[str, Published] = {}
        self.acknowledged: dict[str, float] = {}
        # `records` has the records in the log at the end, by topic. `places` has the positions of
        # each message, `stored_at` when it was first stored, and `lost` the records that the log
        # has lost.
        self.records: dict[str, dict[Position, Stored]] = defaultdict(dict)
        self.places: dict[str, list[tuple[str, Position]]] = defaultdict(list)
        self.stored_at: dict[str, float] = {}
        # The copies in the log at the end that retransmissions have made, by topic and position.
        self.copies: dict[tuple[str, Position], Copied] = {}
        self.lost: list[Lost] = []
        self.lost_messages: set[str] = set()
        self.owned: list[Owned] = []
        self.committed: list[Committed] = []
        self.troubles: list[Trouble] = []
        self._attempts: dict[int, Attempt] = {}
        self._open_faults: dict[tuple[str, str], list[float]] = defaultdict(list)
        plans = {each.name: each for each in plan.subscriptions}
        self._plans: Mapping[str, SubscriptionPlan] = plans
        # Add all subscriptions first: a worker may send before the operator knows that the
        # subscription is created.
        for created in history.of(Subscribed):
            if not created.seek:
                self.lives[created.incarnation] = Life(created, self._plan_of(created))
        for event in history.events:
            self._tell(event)
        for (what, where), begun in self._open_faults.items():
            lasting = 0.0 if what in _MOMENTS else inf
            self.troubles += [Trouble(what, where, at, at + lasting) for at in begun]
        self.troubles.sort(key=lambda each: each.begins)
        # The numbers of the retransmissions that an operator cancelled, or asked to cancel.
        self.cancelled = {*self._cancelled(history)}

    def _tell(self, event: object) -> None:
        match event:
            case Subscribed():
                self._subscribed(event)
            case Sent() | Arrived() | Answered() | Heard() | Broken():
                self._of_attempt(event)
            case Batched() | Addressed() | Authorized():
                self._of_request(self._attempts[event.request], event)
            case Fault():
                self._fault(event)
            case Discarded() | CommitRead() | Ordered() | Rebatched() | Done() | Counted():
                self._of_life(event)
            case Committed():
                self.committed.append(event)
            case Owned():
                self.owned.append(event)
            case _:
                self._of_log(event)

    def _of_attempt(self, event: Sent | Arrived | Answered | Heard | Broken) -> None:
        match event:
            case Sent():
                attempt = self._attempts[event.request] = Attempt(event)
                if event.incarnation in self.lives:
                    self.lives[event.incarnation].attempts[event.message].append(attempt)
            case Arrived():
                self._attempts[event.request].arrived = event
            case Answered():
                self._attempts[event.request].answered = event
            case Heard():
                self._attempts[event.request].heard = event
            case Broken():
                self._attempts[event.request].broken = event

    def _of_request(self, attempt: Attempt, event: Batched | Addressed | Authorized) -> None:
        match event:
            case Batched():
                self._batched(attempt, event)
            case Addressed():
                attempt.address = event.address
            case Authorized():
                attempt.token = event.token

    def _batched(self, attempt: Attempt, batch: Batched) -> None:
        """Make the attempt one of each message of its batch, instead of the batch's id."""
        attempt.batch = batch
        if attempt.sent.incarnation in self.lives and batch.messages:
            attempts = self.lives[attempt.sent.incarnation].attempts
            attempts.pop(attempt.sent.message)
            for message in dict.fromkeys(batch.messages):
                attempts[message].append(attempt)

    def _of_life(
        self, event: Discarded | CommitRead | Ordered | Rebatched | Done | Counted
    ) -> None:
        life = self.lives.get(event.incarnation)
        if life is None:
            return
        match event:
            case Discarded():
                life.discarded.append(event)
            case CommitRead():
                life.reads[event.process, event.partition].append(event)
            case Ordered():
                life.ordered.append(event)
            case Rebatched():
                life.rebatched.append(event)
            case Done():
                life.done.append(event)
            case Counted():
                life.counted = event

    def _of_log(self, event: object) -> None:
        match event:
            case Published():
                self.published[event.message] = event
            case Acknowledged():
                self.acknowledged[event.message] = event.at
            case Stored():
                position = Position(event.partition, event.offset)
                self.records[event.topic][position] = event
                self.places[event.message].append((event.topic, position))
                self.stored_at.setdefault(event.message, event.at)
            case Copied():
                place = event.topic, Position(event.partition, event.offset)
                self.copies[place] = event
                self.places[event.message].append(place)
            case Lost():
                self._lost(event)
            case _:
                pass

    def _subscribed(self, event: Subscribed) -> None:
        if event.seek and event.incarnation in self.lives:
            self.lives[event.incarnation].seeks.append(event)

    def _plan_of(self, created: Subscribed) -> SubscriptionPlan:
        name = created.subscription
        return self._plans.get(name) or self._plans[name.rpartition("x")[0]]

    def _lost(self, event: Lost) -> None:
        self.lost.append(event)
        records = self.records[event.topic]
        for offset in range(event.start, event.end):
            position = Position(event.partition, offset)
            stored = records.pop(position, None) or self.copies.pop((event.topic, position), None)
            if stored is not None:
                self.lost_messages.add(stored.message)
                self.places[stored.message].remove((event.topic, position))

    def _fault(self, event: Fault) -> None:
        begun = self._open_faults[event.what, event.where]
        if event.begins:
            begun.append(event.at)
        elif begun:
            self.troubles.append(Trouble(event.what, event.where, begun.pop(0), event.at))

    def _cancelled(self, history: History) -> Iterator[int]:
        for each in history.of(ResendEnded):
            if each.state == "CANCELLED":
                yield each.retransmission
        for ordered in history.of(Ordered):
            what, _, number = ordered.what.partition(" ")
            if what == "cancel":
                yield int(number)

    # ---- questions ------------------------------------------------------------------------------

    def copies_of(self, life: Life) -> dict[Position, Copied]:
        """Return the copies in the log at the end that were made for a subscription."""
        return {
            position: copied
            for (_, position), copied in self.copies.items()
            if copied.incarnation == life.id
        }

    def wanted(self, life: Life) -> list[tuple[Position, Stored | Copied]]:
        """Return what a subscription must get of the log, in the log's order.

        Copies of cancelled retransmissions are left out, because it need not get them.
        """
        copies = self.copies_of(life).items()
        kept = [each for each in copies if each[1].retransmission not in self.cancelled]
        return sorted([*self.records[life.created.topic].items(), *kept], key=lambda each: each[0])

    def position(self, message: str) -> Position | None:
        """Return the position of a message, if the log has it exactly once."""
        places = self.places.get(message, ())
        return places[0][1] if len(places) == 1 else None

    def troubled(
        self, since: float, until: float, kinds: frozenset[str], *, where: str = ""
    ) -> bool:
        """Whether a fault of these kinds overlapped that time.

        With `where`, only faults at that place count.
        """
        return any(
            trouble.begins <= until
            and trouble.ends >= since
            and trouble.what in kinds
            and (not where or trouble.where == where)
            for trouble in self.troubles
        )

    def known_since(self, at: float, *, within_s: float) -> float:
        """Return a time. All changes that were answered before it are known to all workers at `at`.

        Workers know a change within `within_s` seconds, unless the database has a fault.
        """
        since = at - within_s
        return -inf if self.troubled(since, at, OF_DATABASE) else since

    def disturbed(self, worker: str, since: float, until: float) -> bool:
        """Whether a fault in that time may have prevented a worker's commits."""
        return self.troubled(since, until, OF_LOG) or self.troubled(
            since, until, OF_WORKER, where=worker
        )

    def left(self, worker: str, topic: str, partition: int) -> Iterator[float]:
        """Yield the times at which a worker was told that it no longer owns a partition."""
        return (
            each.at
            for each in self.owned
            if not each.gained
            and (each.process, each.topic, each.partition) == (worker, topic, partition)
        )

    def partition_count(self, topic: str, before: float) -> int:
        """Return how many partitions of a topic have had an owner until the time `before`."""
        owned = {each.partition for each in self.owned if each.topic == topic and each.at <= before}
        return len(owned)

    def got(self, worker: str, topic: str, partition: int, *, before: float) -> float:
        """Return when a worker was last told that it owns a partition, until the time `before`."""
        told = (
            each.at
            for each in self.owned
            if each.gained
            and each.at <= before
            and (each.process, each.topic, each.partition) == (worker, topic, partition)
        )
        return max(told, default=-inf)

    def is_rewound(self, topic: str) -> bool:
        """Whether the topic lost records that readers had seen.

        Then everything may be read again.
        """
        return any(each.topic == topic and each.why == "unclean leader" for each in self.lost)

    def is_trimmed(self, topic: str) -> bool:
        """Whether retention removed records of the topic."""
        return any(each.topic == topic and each.why == "retention" for each in self.lost)


def within(times: Sequence[float], index: int, seconds: float) -> int:
    """Return how many of the sorted times are in the last `seconds` up to the time at `index`."""
    return index + 1 - bisect_left(times, times[index] - seconds, 0, index + 1)
