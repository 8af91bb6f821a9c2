"""The group of workers at the simulated log, with sessions, generations, and slow rebalances.

As in Kafka, a partition moves in two steps: its owner releases it, and then another member gets it.
The group removes a member that sent no heartbeat for the length of a session. The member learns of
that when it reaches the group again, or from its own clock, a little earlier than the group removes
it. Events of an earlier membership never arrive.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Final, Protocol

from app.domain.message import Partition
from app.log.interface import Assigned, Lost, OwnershipEvent, ReleaseOnce, Revoked
from app.log.rendezvous import rendezvous
from tests.simulation.conditions import Service
from tests.simulation.remote import later

SESSION_S: Final = 6.0
# How many seconds earlier than the group a member counts itself as removed.
SURE_S: Final = 0.5
HEARTBEAT_S: Final = 0.5


class OwnershipObserver(Protocol):
    """Is told what members learn about their partitions."""

    def owned(self, process: str, partitions: Collection[Partition], *, gained: bool) -> None:
        """Called when a member learns that it owns partitions now, or that it no longer does."""


@dataclass(slots=True)
class _Seat:
    """A member as the group knows it, from its joining until its removal."""

    membership: "Membership"
    generation: int
    topics: frozenset[str]
    owned: set[Partition] = field(default_factory=set)
    revoking: set[Partition] = field(default_factory=set)
    heard_at: float = 0.0


class Group:
    """The coordinator of the group, on the side of the log."""

    def __init__(
        self,
        partitions_of: Callable[[str], Sequence[Partition]],
        observer: OwnershipObserver,
        *,
        session_s: float = SESSION_S,
    ) -> None:
        self._partitions_of = partitions_of
        self.observer = observer
        self.session_s = session_s
        self._seats: dict[str, _Seat] = {}
        self._generation = 0

    def owner(self, partition: Partition) -> str | None:
        """Return the member that owns the partition, as the group knows it."""
        return next((name for name, seat in self._seats.items() if partition in seat.owned), None)

    def members(self) -> Collection[str]:
        """Return the names of all members."""
        return self._seats.keys()

    # ---- what members send ----------------------------------------------------------------------

    def joins(self, membership: "Membership", topics: frozenset[str]) -> int:
        """Add a member, and return its generation. A member that joins again gets a new one."""
        self._generation += 1
        seat = _Seat(membership, self._generation, topics)
        seat.heard_at = asyncio.get_running_loop().time()
        self._seats[membership.process] = seat
        self._expire_later(seat)
        self.rebalance()
        return seat.generation

    def subscribes(self, process: str, generation: int, topics: frozenset[str]) -> None:
        """Change the topics of which a member wants partitions."""
        if (seat := self._seat(process, generation)) and seat.topics != topics:
            seat.topics = topics
            self.rebalance()

    def beats(self, process: str, generation: int) -> bool:
        """Record a heartbeat; return whether the member still belongs to the group."""
        seat = self._seat(process, generation)
        if seat is not None:
            seat.heard_at = asyncio.get_running_loop().time()
        return seat is not None

    def lets_go(self, process: str, generation: int, partitions: frozenset[Partition]) -> None:
        """Record that a member has released revoked partitions."""
        if seat := self._seat(process, generation):
            seat.owned -= partitions
            seat.revoking -= partitions
            self.rebalance()

    def leaves(self, process: str, generation: int) -> None:
        """Remove a member that leaves the group."""
        if self._seat(process, generation):
            self.remove(process)

    # ---- what the group does --------------------------------------------------------------------

    def remove(self, process: str) -> None:
        """Remove a member. It is not told."""
        if self._seats.pop(process, None):
            self.rebalance()

    def vanished(self, partitions: Collection[Partition]) -> None:
        """Take deleted partitions away from their owners."""
        for seat in self._seats.values():
            if lost := seat.owned.intersection(partitions):
                seat.owned -= lost
                seat.revoking -= lost
                seat.membership.told(seat.generation, Lost(frozenset(lost)))

    def rebalance(self) -> None:
        """Assign free partitions, and revoke those that another member should have."""
        wanted = self._wanted()
        for name, seat in self._seats.items():
            if unwanted := frozenset(seat.owned - wanted[name] - seat.revoking):
                seat.revoking |= unwanted
                seat.membership.revoked(seat.generation, unwanted)
        taken = {partition for seat in self._seats.values() for partition in seat.owned}
        for name, seat in self._seats.items():
            if free := frozenset(wanted[name] - taken):
                seat.owned |= free
                seat.membership.told(seat.generation, Assigned(free))

    def _seat(self, process: str, generation: int) -> _Seat | None:
        seat = self._seats.get(process)
        return seat if seat is not None and seat.generation == generation else None

    def _wanted(self) -> dict[str, set[Partition]]:
        wanted: dict[str, set[Partition]] = defaultdict(set)
        for topic in sorted({topic for seat in self._seats.values() for topic in seat.topics}):
            sharing = {
                name: seat.membership.capacity
                for name, seat in self._seats.items()
                if topic in seat.topics
            }
            for partition in self._partitions_of(topic):
                wanted[rendezvous(sharing, f"{topic}/{partition.index}")].add(partition)
        return wanted

    def _expire_later(self, seat: _Seat) -> None:
        left_s = seat.heard_at + self.session_s - asyncio.get_running_loop().time()
        later(max(left_s, 0.01), self._expire, seat)

    def _expire(self, seat: _Seat) -> None:
        if self._seats.get(seat.membership.process) is not seat:
            return
        if asyncio.get_running_loop().time() >= seat.heard_at + self.session_s:
            self.remove(seat.membership.process)
        else:
            self._expire_later(seat)


class Membership:
    """A member of the group, on the side of its own process."""

    def __init__(
        self, process: str, group: Group, service: Service, *, capacity: float, revoke_s: float
    ) -> None:
        self.process = process
        self.capacity = capacity
        self._group = group
        self._service = service
        self._revoke_s = revoke_s
        self._events: asyncio.Queue[OwnershipEvent | None] = asyncio.Queue()
        self._topics: frozenset[str] = frozenset()
        self._held: set[Partition] = set()
        self._generation = 0
        self._joining = False
        self._heard_at = asyncio.get_running_loop().time()
        self._arrives_at = 0.0
        # Events of the group that were not sent yet.
        self._outbox: deque[tuple[int, OwnershipEvent]] = deque()
        # Released partitions of which the group does not know yet.
        self._released: list[frozenset[Partition]] = []
        # The context in which callbacks run in the process of the member.
        self._context = copy_context()
        self._beat = asyncio.get_running_loop().call_soon(self._beats)

    @property
    def is_sure(self) -> bool:
        """Whether no other member can own this member's partitions yet."""
        silent_s = asyncio.get_running_loop().time() - self._heard_at
        return not self._held or silent_s <= self._group.session_s - SURE_S

    def subscribe(self, topics: Collection[str]) -> None:
        """Ask for partitions of these topics, and of no others."""
        self._topics = frozenset(topics)
        self._send(self._group.subscribes, self.process, self._generation, self._topics)

    async def events(self) -> AsyncIterator[OwnershipEvent]:
        """Yield assignments, revocations and losses in order."""
        while (event := await self._events.get()) is not None:
            self._group.observer.owned(
                self.process, event.partitions, gained=isinstance(event, Assigned)
            )
            yield event
            if isinstance(event, Lost):
                # Remove the partitions only now. Until the worker has handled the event, it must
                # commit nothing for them.
                self._held -= event.partitions

    @asynccontextmanager
    async def joined(self) -> AsyncIterator["Membership"]:
        """Belong to the group inside the block, and leave it in order at the end."""
        try:
            yield self
        finally:
            self._beat.cancel()
            self._events.put_nowait(None)
            self._send(self._group.leaves, self.process, self._generation)
            self._generation = -1

    # ---- the group's messages -------------------------------------------------------------------

    def told(self, generation: int, event: OwnershipEvent) -> None:
        """Called by the group. The event arrives later, unless the membership has ended by then."""
        self._deliver(generation, event)

    def revoked(self, generation: int, partitions: frozenset[Partition]) -> None:
        """Called by the group when other members should get these partitions."""

        def let_go() -> None:
            if self._generation == generation:
                self._held -= partitions
                self._released.append(partitions)
                self._send(self._let_go, generation)

        release = ReleaseOnce(let_go)
        self._deliver(generation, Revoked(partitions, release))

    def _let_go(self, generation: int) -> None:
        """Tell the group which partitions were released. This runs on the group's side.

        A request may be lost, so this also tells of earlier releases.
        """
        released, self._released = self._released, []
        for partitions in released:
            self._group.lets_go(self.process, generation, partitions)

    def _deliver(self, generation: int, event: OwnershipEvent) -> None:
        self._outbox.append((generation, event))
        if len(self._outbox) == 1:
            self._send_out()

    def _send_out(self) -> None:
        """Send events in order. While the connection is down, the first event waits."""
        while self._outbox:
            delay_s = self._service.answer_s(self.process)
            if delay_s is None:
                later(HEARTBEAT_S, self._send_out)
                return
            generation, event = self._outbox.popleft()
            now = asyncio.get_running_loop().time()
            self._arrives_at = max(self._arrives_at + 1e-6, now + delay_s)
            later(self._arrives_at - now, self._arrive, generation, event)

    def _arrive(self, generation: int, event: OwnershipEvent) -> None:
        asyncio.get_running_loop().call_soon(self._take, generation, event, context=self._context)

    def _take(self, generation: int, event: OwnershipEvent) -> None:
        if generation != self._generation:
            return
        if isinstance(event, Assigned):
            self._held |= event.partitions
        elif isinstance(event, Revoked):
            # After this time the client itself releases the partitions. A second release has no
            # effect.
            asyncio.get_running_loop().call_later(self._revoke_s, event.release)
        self._events.put_nowait(event)

    # ---- heartbeats -----------------------------------------------------------------------------

    def _beats(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self._generation > 0 and now - self._heard_at > self._group.session_s - SURE_S:
            self._lose()
        if self._generation == 0 and not self._joining:
            self._join(now)
        elif self._generation > 0:
            self._send_beat(now)
        self._beat = loop.call_later(HEARTBEAT_S, self._beats)

    def _join(self, now: float) -> None:
        self._joining = True

        def joins() -> None:
            if self._generation < 0:
                return
            self._generation = self._group.joins(self, self._topics)
            self._heard_at, self._joining = now, False

        if not self._send(joins):
            self._joining = False

    def _send_beat(self, now: float) -> None:
        generation = self._generation

        def beats() -> None:
            self._group.subscribes(self.process, generation, self._topics)
            self._let_go(generation)
            known = self._group.beats(self.process, generation)
            back_s = self._service.answer_s(self.process)
            if back_s is not None:
                later(back_s, heard, known)

        def heard(known: bool) -> None:  # noqa: FBT001 - what the group answered
            asyncio.get_running_loop().call_soon(
                self._heard, generation, now, known, context=self._context
            )

        self._send(beats)

    def _heard(self, generation: int, sent_at: float, known: bool) -> None:  # noqa: FBT001 - the same
        if generation != self._generation:
            return
        if known:
            self._heard_at = max(self._heard_at, sent_at)
        else:
            self._lose()

    def _lose(self) -> None:
        self._generation = 0
        self._released.clear()
        if self._held:
            self._events.put_nowait(Lost(frozenset(self._held)))

    def _send(self, act: Callable[..., object], *args: object) -> bool:
        delay_s = self._service.request_s(self.process)
        if delay_s is not None:
            later(delay_s, act, *args)
        return delay_s is not None
