"""The archive: what there is of a topic, and when it is asked for."""

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
# What its job says it looks at; it takes all that is new.
_WINDOW: Final = timedelta(hours=1)


class ArchiveService:
    """Looks at archives; each method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, topic: str) -> Archive:
        """That of a topic, which may be empty, with its newest folders; TopicNotFoundError."""
        async with self._database.transaction() as session:
            found = await TopicRepository(session).get(topic)
            return await ArchiveRepository(session).of(found, limit=FOLDERS_MAX)


class ArchiveSchedule:
    """Asks for the archive every hour, where there is anything to archive or to drop.

    Every API process does, and one of them at a time.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def look(self, now: datetime | None = None) -> None:
        """Ask for it if it is due at `now`, aware; StorageUnavailableError.

        While a job waits or runs there is no other: without a runner they do not pile up.
        """
        # Whose queue is full has time until the next look.
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
