"""Topics by the names that Kafka knows, which begin with the namespace, and those of all others."""

from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

from app.domain.message import Partition
from app.log.interface import Chunk, LogTopic
from app.log.kafka.tail import KafkaTail

T = TypeVar("T")


class Names:
    """Names with the namespace in front, and without it."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def full(self, partition: Partition) -> Partition:
        """As Kafka knows it."""
        return Partition(self.prefix + partition.topic, partition.index)

    def ours(self, partition: Partition) -> Partition:
        """As everybody else knows it."""
        return Partition(partition.topic[len(self.prefix) :], partition.index)

    def all_full(self, partitions: Collection[Partition]) -> list[Partition]:
        """Each as Kafka knows it."""
        return [self.full(each) for each in partitions]

    def all_ours(self, found: Mapping[Partition, T]) -> dict[Partition, T]:
        """What was found, by the names that everybody else knows."""
        return {self.ours(each): value for each, value in found.items()}

    def topic(self, topic: LogTopic) -> LogTopic:
        """As Kafka knows it."""
        return LogTopic(
            name=self.prefix + topic.name,
            partitions=topic.partitions,
            retention=topic.retention,
            message_size_max=topic.message_size_max,
        )

    def chunk(self, chunk: Chunk) -> Chunk:
        """The chunk, by the name that everybody else knows."""
        return Chunk(
            self.ours(chunk.partition),
            chunk.offset,
            chunk.next_offset,
            chunk.records,
            chunk.size,
            chunk.gap,
        )


class NamedTail:
    """A tail by the names that everybody else knows."""

    def __init__(self, tail: KafkaTail, names: Names) -> None:
        self._tail = tail
        self._names = names

    def follow(self, partition: Partition, offset: int) -> None:
        """As `Tail.follow`."""
        self._tail.follow(self._names.full(partition), offset)

    def unfollow(self, partition: Partition) -> None:
        """As `Tail.unfollow`."""
        self._tail.unfollow(self._names.full(partition))

    async def chunks(self) -> Sequence[Chunk]:
        """As `Tail.chunks`."""
        return [self._names.chunk(each) for each in await self._tail.chunks()]
