"""The workers that are running."""

from collections.abc import Sequence

from app.domain.errors import WorkerNotFoundError
from app.domain.paging import NamePage
from app.domain.status import OwnedPartitions, WorkerStatus
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

    async def owned(self, worker_id: str, page: NamePage) -> Sequence[OwnedPartitions]:
        """Return the partitions that a worker delivers, in the order of topics.

        Raises:
            WorkerNotFoundError: No worker with this id is running.
        """
        async with self._database.transaction() as session:
            workers = WorkerRepository(session)
            if worker_id not in {each.id for each in await workers.live(LIVE_WITHIN)}:
                raise WorkerNotFoundError(f"No worker {worker_id} is running")
            return await workers.owned(worker_id, page)
