"""Looking at single messages of a topic: the newest, and one at a place in the log."""

import asyncio
from collections.abc import Sequence
from typing import Final

from app.domain.errors import OffsetNotFoundError, PartitionNotFoundError
from app.domain.message import Message, Partition, Record
from app.log.interface import Bounds, MessageLog
from app.schemata.messages import Reading, reading
from app.storage.database import Database
from app.storage.topics import TopicRepository

SHOWN_MAX: Final = 3
# Of a topic with more partitions, these many are looked at.
_PARTITIONS_MAX: Final = 16
_BYTES_MAX: Final = 64 * 1024


class PreviewService:
    """Reads a few messages out of the log."""

    def __init__(self, database: Database, log: MessageLog) -> None:
        self._database = database
        self._log = log

    async def newest(self, topic: str) -> Sequence[Message]:
        """The last few messages, the newest first; TopicNotFoundError, LogUnavailableError.

        Of a topic with many partitions, those of some.
        """
        message_of = await self._reading(topic)
        bounds = await self._log.bounds(await self._log.partitions(topic))
        filled = {partition: each for partition, each in bounds.items() if each.end > each.start}
        looked_at = list(filled.items())[:_PARTITIONS_MAX]
        found = await asyncio.gather(*(self._last_of(*each) for each in looked_at))
        records = [each for some in found for each in some]
        messages = [message_of(record, partition) for record, partition in records]
        messages.sort(key=lambda message: message.published_ms, reverse=True)
        return messages[:SHOWN_MAX]

    async def at(self, partition: Partition, offset: int) -> Message:
        """The message at that place.

        TopicNotFoundError, PartitionNotFoundError, OffsetNotFoundError, LogUnavailableError.
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
        self, partition: Partition, bounds: Bounds
    ) -> Sequence[tuple[Record, Partition]]:
        first = max(bounds.start, bounds.end - SHOWN_MAX)
        chunk = await self._log.fetch(partition, first, bytes_max=_BYTES_MAX)
        return [(record, partition) for record in chunk.records]

    async def _reading(self, topic: str) -> Reading:
        async with self._database.transaction() as session:
            return reading(await TopicRepository(session).get(topic))
