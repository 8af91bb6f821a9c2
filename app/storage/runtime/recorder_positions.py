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

    async def advance(self, stream: Partition, next_offset: int) -> bool:
        """Store `next_offset` as the position of this partition.

        Return False, and change nothing, if the stored position is `next_offset` or higher. In both
        cases the position is locked until the transaction ends.
        """
        key = {"topic": stream.topic, "partition": stream.index}
        first = insert(RecorderPositionRow).values(**key, next_offset=0).on_conflict_do_nothing()
        await self._session.execute(first)
        moved = (
            update(RecorderPositionRow)
            .where(
                RecorderPositionRow.topic == stream.topic,
                RecorderPositionRow.partition == stream.index,
                RecorderPositionRow.next_offset < next_offset,
            )
            .values(next_offset=next_offset)
            .returning(RecorderPositionRow.next_offset)
        )
        return await self._session.scalar(moved) is not None
