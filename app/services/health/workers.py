"""The workers that are running."""

from collections.abc import Sequence

from app.domain.status import WorkerStatus
from app.services.applied_changes import LIVE_WITHIN
from app.storage.database import Database
from app.storage.health.workers import WorkerRepository


class WorkerService:
    """Reads the workers' heartbeats."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def live(self) -> Sequence[WorkerStatus]:
        """Return the running workers, by id."""
        async with self._database.transaction() as session:
            return await WorkerRepository(session).live(LIVE_WITHIN)
