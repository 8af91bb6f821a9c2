"""Deletes old data from the database. Data of each kind is kept for a limited time."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from app.storage.access.audit import AuditRepository
from app.storage.access.keys import AccessRepository
from app.storage.database import Database
from app.storage.discards.retractions import RetractionRepository
from app.storage.discards.undelivered import UndeliveredRepository
from app.storage.health.alerts import AlertRepository
from app.storage.health.history import HistoryRepository
from app.storage.health.history_partitions import HistoryPartitions
from app.storage.health.statuses import StatusRepository
from app.storage.health.subscription_health import SubscriptionHealthRepository
from app.storage.idempotent_requests import IdempotentRequestRepository
from app.storage.insight.jobs import JobRepository
from app.storage.insight.ledgers import LedgerRepository
from app.storage.insight.spark_runners import SparkRunnerRepository
from app.storage.replay.retransmissions import RetransmissionRepository
from app.storage.runtime.circuits import CircuitRepository
from app.storage.runtime.rate_notes import RateNoteRepository

PRUNE_EVERY: Final = timedelta(minutes=10)
# How long reports of workers and runners are kept. The service uses a report for some seconds. It
# is kept a little longer, so that people can look at it.
REPORTS_KEPT: Final = timedelta(hours=1)
# How long the stored state of a circuit is kept after its last use.
CIRCUITS_KEPT: Final = timedelta(days=1)
# How long retractions are kept. This is long enough, because a worker that is regarded as dead
# cannot come back after this time.
RETRACTIONS_KEPT: Final = timedelta(days=7)
JOBS_KEPT: Final = timedelta(days=90)
# How long the positions of retransmitted messages, and of their originals, are kept at least.
POSITIONS_KEPT: Final = timedelta(days=7)
# How long ledger entries are kept. They are proofs, so they are kept for as long as somebody may
# ask about old messages.
LEDGERS_KEPT: Final = timedelta(days=3 * 365)
ALERTS_KEPT: Final = timedelta(days=30)
AUDIT_KEPT: Final = timedelta(days=365)


def _now() -> datetime:
    return datetime.now(UTC)


class Pruner:
    """Deletes old data from the database: undelivered messages, jobs, events, keys and others.

    Every API process has a pruner. Two pruners can work at the same time without harm.
    """

    def __init__(
        self,
        database: Database,
        *,
        undelivered_kept: timedelta,
        audit_kept: timedelta = AUDIT_KEPT,
        positions_kept: timedelta = POSITIONS_KEPT,
        clock: Callable[[], datetime] = _now,
    ) -> None:
        self._database = database
        self._clock = clock
        self._audit_kept = audit_kept
        self._undelivered_kept = undelivered_kept
        self._positions_kept = positions_kept

    async def prune(self) -> None:
        """Delete all data that is too old now, in several transactions.

        Raises:
            StorageUnavailableError: The database cannot be reached.
        """
        async with self._database.transaction() as session:
            await StatusRepository(session).prune(REPORTS_KEPT)
            await CircuitRepository(session).prune(CIRCUITS_KEPT)
            await RateNoteRepository(session).prune(REPORTS_KEPT)
            await SparkRunnerRepository(session).prune(REPORTS_KEPT)
            await SubscriptionHealthRepository(session).prune()
            await IdempotentRequestRepository(session).drop_old()
            await AccessRepository(session).drop_ended(self._audit_kept)
            await RetractionRepository(session).drop_older(RETRACTIONS_KEPT)
        async with self._database.transaction() as session:
            await HistoryPartitions(session).drop_old(self._clock())
        while await self._drop_histories():
            continue
        while await self._drop_undelivered():
            continue
        while await self._drop_positions():
            continue
        while await self._drop_records():
            continue
        while await self._drop_jobs():
            continue
        while await self._drop_entries():
            continue
        while await self._drop_events():
            continue
        while await self._drop_alerts():
            continue

    async def _drop_histories(self) -> int:
        async with self._database.transaction() as session:
            return await HistoryRepository(session).drop_deleted()

    async def _drop_undelivered(self) -> int:
        async with self._database.transaction() as session:
            return await UndeliveredRepository(session).drop_older(self._undelivered_kept)

    async def _drop_positions(self) -> int:
        async with self._database.transaction() as session:
            return await RetransmissionRepository(session).drop_positions(self._positions_kept)

    async def _drop_records(self) -> int:
        async with self._database.transaction() as session:
            return await RetransmissionRepository(session).drop_records()

    async def _drop_jobs(self) -> int:
        async with self._database.transaction() as session:
            return await JobRepository(session).drop_older(JOBS_KEPT)

    async def _drop_entries(self) -> int:
        async with self._database.transaction() as session:
            return await LedgerRepository(session).drop_older(LEDGERS_KEPT)

    async def _drop_alerts(self) -> int:
        async with self._database.transaction() as session:
            return await AlertRepository(session).drop_older(ALERTS_KEPT)

    async def _drop_events(self) -> int:
        async with self._database.transaction() as session:
            return await AuditRepository(session).drop_older(self._audit_kept)
