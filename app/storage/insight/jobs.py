"""Spark jobs: the API requests them, and one runner at a time has the claim of each job.

A runner has the claim until `lease_until`, and renews this time regularly. If it does not, another
runner can claim the job with the next attempt number. Reports with the old number are then ignored.
"""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import uuid4

from sqlalchemy import ColumnElement, and_, delete, func, or_, select, true, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.sql.dml import Update

from app.domain.errors import (
    JobEndedError,
    JobNotFoundError,
    JobQueueFullError,
    ValidationFailedError,
)
from app.domain.job import (
    ENDED,
    Claim,
    ClaimState,
    Job,
    JobKind,
    JobProgress,
    JobResult,
    JobScope,
    JobState,
    after_loss,
)
from app.storage.notices import JOBS
from app.storage.tables import JobRow
from app.storage.texts import storable

WAITING_MAX: Final = 100
PAGE_MAX: Final = 1_000
# The maximum number of jobs that one statement deletes, with their results.
DROP_MAX: Final = 20

_NOW: Final = func.clock_timestamp()
_WAITING: Final = {
    "state": JobState.REQUESTED.value,
    "runner": None,
    "lease_until": None,
    "step": "",
    "done": 0.0,
}
# Jobs of kinds that this version knows. Another version may have other kinds.
_KNOWN: Final = JobRow.kind.in_([kind.value for kind in JobKind])
_ENDED: Final = JobRow.state.in_([state.value for state in ENDED])
OPEN: Final = JobRow.state.in_([state.value for state in JobState if state not in ENDED])
"""The condition that a job is waiting or running."""


class JobRepository:
    """The jobs, including ended ones until they are deleted."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def add(self, kind: JobKind, scope: JobScope) -> Job:
        """Request a job, and notify the runners.

        Raises:
            JobQueueFullError: WAITING_MAX jobs are already waiting.
        """
        waiting = select(func.count()).where(JobRow.state == JobState.REQUESTED.value)
        if (await self._session.scalar(waiting) or 0) >= WAITING_MAX:
            raise JobQueueFullError(f"{WAITING_MAX} jobs wait already: try again when some ended")
        job_id = uuid4().hex
        values = {
            "id": job_id,
            "kind": kind.value,
            "scope": _scope_values(scope),
            "state": JobState.REQUESTED.value,
        }
        row = await self._session.scalar(insert(JobRow).values(values).returning(JobRow))
        await self._session.execute(select(func.pg_notify(JOBS, "")))
        return job_of(_there(row, job_id))

    async def get(self, job_id: str) -> Job:
        """Return one job.

        Raises:
            JobNotFoundError: The job does not exist.
        """
        query = select(JobRow).where(_KNOWN, JobRow.id == job_id)
        return job_of(_there(await self._session.scalar(query), job_id))

    async def newest(
        self, *, limit: int, state: JobState | None = None, after: str | None = None
    ) -> Sequence[Job]:
        """Return the newest `limit` (at most PAGE_MAX) jobs, of one state if given.

        With `after` (a job's id), return only older jobs.

        Raises:
            ValidationFailedError: No job has the id `after`.
        """
        wanted = true() if state is None else JobRow.state == state.value
        order = (JobRow.requested_at.desc(), JobRow.id.desc())
        query = select(JobRow).where(_KNOWN, wanted).order_by(*order).limit(min(limit, PAGE_MAX))
        if after is not None:
            query = query.where(await self._older(after))
        return [job_of(row) for row in await self._session.scalars(query)]

    async def _older(self, job_id: str) -> ColumnElement[bool]:
        known = None if "\0" in job_id else await self._session.get(JobRow, job_id)
        if known is None:
            raise ValidationFailedError.of("after", "must be the id of a job")
        at_once = and_(JobRow.requested_at == known.requested_at, JobRow.id < known.id)
        return or_(JobRow.requested_at < known.requested_at, at_once)

    async def last_done(self, kind: JobKind, topic: str | None, subscription: str | None) -> Job:
        """Return the last finished job of this kind whose scope includes topic and subscription.

        Raises:
            JobNotFoundError: There is no such job.
        """
        done = (JobRow.kind == kind.value, JobRow.state == JobState.DONE.value)
        covers = [
            _covers("topic", topic),
            _covers("subscription", subscription),
        ]
        query = select(JobRow).where(*done, *covers).order_by(JobRow.ended_at.desc()).limit(1)
        row = await self._session.scalar(query)
        if row is None:
            raise JobNotFoundError(f"No job of kind {kind} has finished with that in its scope")
        return job_of(row)

    async def cancel(self, job_id: str) -> Job:
        """Cancel the job: immediately if it is waiting; otherwise its runner cancels it.

        If the job is cancelled already, nothing changes.

        Raises:
            JobNotFoundError: The job does not exist.
            JobEndedError: The job has already ended.
        """
        query = select(JobRow).where(_KNOWN, JobRow.id == job_id).with_for_update()
        job = job_of(_there(await self._session.scalar(query), job_id))
        if job.state is JobState.CANCELLED:
            return job
        if job.state in ENDED:
            raise JobEndedError(f"Job {job_id} is {job.state} already")
        waiting = job.state is JobState.REQUESTED
        values = _ending(JobState.CANCELLED) if waiting else {"cancel_requested": True}
        return await self._changed(job_id, values)

    async def take(
        self,
        runner: str,
        lease: timedelta,
        *,
        kinds: Collection[JobKind] = tuple(JobKind),
        job_id: str | None = None,
    ) -> Job | None:
        """Claim the job that has waited longest, for the time `lease`. Return None if no job waits.

        Only a job of one of the `kinds` is claimed. With `job_id`, only the job with this id is
        claimed.
        """
        await self._settle_abandoned()
        oldest = (
            select(JobRow.id)
            .where(JobRow.kind.in_([kind.value for kind in kinds]))
            .where(JobRow.state == JobState.REQUESTED.value)
            .where(true() if job_id is None else JobRow.id == job_id)
            .order_by(JobRow.requested_at)
            .limit(1)
            .with_for_update(skip_locked=True)
        )
        found = await self._session.scalar(oldest)
        if found is None:
            return None
        taken = {
            "state": JobState.RUNNING.value,
            "runner": runner,
            "started_at": func.coalesce(JobRow.started_at, _NOW),
            "lease_until": _NOW + lease,
            "attempt": JobRow.attempt + 1,
            "step": "",
            "done": 0.0,
        }
        return await self._changed(found, taken)

    async def report(self, claim: Claim, progress: JobProgress, lease: timedelta) -> ClaimState:
        """Store the job's progress, and renew the claim for another `lease`."""
        reported = {
            "step": storable(progress.step),
            "done": progress.done,
            "log": [storable(line) for line in progress.log],
            "lease_until": _NOW + lease,
        }
        requested = await self._session.scalar(
            _of(claim).values(reported).returning(JobRow.cancel_requested)
        )
        if requested is None:
            return ClaimState.LOST
        return ClaimState.CANCELLED if requested else ClaimState.KEPT

    async def finish(self, claim: Claim, result: JobResult) -> bool:
        """Set the job to DONE with that result. Return False if the claim was lost."""
        done = {"counts": dict(result.counts), "output": result.output, "done": 1.0}
        return await self._end(claim, _ending(JobState.DONE) | done)

    async def fail(self, claim: Claim, reason: str) -> bool:
        """Set the job to FAILED for that reason. Return False if the claim was lost."""
        return await self._end(claim, _ending(JobState.FAILED) | {"reason": storable(reason)})

    async def cancelled(self, claim: Claim) -> bool:
        """Set the job to CANCELLED, as requested. Return False if the claim was lost."""
        return await self._end(claim, _ending(JobState.CANCELLED))

    async def release(self, claim: Claim) -> bool:
        """Release the job, so that any runner can take it. Return False if the claim was lost."""
        released = await self._end(claim, _WAITING)
        await self._session.execute(select(func.pg_notify(JOBS, "")))
        return released

    async def drop_older(self, kept: timedelta) -> int:
        """Delete jobs that ended more than `kept` ago, with their results; return how many."""
        old = select(JobRow.id).where(_ENDED, JobRow.ended_at < _NOW - kept).limit(DROP_MAX)
        dropped = delete(JobRow).where(JobRow.id.in_(old)).returning(JobRow.id)
        return len((await self._session.scalars(dropped)).all())

    async def _settle_abandoned(self) -> None:
        """Release or end the jobs whose runner no longer renews its claim; `after_loss` decides."""
        gone = (JobRow.state == JobState.RUNNING.value) & (JobRow.lease_until < _NOW)
        query = select(JobRow).where(_KNOWN, gone).with_for_update(skip_locked=True)
        for row in (await self._session.scalars(query)).all():
            state, reason = after_loss(job_of(row))
            values = _WAITING if state is JobState.REQUESTED else _ending(state)
            lost = {"lost": row.lost + 1, "reason": reason}
            await self._changed(row.id, values | lost)

    async def _changed(self, job_id: str, values: dict[str, Any]) -> Job:
        # Get the row as it is after the update. Without `populate_existing`, the session would
        # return the row that it read before.
        query = update(JobRow).where(JobRow.id == job_id).values(values).returning(JobRow)
        row = await self._session.scalar(query.execution_options(populate_existing=True))
        return job_of(_there(row, job_id))

    async def _end(self, claim: Claim, values: dict[str, Any]) -> bool:
        ended = _of(claim).values(values).returning(JobRow.cancel_requested)
        return await self._session.scalar(ended) is not None


def _of(claim: Claim) -> Update:
    return update(JobRow).where(
        JobRow.id == claim.job_id,
        JobRow.attempt == claim.attempt,
        JobRow.state == JobState.RUNNING.value,
    )


def _ending(state: JobState) -> dict[str, Any]:
    return {"state": state.value, "ended_at": _NOW, "lease_until": None}


def _covers(name: str, wanted: str | None) -> ColumnElement[bool]:
    """Return the SQL condition that the scope of a job includes this topic or subscription.

    A scope without a topic, or without a subscription, includes all of them.
    """
    stored = JobRow.scope[name].astext
    return stored.is_(None) if wanted is None else or_(stored.is_(None), stored == wanted)


def _there(row: JobRow | None, job_id: str) -> JobRow:
    if row is None:
        raise JobNotFoundError(f"Job {job_id} does not exist")
    return row


def _scope_values(scope: JobScope) -> dict[str, Any]:
    return {
        "from": scope.start.isoformat(),
        "to": scope.end.isoformat(),
        "topic": scope.topic,
        "subscription": scope.subscription,
        "sloSeconds": None if scope.slo is None else scope.slo.total_seconds(),
    }


def _scope_of(values: dict[str, Any]) -> JobScope:
    # The SLO (the promised delivery time) is None for jobs of earlier versions.
    slo = values.get("sloSeconds")
    return JobScope(
        start=datetime.fromisoformat(values["from"]),
        end=datetime.fromisoformat(values["to"]),
        topic=values["topic"],
        subscription=values["subscription"],
        slo=None if slo is None else timedelta(seconds=slo),
    )


def job_of(row: JobRow) -> Job:
    """Return the job in the row."""
    return Job(
        id=row.id,
        kind=JobKind(row.kind),
        scope=_scope_of(row.scope),
        state=JobState(row.state),
        requested_at=row.requested_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        runner=row.runner,
        attempt=row.attempt,
        lost=row.lost,
        cancel_requested=row.cancel_requested,
        progress=JobProgress(step=row.step, done=row.done, log=tuple(row.log)),
        result=JobResult(counts=row.counts, output=row.output),
        reason=row.reason,
    )
