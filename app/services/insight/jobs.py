"""Spark jobs: requests, states, cancellation. A Spark runner runs the jobs."""

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
    """A list of jobs. `runner_live` tells whether a Spark runner runs, which jobs need."""

    jobs: Sequence[Job]
    runner_live: bool


class JobService:
    """Requests, looks up and cancels jobs; each method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def request(self, kind: JobKind, scope: JobScope) -> JobsSeen:
        """Request a job, which the next free runner takes.

        Raises:
            JobQueueFullError: Too many jobs are waiting.
            TopicNotFoundError: The topic does not exist.
            ValidationFailedError: The topic of an ARCHIVE job has no archive.
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
        """Return the newest jobs; with `state`, only jobs in this state.

        With `after`, return only jobs that are older than the job with this id.

        Raises:
            ValidationFailedError: A value is not valid.
        """
        async with self._database.transaction() as session:
            jobs = await JobRepository(session).newest(limit=limit, state=state, after=after)
            live = await SparkRunnerRepository(session).any_live()
        return JobsSeen(jobs=jobs, runner_live=live)

    async def get(self, job_id: str) -> JobsSeen:
        """Return one job.

        Raises:
            JobNotFoundError: The job does not exist.
        """
        async with self._database.transaction() as session:
            job = await JobRepository(session).get(job_id)
            live = await SparkRunnerRepository(session).any_live()
        return JobsSeen(jobs=[job], runner_live=live)

    async def cancel(self, job_id: str) -> JobsSeen:
        """Cancel the job.

        Raises:
            JobNotFoundError: The job does not exist.
            JobEndedError: The job has already ended.
        """
        async with self._database.transaction() as session:
            job = await JobRepository(session).cancel(job_id)
            await note(AuditRepository(session), _change(Action.CANCELLED, job))
            live = await SparkRunnerRepository(session).any_live()
        return JobsSeen(jobs=[job], runner_live=live)


def _require_archived(topic: Topic) -> None:
    if not topic.offline_storage.enabled:
        raise ValidationFailedError.of("topic", "must have offlineStorage.enabled")


def _change(action: Action, job: Job) -> Change:
    details = {"kind": job.kind.value, "topic": job.scope.topic, "state": job.state.value}
    return Change(action=action, kind="job", name=job.id, after=details)
