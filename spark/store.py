"""The runner's store of jobs, in the database."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Final

import structlog

from app.domain.errors import AngeliaError, SecretKeyMissingError
from app.domain.insight.ledger_anchors import LedgerAnchor
from app.domain.job import Claim, ClaimState, Job, JobKind, JobProgress, JobResult
from app.log.interface import MessageLog
from app.services.insight.ledger_anchors import append_anchors
from app.storage.database import Database
from app.storage.insight.analytics import AnalyticsRepository
from app.storage.insight.archives import ArchiveRepository
from app.storage.insight.jobs import JobRepository
from app.storage.insight.latencies import LatencyRepository
from app.storage.insight.ledgers import LedgerRepository, NewEntry
from app.storage.insight.simulations import SimulationRepository
from app.storage.insight.spark_runners import SparkRunnerRepository
from app.storage.notices import Notices
from app.storage.replay.retransmissions import RetransmissionRepository

# The maximum time for appending anchors to the log.
ANCHORED_WITHIN: Final = timedelta(seconds=30)

_log = structlog.get_logger(__name__)


class DatabaseJobs:
    """The store of jobs, for one runner.

    Every method except `wait` may raise StorageUnavailableError.
    """

    def __init__(
        self,
        database: Database,
        notices: Notices,
        runner: str,
        *,
        open_a_log: Callable[[], AbstractAsyncContextManager[MessageLog]] | None = None,
    ) -> None:
        """Create a `DatabaseJobs`.

        New ledger entries get anchors in the log that `open_a_log` opens. If `open_a_log` is None,
        new ledger entries get no anchors.
        """
        self._database = database
        self._notices = notices
        self._runner = runner
        self._open_a_log = open_a_log

    async def wait(self, at_most: timedelta) -> None:
        """Wait until a job may be ready to be claimed, but not longer than `at_most`."""
        await self._notices.wait(at_most)

    async def beat(self) -> None:
        """Store a heartbeat of this runner."""
        async with self._database.transaction() as session:
            await SparkRunnerRepository(session).beat(self._runner)

    async def leave(self) -> None:
        """Remove this runner from the list of runners, because it ends."""
        async with self._database.transaction() as session:
            await SparkRunnerRepository(session).remove(self._runner)

    async def take(self, lease: timedelta, kinds: Collection[JobKind]) -> Job | None:
        """Claim the next job of these kinds for the time `lease`. Return None if no job waits."""
        async with self._database.transaction() as session:
            return await JobRepository(session).take(self._runner, lease, kinds=kinds)

    async def report(self, claim: Claim, progress: JobProgress, lease: timedelta) -> ClaimState:
        """Store the job's progress, and renew the claim for another `lease`.

        Return the state of the claim.
        """
        async with self._database.transaction() as session:
            return await JobRepository(session).report(claim, progress, lease)

    async def finish(self, claim: Claim, result: JobResult) -> bool:
        """Store the job's result in one transaction. From then on, the API shows the result.

        Return False if this runner has lost the claim. Then nothing is stored.
        """
        try:
            return await self._finish(claim, result)
        except SecretKeyMissingError as exc:
            # Fail the job, because the key that signs ledger entries is missing. Nothing of the
            # job's result was stored. After the key is set, users must request the job again.
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
            new = await LedgerRepository(session).write(claim)
        for each in new:
            _log_written(claim, each)
        if new:
            await self._anchor([each.anchor for each in new])
        return True

    async def _anchor(self, anchors: Sequence[LedgerAnchor]) -> None:
        """Append the anchors to the log.

        If the append fails, these entries get no anchors of their own. The anchor of the next entry
        also covers them.
        """
        if self._open_a_log is None:
            return
        try:
            async with asyncio.timeout(ANCHORED_WITHIN.total_seconds()), self._open_a_log() as log:
                await append_anchors(log, anchors)
        except (AngeliaError, TimeoutError) as exc:
            # The job succeeds even without anchors, because its ledger entries are stored.
            _log.warning("ledger_entries_not_anchored", entries=len(anchors), error=str(exc))

    async def fail(self, claim: Claim, reason: str) -> bool:
        """Store that the job has failed. Return False if this runner has lost the claim."""
        async with self._database.transaction() as session:
            return await JobRepository(session).fail(claim, reason)

    async def cancelled(self, claim: Claim) -> bool:
        """Store that the job is cancelled. Return False if this runner has lost the claim."""
        async with self._database.transaction() as session:
            return await JobRepository(session).cancelled(claim)

    async def release(self, claim: Claim) -> bool:
        """Release the claim, so that any runner can take the job.

        Return False if this runner had lost the claim.
        """
        async with self._database.transaction() as session:
            return await JobRepository(session).release(claim)


def _log_written(claim: Claim, new: NewEntry) -> None:
    """Write the hash of a ledger entry to this process's log file, outside of the database.

    Somebody who can change the database cannot change the log files.
    """
    entry = new.entry
    report = _log.warning if entry.sums.missing else _log.info
    report(
        "ledger_entry_written",
        job=claim.job_id,
        subscription_id=new.anchor.subscription_id,
        number=entry.number,
        hash=entry.hash,
        signed_with=entry.key_id,
        missing=entry.sums.missing,
        doubts=[doubt.value for doubt in entry.doubts],
    )
