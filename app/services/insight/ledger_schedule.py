"""Requests a ledger entry each day, by one process at a time."""

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
# How long the lease is valid. A process that has missed so many rounds counts as gone.
_LEASE_LENGTH: Final = 3 * LOOK_EVERY
# The maximum number of waiting ledger jobs. Further jobs are requested when these are finished, so
# that other jobs can run in between.
WAITING_MAX: Final = 20


class LedgerSchedule:
    """The schedule of one process. While no Spark runner runs, nothing is requested.

    The next entry then covers the whole time since the last one. Nothing is lost.
    """

    def __init__(self, database: Database, ledgers: LedgerService) -> None:
        self._database = database
        self._ledgers = ledgers
        self._holder = uuid4().hex

    async def look(self, now: datetime | None = None) -> None:
        """Request the entries that are due at `now`, the most overdue first.

        Raises:
            UnavailableError: The log or the database cannot be reached.
        """
        async with self._database.transaction() as session:
            lease = LeaseRepository(session)
            ours = await lease.take(LEASE, self._holder, _LEASE_LENGTH)
            if not ours or not await SparkRunnerRepository(session).any_live():
                return
            room = WAITING_MAX - await LedgerRepository(session).open_jobs()
            kept = await LedgerRepository(session).extents()
        for each in due(kept, now or datetime.now(UTC))[: max(room, 0)]:
            # Try again in the next round. The subscription was deleted, or the queue is full.
            with suppress(NotFoundError, JobQueueFullError):
                await self._ledgers.request(each.topic, each.subscription)


def due(kept: Iterable[Kept], now: datetime) -> Sequence[Kept]:
    """Return the ledgers with an entry due at `now`, the most overdue first."""
    dates = [(next_due(each.until, each.retention), each) for each in kept]
    return [each for date, each in sorted(dates) if date <= now]
