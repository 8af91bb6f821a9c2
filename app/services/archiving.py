"""The archive is asked for every hour, where there is anything to archive or to drop."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from app.domain.archive import is_due
from app.domain.errors import JobQueueFullError
from app.domain.job import JobKind, Scope
from app.storage.archives import ArchiveRepository
from app.storage.database import Database
from app.storage.jobs import JobRepository

ASK_EVERY: Final = timedelta(minutes=1)
# What its job says it looks at; it takes all that is new.
_WINDOW: Final = timedelta(hours=1)


class ArchiveSchedule:
    """Asks for it; every API process does, and one of them at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def look(self, now: datetime | None = None) -> None:
        """Ask for it if it is due at `now`, aware; StorageUnavailableError.

        While a job waits or runs there is no other: without a runner they do not pile up.
        """
        # Whose queue is full has time until the next look.
        with suppress(JobQueueFullError):
            await self._asked(now or datetime.now(UTC))

    async def _asked(self, now: datetime) -> None:
        async with self._database.transaction() as session:
            archive = ArchiveRepository(session)
            if not await archive.is_wanted():
                return
            if is_due(await archive.last_asked(), now) and not await archive.is_asked():
                scope = Scope(start=now - _WINDOW, end=now)
                await JobRepository(session).add(JobKind.ARCHIVE, scope)
