"""Implements the runner's store of jobs by the database."""

from datetime import timedelta

import structlog

from app.domain.errors import SecretKeyMissingError
from app.domain.insight.ledger import LedgerEntry
from app.domain.job import Claim, ClaimState, Job, JobProgress, JobResult
from app.storage.database import Database
from app.storage.insight.analytics import AnalyticsRepository
from app.storage.insight.archives import ArchiveRepository
from app.storage.insight.jobs import JobRepository
from app.storage.insight.latencies import LatencyRepository
from app.storage.insight.ledgers import LedgerRepository
from app.storage.insight.simulations import SimulationRepository
from app.storage.insight.spark_runners import SparkRunnerRepository
from app.storage.notices import Notices
from app.storage.replay.retransmissions import RetransmissionRepository

_log = structlog.get_logger(__name__)


class DatabaseJobs:
    """The jobs for one runner. Every method except `wait` may raise StorageUnavailableError."""

    def __init__(self, database: Database, notices: Notices, runner: str) -> None:
        self._database = database
        self._notices = notices
        self._runner = runner

    async def wait(self, at_most: timedelta) -> None:
        """Return when there may be a job, or after `at_most`."""
        await self._notices.wait(at_most)

    async def beat(self) -> None:
        """Store a heartbeat of this runner."""
        async with self._database.transaction() as session:
            await SparkRunnerRepository(session).beat(self._runner)

    async def leave(self) -> None:
        """Remove this runner, because it ends."""
        async with self._database.transaction() as session:
            await SparkRunnerRepository(session).remove(self._runner)

    async def take(self, lease: timedelta) -> Job | None:
        """Claim the next job for `lease`."""
        async with self._database.transaction() as session:
            return await JobRepository(session).take(self._runner, lease)

    async def report(self, claim: Claim, progress: JobProgress, lease: timedelta) -> ClaimState:
        """Store the job's progress, and renew the claim for another `lease`."""
        async with self._database.transaction() as session:
            return await JobRepository(session).report(claim, progress, lease)

    async def finish(self, claim: Claim, result: JobResult) -> bool:
        """Store the job's result in one transaction; from then on it is shown."""
        try:
            return await self._finish(claim, result)
        except SecretKeyMissingError as exc:
            # Fail the job: nothing of its result was stored, and it must be requested again after
            # the key is set.
            return await self.fail(claim, exc.message)

    async def _finish(self, claim: Claim, result: JobResult) -> bool:
        async with self._database.transaction() as session:
            await AnalyticsRepository(session).drop_overtaken(claim)
            await LatencyRepository(session).drop_overtaken(claim)
            await SimulationRepository(session).drop_overtaken(claim)
            if not await JobRepository(session).finish(claim, result):
                return False
            chosen = RetransmissionRepository(session).chosen
            await chosen(claim, result.counts, result.samples)
            await SimulationRepository(session).keep(claim, result.samples)
            await ArchiveRepository(session).keep(claim)
            entry = await LedgerRepository(session).write(claim)
        if entry is not None:
            _log_written(claim, entry)
        return True

    async def fail(self, claim: Claim, reason: str) -> bool:
        """Store that the job has failed."""
        async with self._database.transaction() as session:
            return await JobRepository(session).fail(claim, reason)

    async def cancelled(self, claim: Claim) -> bool:
        """Store that the job is cancelled."""
        async with self._database.transaction() as session:
            return await JobRepository(session).cancelled(claim)

    async def release(self, claim: Claim) -> bool:
        """Let the job wait again for any runner."""
        async with self._database.transaction() as session:
            return await JobRepository(session).release(claim)


def _log_written(claim: Claim, entry: LedgerEntry) -> None:
    """Log the entry, because somebody who can change the database cannot change the log files."""
    report = _log.warning if entry.sums.missing else _log.info
    report(
        "ledger_entry_written",
        job=claim.job_id,
        number=entry.number,
        hash=entry.hash,
        signed_with=entry.key_id,
        missing=entry.sums.missing,
        doubts=[doubt.value for doubt in entry.doubts],
    )
