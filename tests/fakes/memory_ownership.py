"""The group of members among which the log in memory distributes its partitions."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

from app.domain.message import Partition
from app.log.interface import Assigned, Lost, OwnershipEvent, ReleaseOnce, Revoked
from app.log.rendezvous import rendezvous


class MemoryMember:
    """One member: its topics, its partitions, and the events that it has not read yet."""

    def __init__(self, name: str, capacity: float, group: "MemoryGroup") -> None:
        self.name = name
        self.capacity = capacity
        self.topics: frozenset[str] = frozenset()
        self.owned: set[Partition] = set()
        self.revoking: set[Partition] = set()
        self.told: asyncio.Queue[OwnershipEvent | None] = asyncio.Queue()
        self._group = group

    def subscribe(self, topics: Collection[str]) -> None:
        self.topics = frozenset(topics)
        self._group.rebalance()

    async def events(self) -> AsyncIterator[OwnershipEvent]:
        while (event := await self.told.get()) is not None:
            yield event


class MemoryGroup:
    """Distributes partitions among its members by rendezvous hashing.

    A partition gets a new owner only when the old one has released it.
    """

    def __init__(self, partitions_of: Callable[[str], Sequence[Partition]]) -> None:
        self._partitions_of = partitions_of
        self._members: dict[str, MemoryMember] = {}
        self._timeouts: dict[str, timedelta] = {}

    @asynccontextmanager
    async def joined(
        self, name: str, capacity: float, revoke_timeout: timedelta
    ) -> AsyncIterator[MemoryMember]:
        member = self._members[name] = MemoryMember(name, capacity, self)
        self._timeouts[name] = revoke_timeout
        self.rebalance()
        try:
            yield member
        finally:
            member.told.put_nowait(None)
            self.kill(name)

    def kill(self, name: str) -> None:
        self._members.pop(name, None)
        self.rebalance()

    def owner(self, partition: Partition) -> str | None:
        return next((m.name for m in self._members.values() if partition in m.owned), None)

    def vanished(self, partitions: Collection[Partition]) -> None:
        """Take deleted partitions away from their owners."""
        for member in self._members.values():
            if lost := member.owned.intersection(partitions):
                member.owned -= lost
                member.revoking -= lost
                member.told.put_nowait(Lost(frozenset(lost)))

    def rebalance(self) -> None:
        """Assign free partitions, and revoke those that another member should have."""
        wanted = self._wanted()
        for member in list(self._members.values()):
            if unwanted := member.owned - wanted[member.name] - member.revoking:
                self._revoke(member, frozenset(unwanted))
        taken = {p for member in self._members.values() for p in member.owned}
        for member in self._members.values():
            if free := wanted[member.name] - taken:
                member.owned |= free
                member.told.put_nowait(Assigned(frozenset(free)))

    def _wanted(self) -> dict[str, set[Partition]]:
        wanted: dict[str, set[Partition]] = defaultdict(set)
        for topic in {topic for member in self._members.values() for topic in member.topics}:
            sharing = {m.name: m.capacity for m in self._members.values() if topic in m.topics}
            for partition in self._partitions_of(topic):
                wanted[rendezvous(sharing, f"{topic}/{partition.index}")].add(partition)
        return wanted

    def _revoke(self, member: MemoryMember, partitions: frozenset[Partition]) -> None:
        def let_go() -> None:
            timer.cancel()
            if self._members.get(member.name) is member:
                member.owned -= partitions
                member.revoking -= partitions
                self.rebalance()

        release = ReleaseOnce(let_go)
        timeout = self._timeouts[member.name].total_seconds()
        timer = asyncio.get_running_loop().call_later(timeout, release)
        member.revoking |= partitions
        member.told.put_nowait(Revoked(partitions, release))
