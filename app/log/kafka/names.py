"""Adds the namespace to names for Kafka, and removes it from names that come from Kafka."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from app.domain.message import Partition
from app.log.interface import Chunk, LogTopic
from app.log.kafka.tail import KafkaTail

T = TypeVar("T")


class Names:
    """Adds and removes the namespace prefix."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def full(self, partition: Partition) -> Partition:
        """Return the partition with the topic's name in Kafka, which includes the namespace."""
        return Partition(self.prefix + partition.topic, partition.index)

    def ours(self, partition: Partition) -> Partition:
        """Return the partition with the topic's name in Angelia, without the namespace."""
        return Partition(partition.topic[len(self.prefix) :], partition.index)

    def all_full(self, partitions: Collection[Partition]) -> list[Partition]:
        """Return all partitions with the topics' names in Kafka, which include the namespace."""
        return [self.full(each) for each in partitions]

    def all_ours(self, found: Mapping[Partition, T]) -> dict[Partition, T]:
        """Return `found` with other keys: the partitions have their topics' names in Angelia."""
        return {self.ours(each): value for each, value in found.items()}

    def topic(self, topic: LogTopic) -> LogTopic:
        """Return the topic with its name in Kafka, which includes the namespace."""
        return LogTopic(
            name=self.prefix + topic.name,
            partitions=topic.partitions,
            retention=topic.retention,
            message_size_max=topic.message_size_max,
        )

    def chunk(self, chunk: Chunk) -> Chunk:
        """Return the chunk with the topic's name in Angelia, without the namespace."""
        return replace(chunk, partition=self.ours(chunk.partition))


class NamedTail:
    """A tail whose partitions have the topics' names in Angelia, without the namespace."""

    def __init__(self, tail: KafkaTail, names: Names) -> None:
        self._tail = tail
        self._names = names

    def follow(self, partition: Partition, offset: int) -> None:
        """Read `partition` from `offset` on."""
        self._tail.follow(self._names.full(partition), offset)

    def unfollow(self, partition: Partition) -> None:
        """Stop reading the partition.

        A chunk that was requested before may still come.
        """
        self._tail.unfollow(self._names.full(partition))

    async def chunks(self) -> Sequence[Chunk]:
        """Wait for records, and return at least one chunk."""
        return [self._names.chunk(each) for each in await self._tail.chunks()]
