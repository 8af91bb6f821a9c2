"""Entries of ledgers, asked for each day: by one process at a time, of all that could."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import uuid4

from app.domain.errors import JobQueueFullError, NotFoundError
from app.domain.insight.ledger import next_due
from app.services.insight.ledgers import LedgerService
from app.storage.database import Database
from app.storage.insight.ledgers import Kept, LedgerRepository
from app.storage.insight.spark_runners import SparkRunnerRepository
from app.storage.runtime.leases import LeaseRepository

LEASE: Final = "ledgers"
LOOK_EVERY: Final = timedelta(minutes=5)
# A process that has missed as many looks is gone.
_LEASE_LENGTH: Final = 3 * LOOK_EVERY
# So many may wait: the next are asked for when these are made, and other jobs go in between.
WAITING_MAX: Final = 20


class LedgerSchedule:
    """One process's part in it. Without a Spark runner nothing is asked for, and nothing piles up.

    What was due meanwhile is then one entry: none is lost by it, for each goes on from the last.
    """

    def __init__(self, database: Database, ledgers: LedgerService) -> None:
        self._database = database
        self._ledgers = ledgers
        self._holder = uuid4().hex

    async def look(self, now: datetime | None = None) -> None:
        """Ask for the entries that are due at `now`, the most overdue first; UnavailableError."""
        async with self._database.transaction() as session:
            lease = LeaseRepository(session)
            ours = await lease.take(LEASE, self._holder, _LEASE_LENGTH)
            if not ours or not await SparkRunnerRepository(session).any_live():
                return
            room = WAITING_MAX - await LedgerRepository(session).open_jobs()
            kept = await LedgerRepository(session).extents()
        for each in due(kept, now or datetime.now(UTC))[: max(room, 0)]:
            # Deleted meanwhile, or others have filled the queue: the next look sees.
            with suppress(NotFoundError, JobQueueFullError):
                await self._ledgers.request(each.topic, each.subscription)


def due(kept: Iterable[Kept], now: datetime) -> Sequence[Kept]:
    """Those whose next entry is due at `now`, the most overdue first."""
    dates = [(next_due(each.until, each.retention), each) for each in kept]
    return [each for date, each in sorted(dates) if date <= now]
