"""Which broker leads which partition, and where it is, as the event loop knows it."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from app.domain.message import Partition
from app.log.kafka.client import NO_LEADER, Leaders
from app.log.kafka.link import Address

Led = Mapping[int, Sequence[Partition]]
"""Partitions by the broker that leads them."""


class PartitionLeaders(NamedTuple):
    """The leaders of the topics that exist, and all brokers."""

    leaders: Mapping[str, Leaders]
    addresses: Mapping[int, Address]


Look = Callable[[Collection[str]], Awaitable[PartitionLeaders]]
"""Asks for topics by their full names. Raises one of FAILED_TRY, LogUnavailableError."""


class Places:
    """Looks topics up, and keeps what it was told until that turns out to be wrong."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._leaders: dict[str, Leaders] = {}
        self._addresses: dict[int, Address] = {}

    async def leaders(self, topics: Collection[str]) -> Mapping[str, Leaders]:
        """Partition → leader (NO_LEADER for none) of each topic that exists."""
        if missing := [topic for topic in topics if topic not in self._leaders]:
            found = await self._look(missing)
            self._leaders.update(found.leaders)
            self._addresses.update(found.addresses)
        return {topic: self._leaders[topic] for topic in topics if topic in self._leaders}

    async def grouped(self, partitions: Collection[Partition]) -> tuple[Led, Sequence[Partition]]:
        """Partitions by the broker that leads them, and those that nobody leads now."""
        leaders = await self.leaders({each.topic for each in partitions})
        led, homeless = grouped(leaders, partitions)
        self.forget(each.topic for each in homeless)
        return led, homeless

    def forget(self, topics: Iterable[str]) -> None:
        """Ask anew for their leaders next time."""
        for topic in topics:
            self._leaders.pop(topic, None)

    def address(self, node: int) -> Address | None:
        """Where a broker is."""
        return self._addresses.get(node)


def grouped(
    leaders: Mapping[str, Leaders], partitions: Iterable[Partition]
) -> tuple[Led, Sequence[Partition]]:
    """Partitions by the broker that leads them, and those that nobody leads."""
    led: dict[int, list[Partition]] = {}
    homeless = []
    for partition in partitions:
        leader = leaders.get(partition.topic, {}).get(partition.index, NO_LEADER)
        if leader == NO_LEADER:
            homeless.append(partition)
        else:
            led.setdefault(leader, []).append(partition)
    return led, homeless
