"""Reads the archives of topics, and requests the jobs that update them."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from app.domain.errors import JobQueueFullError
from app.domain.insight.archive import Archive, is_due
from app.domain.job import JobKind, JobScope
from app.storage.catalogue.topics import TopicRepository
from app.storage.database import Database
from app.storage.insight.archives import ArchiveRepository
from app.storage.insight.jobs import JobRepository

FOLDERS_MAX: Final = 1_000
ASK_EVERY: Final = timedelta(minutes=1)
# The length of the time that lists of jobs show for an archive job. The job itself archives all new
# messages.
_WINDOW: Final = timedelta(hours=1)


class ArchiveService:
    """Reads archives; each method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, topic: str) -> Archive:
        """Return the archive of a topic, with its newest folders. The archive may be empty.

        Raises:
            TopicNotFoundError: The topic does not exist.
        """
        async with self._database.transaction() as session:
            found = await TopicRepository(session).get(topic)
            return await ArchiveRepository(session).of(found, limit=FOLDERS_MAX)


class ArchiveSchedule:
    """Requests an archive job every hour, if there are topics to archive or files to delete.

    Every API process has this schedule, but only one process requests the job.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def look(self, now: datetime | None = None) -> None:
        """Request the archive job if it is due at `now`, a time with a time zone.

        While an archive job waits or runs, no further archive job is requested. So jobs do not
        accumulate while no runner runs.

        Raises:
            StorageUnavailableError: The database cannot be reached.
        """
        # Ignore the error if too many jobs are waiting. The next round tries again to request the
        # archive job.
        with suppress(JobQueueFullError):
            await self._request_if_due(now or datetime.now(UTC))

    async def _request_if_due(self, now: datetime) -> None:
        async with self._database.transaction() as session:
            archive = ArchiveRepository(session)
            if not await archive.is_wanted():
                return
            if is_due(await archive.last_requested(), now) and not await archive.is_requested():
                scope = JobScope(start=now - _WINDOW, end=now)
                await JobRepository(session).add(JobKind.ARCHIVE, scope)
