"""The leader of each partition and its address, as known to the event loop."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from app.domain.message import Partition
from app.log.kafka.client import NO_LEADER, Leaders
from app.log.kafka.link import Address

Led = Mapping[int, Sequence[Partition]]
"""Partitions by their leading broker."""


class PartitionLeaders(NamedTuple):
    """The leaders of existing topics, and all brokers."""

    leaders: Mapping[str, Leaders]
    addresses: Mapping[int, Address]


Look = Callable[[Collection[str]], Awaitable[PartitionLeaders]]
"""Looks up leaders of topics by full names. Raises FAILED_TRY errors or LogUnavailableError."""


class Places:
    """Looks up leaders, and caches them until they turn out to be wrong."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._leaders: dict[str, Leaders] = {}
        self._addresses: dict[int, Address] = {}

    async def leaders(self, topics: Collection[str]) -> Mapping[str, Leaders]:
        """Return the leader of each partition of existing topics; NO_LEADER for none."""
        if missing := [topic for topic in topics if topic not in self._leaders]:
            found = await self._look(missing)
            self._leaders.update(found.leaders)
            self._addresses.update(found.addresses)
        return {topic: self._leaders[topic] for topic in topics if topic in self._leaders}

    async def grouped(self, partitions: Collection[Partition]) -> tuple[Led, Sequence[Partition]]:
        """Return partitions by their leading broker, and those without a leader."""
        leaders = await self.leaders({each.topic for each in partitions})
        led, homeless = grouped(leaders, partitions)
        self.forget(each.topic for each in homeless)
        return led, homeless

    def forget(self, topics: Iterable[str]) -> None:
        """Forget the leaders of the topics, so that they are looked up again."""
        for topic in topics:
            self._leaders.pop(topic, None)

    def address(self, node: int) -> Address | None:
        """Return the address of a broker."""
        return self._addresses.get(node)


def grouped(
    leaders: Mapping[str, Leaders], partitions: Iterable[Partition]
) -> tuple[Led, Sequence[Partition]]:
    """Return partitions by their leading broker, and those without a leader."""
    led: dict[int, list[Partition]] = {}
    homeless = []
    for partition in partitions:
        leader = leaders.get(partition.topic, {}).get(partition.index, NO_LEADER)
        if leader == NO_LEADER:
            homeless.append(partition)
        else:
            led.setdefault(leader, []).append(partition)
    return led, homeless
