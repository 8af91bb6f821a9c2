"""Reads single messages of a topic: the newest messages, or the message at a given offset."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final

from app.domain.errors import OffsetNotFoundError, PartitionNotFoundError
from app.domain.message import Message, Partition, Record
from app.log.interface import Bounds, MessageLog
from app.schemas.messages import Reading, reading
from app.storage.catalogue.topics import TopicRepository
from app.storage.database import Database

SHOWN_MAX: Final = 3
# The maximum number of partitions of a topic that a preview reads.
_PARTITIONS_MAX: Final = 16
# The maximum number of bytes that a preview reads with one call to the log.
_BYTES_MAX: Final = 64 * 1024
# The maximum number of calls to the log with which a preview reads a partition. Without a limit,
# many messages for only one subscription at the end of a partition would need many calls.
_FETCHES_MAX: Final = 16


class PreviewService:
    """Reads a few messages from the log."""

    def __init__(self, database: Database, log: MessageLog) -> None:
        self._database = database
        self._log = log

    async def newest(self, topic: str) -> Sequence[Message]:
        """Return the last few messages of the topic, the newest first.

        If the topic has many partitions, only some of them are read. Copies of messages that were
        sent again to one subscription are left out. If the ends of the partitions have many such
        copies, the result may have fewer messages.

        Raises:
            TopicNotFoundError: The topic does not exist.
            LogUnavailableError: The log cannot be reached.
        """
        message_of = await self._reading(topic)
        bounds = await self._log.bounds(await self._log.partitions(topic))
        filled = {partition: each for partition, each in bounds.items() if each.end > each.start}
        looked_at = list(filled.items())[:_PARTITIONS_MAX]
        found = await asyncio.gather(*(self._last_of(*each, message_of) for each in looked_at))
        messages = [each for some in found for each in some]
        messages.sort(key=lambda message: message.published_ms, reverse=True)
        return messages[:SHOWN_MAX]

    async def at(self, partition: Partition, offset: int) -> Message:
        """Return the message at this offset of the partition.

        Raises:
            TopicNotFoundError: The topic does not exist.
            PartitionNotFoundError: The partition does not exist.
            OffsetNotFoundError: The log has no message at this offset.
            LogUnavailableError: The log cannot be reached.
        """
        message_of = await self._reading(partition.topic)
        bounds = (await self._log.bounds([partition])).get(partition)
        if bounds is None:
            raise PartitionNotFoundError(f"Partition {partition.index} does not exist")
        if bounds.start <= offset < bounds.end:
            chunk = await self._log.fetch(partition, offset, bytes_max=1)
            for record in chunk.records:
                if record.offset == offset:
                    return message_of(record, partition)
        raise OffsetNotFoundError(f"There is no message at {partition.index}/{offset}")

    async def _last_of(
        self, partition: Partition, bounds: Bounds, message_of: Reading
    ) -> Sequence[Message]:
        """Return the last messages of the partition, without those for only one subscription.

        The search begins at the end of the partition. Each further step reads an earlier and larger
        range of offsets.
        """
        found: list[Message] = []
        end, length = bounds.end, SHOWN_MAX
        fetches = iter(range(_FETCHES_MAX))
        while end > bounds.start and len(found) < SHOWN_MAX:
            first = max(bounds.start, end - length)
            records = await self._records(partition, (first, end), fetches)
            if records is None:
                break
            messages = [message_of(record, partition) for record in records]
            found = [each for each in messages if each.record_target is None] + found
            end, length = first, 2 * length
        return found[-SHOWN_MAX:]

    async def _records(
        self, partition: Partition, span: tuple[int, int], fetches: Iterator[int]
    ) -> Sequence[Record] | None:
        """Return all records in the range `span` of offsets; None if this takes too many calls.

        Each call to the log takes one element from `fetches`. When `fetches` is empty, no further
        call is allowed.
        """
        first, end = span
        found: list[Record] = []
        while first < end:
            if next(fetches, None) is None:
                return None
            chunk = await self._log.fetch(partition, first, bytes_max=_BYTES_MAX)
            found += (record for record in chunk.records if record.offset < end)
            first = max(chunk.next_offset, first + 1)
        return found

    async def _reading(self, topic: str) -> Reading:
        async with self._database.transaction() as session:
            return reading(await TopicRepository(session).get(topic))
