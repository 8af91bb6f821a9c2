"""Spark jobs: asked for, looked at, cancelled. Running them is the Spark runner's."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.domain.access.audit import Action, Change
from app.domain.catalogue.topic import Topic
from app.domain.errors import ValidationFailedError
from app.domain.job import Job, JobKind, JobScope, JobState
from app.services.access.audit import note
from app.storage.access.audit import AuditRepository
from app.storage.catalogue.topics import TopicRepository
from app.storage.database import Database
from app.storage.insight.jobs import JobRepository
from app.storage.insight.spark_runners import SparkRunnerRepository


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsSeen:
    """Jobs as they stand, and whether there is a runner to take those that wait."""

    jobs: Sequence[Job]
    runner_live: bool


class JobService:
    """Request, look up and cancel jobs; each method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def request(self, kind: JobKind, scope: JobScope) -> JobsSeen:
        """Have it done as soon as a runner is free; JobQueueFullError.

        ARCHIVE of one topic: TopicNotFoundError, and ValidationFailedError unless it is archived.
        """
        async with self._database.transaction() as session:
            if kind is JobKind.ARCHIVE and scope.topic is not None:
                _require_archived(await TopicRepository(session).get(scope.topic))
            job = await JobRepository(session).add(kind, scope)
            await note(AuditRepository(session), _change(Action.REQUESTED, job))
            live = await SparkRunnerRepository(session).any_live()
        return JobsSeen(jobs=[job], runner_live=live)

    async def newest(
        self, *, limit: int, state: JobState | None = None, after: str | None = None
    ) -> JobsSeen:
        """The newest jobs, of one state if that is given; `after` a job's id: older ones.

        ValidationFailedError.
        """
        async with self._database.transaction() as session:
            jobs = await JobRepository(session).newest(limit=limit, state=state, after=after)
            live = await SparkRunnerRepository(session).any_live()
        return JobsSeen(jobs=jobs, runner_live=live)

    async def get(self, job_id: str) -> JobsSeen:
        """One job; JobNotFoundError."""
        async with self._database.transaction() as session:
            job = await JobRepository(session).get(job_id)
            live = await SparkRunnerRepository(session).any_live()
        return JobsSeen(jobs=[job], runner_live=live)

    async def cancel(self, job_id: str) -> JobsSeen:
        """Cancel it; JobNotFoundError, JobEndedError."""
        async with self._database.transaction() as session:
            job = await JobRepository(session).cancel(job_id)
            await note(AuditRepository(session), _change(Action.CANCELLED, job))
            live = await SparkRunnerRepository(session).any_live()
        return JobsSeen(jobs=[job], runner_live=live)


def _require_archived(topic: Topic) -> None:
    if not topic.offline_storage.enabled:
        raise ValidationFailedError.of("topic", "must have offlineStorage.enabled")


def _change(action: Action, job: Job) -> Change:
    said = {"kind": job.kind.value, "topic": job.scope.topic, "state": job.state.value}
    return Change(action=action, kind="job", name=job.id, after=said)
