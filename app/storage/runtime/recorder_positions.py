"""Stores, for each stream, up to which offset its records are stored in the database.

The offset is written in the same transaction as the records.
"""

from collections.abc import Mapping
from typing import Final

from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.message import Partition
from app.storage.tables import RecorderPositionRow

# These run several times a second in each recorder, so they are built once, and are plain SQL.
_BEGIN: Final = text("""
INSERT INTO recorder_positions (topic, partition, next_offset) VALUES (:topic, :partition, 0)
ON CONFLICT DO NOTHING
""")
_ADVANCE: Final = text("""
UPDATE recorder_positions SET next_offset = :next_offset
WHERE topic = :topic AND partition = :partition
  AND next_offset >= :start AND next_offset < :next_offset
RETURNING next_offset
""")
_LOCKED: Final = text("""
SELECT next_offset FROM recorder_positions
WHERE topic = :topic AND partition = :partition FOR UPDATE
""")


class RecorderPositions:
    """The next offset that the recorder must record, for each partition of a stream.

    A partition without recorded entries has no position.
    """

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def all(self) -> Mapping[Partition, int]:
        """Return the positions of all streams."""
        rows = await self._session.scalars(select(RecorderPositionRow))
        return {Partition(row.topic, row.partition): row.next_offset for row in rows}

    async def advance(self, stream: Partition, *, start: int, next_offset: int) -> int | None:
        """Store `next_offset` as the position of this partition.

        `start` is where the records of this transaction begin.

        Returns:
            None if the position was advanced. Otherwise nothing was changed, and the result is the
            stored position. It is `next_offset` or higher if these records are stored already. It
            is lower than `start` if the database has lost its last transactions, because a replica
            that was behind has become the server. In each case the position is locked until the
            transaction ends.
        """
        key = {"topic": stream.topic, "partition": stream.index}
        await self._session.execute(_BEGIN, key)
        moved = key | {"start": start, "next_offset": next_offset}
        if await self._session.scalar(_ADVANCE, moved) is not None:
            return None
        stored = await self._session.scalar(_LOCKED, key)
        return None if stored is None else int(stored)
