"""Stores republishing tasks: requests and progress."""

from collections.abc import Mapping, Sequence
from typing import Final

from sqlalchemy import Select, func, or_, select, true
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.errors import JobNotFoundError
from app.domain.job import Job
from app.domain.replay.republishing import Republished, RepublishRequest, RepublishTask
from app.storage.insight.jobs import job_of
from app.storage.json_values import from_json, to_json
from app.storage.tables import JobRow, Json, OfflinePartRow, OfflineTaskRow

_TASK: Final = OfflineTaskRow
_PART: Final = OfflinePartRow


class OfflineTaskRepository:
    """The republishing tasks. A task has the id of its Spark job, and the job is stored first."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def add(self, job: Job, request: RepublishRequest) -> RepublishTask:
        """Store the request for a task."""
        row = OfflineTaskRow(
            job_id=job.id, source=request.source, target=request.target, request=to_json(request)
        )
        self._session.add(row)
        await self._session.flush()
        return RepublishTask(job=job, request=request)

    async def get(self, task_id: str) -> RepublishTask:
        """Return one task.

        Raises:
            JobNotFoundError: The job does not exist.
        """
        found = await self._found(_tasks().where(_TASK.job_id == task_id))
        if not found:
            raise JobNotFoundError(f"Task {task_id} does not exist")
        return found[0]

    async def newest(self, *, limit: int, topic: str | None = None) -> Sequence[RepublishTask]:
        """Return the newest tasks; with `topic`, only tasks with this topic as source or target."""
        about = true() if topic is None else or_(_TASK.source == topic, _TASK.target == topic)
        order = (JobRow.requested_at.desc(), JobRow.id.desc())
        return await self._found(_tasks().where(about).order_by(*order).limit(limit))

    async def _found(self, query: Select[JobRow, Json]) -> Sequence[RepublishTask]:
        rows = [(job_of(job), request) for job, request in await self._session.execute(query)]
        done = await self._done([job.id for job, _ in rows])
        return [
            RepublishTask(
                job=job,
                request=RepublishRequest(**from_json(RepublishRequest, request)),
                done=done.get(job.id, Republished()),
            )
            for job, request in rows
        ]

    async def _done(self, ids: Sequence[str]) -> Mapping[str, Republished]:
        offsets = func.sum(_PART.end - _PART.start)
        passed = func.sum(_PART.position - _PART.start)
        query = (
            select(
                _PART.job_id,
                offsets,
                passed,
                func.sum(_PART.written),
                func.sum(_PART.size),
                func.sum(_PART.refused),
                func.array_agg(_PART.problem).filter(_PART.problem.is_not(None)),
            )
            .where(_PART.job_id.in_(ids))
            .group_by(_PART.job_id)
        )
        return {
            job_id: Republished(
                share=float(at / total) if total else 0.0,
                written=int(written),
                size=int(size),
                refused=int(refused),
                refusals=tuple(each for each in problems or () if each),
            )
            for job_id, total, at, written, size, refused, problems in (
                await self._session.execute(query)
            )
        }


def _tasks() -> Select[JobRow, Json]:
    return select(JobRow, _TASK.request).join(_TASK, _TASK.job_id == JobRow.id)
