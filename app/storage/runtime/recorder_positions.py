"""Stores, for each stream, up to which offset its records are stored in the database.

The offset is written in the same transaction as the records.
"""

from collections.abc import Mapping

from sqlalchemy import select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.message import Partition
from app.storage.tables import RecorderPositionRow


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
        first = insert(RecorderPositionRow).values(**key, next_offset=0).on_conflict_do_nothing()
        await self._session.execute(first)
        its = (
            RecorderPositionRow.topic == stream.topic,
            RecorderPositionRow.partition == stream.index,
        )
        moved = (
            update(RecorderPositionRow)
            .where(
                *its,
                RecorderPositionRow.next_offset >= start,
                RecorderPositionRow.next_offset < next_offset,
            )
            .values(next_offset=next_offset)
            .returning(RecorderPositionRow.next_offset)
        )
        if await self._session.scalar(moved) is not None:
            return None
        stored = select(RecorderPositionRow.next_offset).where(*its).with_for_update()
        return await self._session.scalar(stored)
