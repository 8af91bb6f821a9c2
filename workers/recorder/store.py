"""The database as the store of undelivered messages."""

from collections.abc import Mapping, Sequence

from app.domain.discards.retractions import Entry
from app.domain.message import Partition
from app.storage.database import Database
from app.storage.discards.undelivered import UndeliveredRepository
from app.storage.runtime.recorder_positions import RecorderPositions


class DatabaseUndelivered:
    """Stores undelivered messages with the stream's position in one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def positions(self) -> Mapping[Partition, int]:
        """Return the next offset to record for each partition of the stream."""
        async with self._database.transaction() as session:
            return await RecorderPositions(session).all()

    async def record(
        self, rows: Sequence[Entry], stream: Partition, next_offset: int, *, start: int = 0
    ) -> int | None:
        """Store `rows` and the position in one transaction, unless rows before `start` are missing.

        Returns:
            None if the rows were stored; otherwise the stored position.
        """
        async with self._database.transaction() as session:
            repository = UndeliveredRepository(session)
            return await repository.record(rows, stream, next_offset, start=start)
