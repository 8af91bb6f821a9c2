"""The leader of each partition, its address, and the replica to read instead of it (KIP-392)."""

import math
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from app.domain.message import Partition
from app.log.kafka.client import NO_LEADER, Leaders
from app.log.kafka.link import Address

# How long a chosen replica is read, in seconds. After this time, the leader chooses again.
CHOSEN_FOR_S: Final = 300.0
# How long the leader of a partition is cached, in seconds. A broker that is no longer the leader
# usually reports it in its response. A response that names a nearer replica does not report it. So
# a cached leader must expire.
KNOWN_FOR_S: Final = CHOSEN_FOR_S
# How long a partition is read from its leader after another replica has failed, in seconds.
AVOIDED_FOR_S: Final = 30.0

Led = Mapping[int, Sequence[Partition]]
"""Partitions by their leading broker."""


class PartitionLeaders(NamedTuple):
    """The leaders of the partitions of existing topics, and the addresses of all brokers."""

    leaders: Mapping[str, Leaders]
    addresses: Mapping[int, Address]


Look = Callable[[Collection[str]], Awaitable[PartitionLeaders]]
"""Looks up leaders of topics by full names. Raises FAILED_TRY errors or LogUnavailableError."""


class LeaderCache:
    """Looks up the leaders of partitions.

    Each leader is cached for a while, or until it turns out to be wrong.
    """

    def __init__(self, look: Look, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._look = look
        self._clock = clock
        self._leaders: dict[str, Leaders] = {}
        # For each topic, the time when its leaders must be looked up again.
        self._outdated_at: dict[str, float] = {}
        self._addresses: dict[int, Address] = {}

    async def leaders(self, topics: Collection[str]) -> Mapping[str, Leaders]:
        """Return the leader of each partition of existing topics.

        A partition without a leader has NO_LEADER.
        """
        now = self._clock()
        self.forget([topic for topic in topics if now >= self._outdated_at.get(topic, math.inf)])
        if missing := [topic for topic in topics if topic not in self._leaders]:
            found = await self._look(missing)
            self._leaders.update(found.leaders)
            self._outdated_at.update(dict.fromkeys(found.leaders, now + KNOWN_FOR_S))
            self._addresses.update(found.addresses)
        return {topic: self._leaders[topic] for topic in topics if topic in self._leaders}

    async def grouped(self, partitions: Collection[Partition]) -> tuple[Led, Sequence[Partition]]:
        """Return the partitions by their leading broker, and the partitions without a leader."""
        leaders = await self.leaders({each.topic for each in partitions})
        led, homeless = grouped(leaders, partitions)
        self.forget(each.topic for each in homeless)
        return led, homeless

    def forget(self, topics: Iterable[str]) -> None:
        """Forget the leaders of the topics, so that they are looked up again."""
        for topic in topics:
            self._leaders.pop(topic, None)
            self._outdated_at.pop(topic, None)

    def address(self, node: int) -> Address | None:
        """Return the address of a broker."""
        return self._addresses.get(node)


def grouped(
    leaders: Mapping[str, Leaders], partitions: Iterable[Partition]
) -> tuple[Led, Sequence[Partition]]:
    """Return the partitions by their leading broker, and the partitions without a leader."""
    led: dict[int, list[Partition]] = {}
    homeless = []
    for partition in partitions:
        leader = leaders.get(partition.topic, {}).get(partition.index, NO_LEADER)
        if leader == NO_LEADER:
            homeless.append(partition)
        else:
            led.setdefault(leader, []).append(partition)
    return led, homeless


class ReadSource(NamedTuple):
    """A broker to read from.

    `by_rack` means that the broker is the leader, and may name a nearer replica instead of sending
    records.
    """

    node: int
    is_leader: bool = True
    by_rack: bool = False


class _Choice(NamedTuple):
    # The number of the broker with the chosen replica. None means that the partition is read from
    # its leader.
    node: int | None
    until: float


class ReadReplicas:
    """The replicas that are read instead of leaders.

    The leader of each partition chose a replica that is near to readers in this rack.
    """

    def __init__(self, rack: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Create a `ReadReplicas`. Without a `rack`, only leaders are read."""
        self.in_rack = bool(rack)
        self._clock = clock
        self._chosen: dict[Partition, _Choice] = {}

    def source(self, partition: Partition, leader: int) -> ReadSource:
        """Return the broker from which to read the partition now."""
        choice = self._current(partition)
        if choice is None:
            return ReadSource(leader, by_rack=self.in_rack)
        # Send no rack with requests to a chosen replica. If its broker is the leader by now, it
        # must not name another replica.
        node = leader if choice.node is None else choice.node
        return ReadSource(node, is_leader=node == leader)

    def choose(self, partition: Partition, node: int) -> None:
        """Read the partition from now on from the broker `node`, which its leader named."""
        self._chosen[partition] = _Choice(node, self._clock() + CHOSEN_FOR_S)

    def avoid(self, partitions: Iterable[Partition]) -> None:
        """Read these partitions from their leaders for a while, because another replica failed."""
        until = self._clock() + AVOIDED_FOR_S
        for partition in partitions:
            self._chosen[partition] = _Choice(None, until)

    def forget(self, partition: Partition) -> None:
        """Forget the replica of the partition, so that its leader chooses again."""
        self._chosen.pop(partition, None)

    def _current(self, partition: Partition) -> _Choice | None:
        choice = self._chosen.get(partition)
        if choice is not None and self._clock() >= choice.until:
            self.forget(partition)
            return None
        return choice
