"""The runner: runs jobs in lanes, and runs a job only while it holds the job's claim.

A lane has some kinds of jobs. In each lane, one job runs at a time.
"""

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Final, Protocol

import structlog

from app.domain.errors import LogUnavailableError, StorageUnavailableError, UnavailableError
from app.domain.job import Claim, ClaimState, Job, JobKind, JobProgress, JobResult
from spark.errors import EngineLostError
from spark.lanes import LANES
from spark.work import WorkProgress, WorkStoppedError

# If the database or the log is down during an attempt of a job, the job is tried again. It fails
# finally if this happens in the attempt with this number, or in a later one.
ATTEMPTS_MAX: Final = 5
# The maximum length of a failure's reason, in characters. A longer reason is cut.
REASON_LENGTH_MAX: Final = 500
# The errors that mean that the database or the log is down.
_AWAY: Final = (StorageUnavailableError, LogUnavailableError)

_log = structlog.get_logger(__name__)


class JobStore(Protocol):
    """The store of jobs; `spark.store.DatabaseJobs` documents its methods."""

    async def wait(self, at_most: timedelta) -> None: ...  # noqa: D102 - documented in the class that the docstring names
    async def beat(self) -> None: ...  # noqa: D102 - documented in the class that the docstring names
    async def leave(self) -> None: ...  # noqa: D102 - documented in the class that the docstring names
    async def take(  # noqa: D102 - documented in the class that the docstring names
        self, lease: timedelta, kinds: Collection[JobKind]
    ) -> Job | None: ...
    async def report(  # noqa: D102 - documented in the class that the docstring names
        self, claim: Claim, progress: JobProgress, lease: timedelta
    ) -> ClaimState: ...
    async def finish(self, claim: Claim, result: JobResult) -> bool: ...  # noqa: D102 - documented in the class that the docstring names
    async def fail(self, claim: Claim, reason: str) -> bool: ...  # noqa: D102 - documented in the class that the docstring names
    async def cancelled(self, claim: Claim) -> bool: ...  # noqa: D102 - documented in the class that the docstring names
    async def release(self, claim: Claim) -> bool: ...  # noqa: D102 - documented in the class that the docstring names


class Engine(Protocol):
    """Runs several jobs at a time. Both methods block. See `spark.engine.SparkEngine`."""

    def run(self, job: Job, progress: WorkProgress) -> JobResult: ...  # noqa: D102 - documented in the class that the docstring names
    def cancel(self, job: Job) -> None: ...  # noqa: D102 - documented in the class that the docstring names


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerPace:
    """How often a runner reads from the store of jobs and writes to it.

    Attributes:
        lease: How long a claim lasts. If the runner does not renew the claim in this time, it loses
            the claim.
        report_every: The time between two reports of a job's progress. Each report renews the
            claim.
        beat_every: The time between two heartbeats.
        look_every: The longest time between two look-ups of waiting jobs.
    """

    lease: timedelta = timedelta(seconds=15)
    report_every: timedelta = timedelta(seconds=1)
    beat_every: timedelta = timedelta(seconds=2)
    look_every: timedelta = timedelta(seconds=2)


class _Ending(StrEnum):
    """The reason why a job is stopped before it has ended."""

    CANCELLED = "cancelled"
    LOST = "lost"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    reason: str
    # Whether the job may run again, because the job did not cause the problem.
    again: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lane:
    """Some kinds of jobs. Only one job of these kinds runs at a time.

    `wake` is set when a job of these kinds may be waiting for a runner.
    """

    kinds: Collection[JobKind]
    wake: asyncio.Event = field(default_factory=asyncio.Event)


class Runner:
    """Runs the jobs of a store on an engine until it is stopped."""

    def __init__(self, store: JobStore, engine: Engine, *, pace: RunnerPace | None = None) -> None:
        self._store = store
        self._engine = engine
        self._pace = pace or RunnerPace()

    async def run(self, stopping: asyncio.Event) -> None:
        """Run jobs until `stopping` is set. Then release the running jobs for another runner.

        Raises:
            EngineLostError: This process cannot continue. The error is inside an ExceptionGroup.
        """
        lanes = [_Lane(kinds=kinds) for kinds in LANES.values()]
        async with asyncio.TaskGroup() as tasks:
            aside = [tasks.create_task(self._beat()), tasks.create_task(self._notice(lanes))]
            async with asyncio.TaskGroup() as running:
                for lane in lanes:
                    running.create_task(self._run_lane(lane, stopping))
                await stopping.wait()
                for lane in lanes:
                    lane.wake.set()
            for each in aside:
                each.cancel()
        await self._tried(self._store.leave, "runner_sign_off_failed")

    async def _run_lane(self, lane: _Lane, stopping: asyncio.Event) -> None:
        while not stopping.is_set():
            # Clear the event before looking for a job. A notice that comes during the search then
            # sets the event again, and is not lost.
            lane.wake.clear()
            if job := await self._taken(lane.kinds):
                await self.carry_out(job, stopping)
            elif not stopping.is_set():
                await lane.wake.wait()

    async def _notice(self, lanes: Collection[_Lane]) -> None:
        """Wake all lanes at each notice of a new job. Also wake them regularly without a notice."""
        while True:
            await self._store.wait(self._pace.look_every)
            for lane in lanes:
                lane.wake.set()

    async def _beat(self) -> None:
        while True:
            await self._tried(self._store.beat, "runner_beat_failed")
            await asyncio.sleep(self._pace.beat_every.total_seconds())

    async def _taken(self, kinds: Collection[JobKind]) -> Job | None:
        try:
            return await self._store.take(self._pace.lease, kinds)
        except UnavailableError as exc:
            _log.warning("no_job_taken", error=exc.message)
            return None

    async def carry_out(self, job: Job, stopping: asyncio.Event) -> None:
        """Run a claimed job, and store how it ended. If `stopping` is set, release the job.

        Raises:
            EngineLostError: This process cannot continue. The error is inside an ExceptionGroup.
        """
        _log.info("job_taken", job=job.id, kind=job.kind, attempt=job.attempt)
        progress = WorkProgress(job.progress.log)
        async with asyncio.TaskGroup() as tasks:
            doing = tasks.create_task(self._done(job, progress))
            looking = tasks.create_task(self._look(job, progress))
            ending = await self._watch(job, progress, doing=doing, stopping=stopping)
            looking.cancel()
        # Store the last log lines of the job before its final state, because the lines explain the
        # state.
        await self._claim_state(job.claim, progress)
        await self._settle(job, doing.result(), ending)

    async def _done(self, job: Job, progress: WorkProgress) -> JobResult | _Failure | None:
        """Return the job's result, its failure, or None if the job was stopped.

        Raises:
            EngineLostError: Spark has ended.
        """
        try:
            return await asyncio.to_thread(self._engine.run, job, progress)
        except EngineLostError:
            raise
        except WorkStoppedError:
            return None
        except Exception as exc:  # noqa: BLE001 - any error ends only this job
            if progress.stopped:
                return None
            for line in traceback.format_exception_only(exc)[-1].splitlines()[:10]:
                progress.report(line)
            _log.exception("job_broke", job=job.id)
            return _failure_of(exc)

    async def _look(self, job: Job, progress: WorkProgress) -> None:
        """Read the progress of the job from Spark regularly, until cancelled.

        This method runs in a task of its own. So the reports to the store continue even if Spark
        hangs.
        """
        while True:
            await asyncio.sleep(self._pace.report_every.total_seconds())
            try:
                await asyncio.to_thread(progress.look)
            except Exception as exc:  # noqa: BLE001 - a job goes on without its progress, whatever Spark raises
                _log.warning("progress_unknown", job=job.id, error=type(exc).__name__)

    async def _watch(
        self,
        job: Job,
        progress: WorkProgress,
        *,
        doing: asyncio.Task[JobResult | _Failure | None],
        stopping: asyncio.Event,
    ) -> _Ending | None:
        """Report the progress to the store while the job runs, and stop the job if necessary.

        Return why the job was stopped; None if it was not stopped.
        """
        loop = asyncio.get_running_loop()
        ending: _Ending | None = None
        kept_until = loop.time() + self._pace.lease.total_seconds()
        while not doing.done():
            await asyncio.wait({doing}, timeout=self._pace.report_every.total_seconds())
            claim_state = await self._claim_state(job.claim, progress)
            if claim_state is not None:
                kept_until = loop.time() + self._pace.lease.total_seconds()
            overdue = loop.time() > kept_until
            ending = ending or _ending_for(claim_state, overdue=overdue, stopping=stopping.is_set())
            if ending is not None and not doing.done():
                progress.stop()
                await asyncio.to_thread(self._engine.cancel, job)
        return ending

    async def _claim_state(self, claim: Claim, progress: WorkProgress) -> ClaimState | None:
        """Report the progress to the store. Return the claim's state; None if the store is down."""
        try:
            return await self._store.report(claim, progress.now(), self._pace.lease)
        except UnavailableError as exc:
            _log.warning("job_not_reported", job=claim.job_id, error=exc.message)
            return None

    async def _settle(
        self, job: Job, done: JobResult | _Failure | None, ending: _Ending | None
    ) -> None:
        """Store how the job ended.

        If the state cannot be stored, the lease of the claim expires, and the job runs again.
        """
        claim, store = job.claim, self._store
        match done:
            case JobResult():
                await self._written(job, "done", lambda: store.finish(claim, done))
            case _Failure(again=True) if job.attempt < ATTEMPTS_MAX:
                await self._written(job, "released", lambda: store.release(claim))
            case _Failure(reason=reason):
                await self._written(job, "failed", lambda: store.fail(claim, reason))
            case None if ending is _Ending.CANCELLED:
                await self._written(job, "cancelled", lambda: store.cancelled(claim))
            case None:
                await self._written(job, "released", lambda: store.release(claim))

    async def _written(self, job: Job, state: str, write: Callable[[], Awaitable[bool]]) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._pace.lease.total_seconds()
        while loop.time() < until:
            try:
                ours = await write()
            except UnavailableError as exc:
                _log.warning("job_end_not_written", job=job.id, error=exc.message)
                await asyncio.sleep(self._pace.report_every.total_seconds())
            else:
                _log.info("job_ended", job=job.id, state=state if ours else "taken by another")
                return

    @staticmethod
    async def _tried(action: Callable[[], Awaitable[None]], problem: str) -> None:
        try:
            await action()
        except UnavailableError as exc:
            _log.warning(problem, error=exc.message)


def _ending_for(claim_state: ClaimState | None, *, overdue: bool, stopping: bool) -> _Ending | None:
    if claim_state is ClaimState.CANCELLED:
        return _Ending.CANCELLED
    if claim_state is ClaimState.LOST or overdue:
        return _Ending.LOST
    return _Ending.STOPPING if stopping else None


def _failure_of(exc: Exception) -> _Failure:
    """Return the error in one line, without the stack trace of a remote Python process."""
    # Search for the names of errors in the text of `exc`. An error in a Spark task contains its
    # traceback only as text.
    text = f"{type(exc).__name__} {exc}"
    unavailable = any(each.__name__ in text for each in _AWAY)
    lines = [line.strip() for line in str(exc).splitlines() if line.strip()]
    reason = next((line for line in reversed(lines) if "Error" in line), "".join(lines[:1]))
    return _Failure(reason=(reason or type(exc).__name__)[:REASON_LENGTH_MAX], again=unavailable)
