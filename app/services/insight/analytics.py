"""Reads the results of analyses."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from app.domain.errors import AnalysisNotFoundError, JobNotFoundError
from app.domain.insight.analytics import Dimension, FailureCluster, UndeliveredCount
from app.domain.insight.failure_causes import (
    CHANGED_WITHIN,
    SettingsChange,
    changes_of,
    likely_cause,
)
from app.domain.job import Job, JobKind, JobScope, JobState
from app.domain.latency import SubscriptionLatency
from app.storage.access.audit import AuditRepository
from app.storage.database import Database
from app.storage.insight.analytics import AnalyticsRepository
from app.storage.insight.jobs import JobRepository
from app.storage.insight.latencies import LatencyRepository

_UNDELIVERED: Final = JobKind.UNDELIVERED_ANALYTICS
# The maximum number of changes of settings that are checked as possible causes of failures. The
# newest changes are checked.
_CHANGES_MAX: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Says which results of which analysis are requested.

    The results are from the job `job_id`. If `job_id` is None, they are from the last finished job
    for this topic and subscription. If `start` and `end` are None, results for the whole time of
    the job are requested.
    """

    limit: int
    job_id: str | None = None
    topic: str | None = None
    subscription: str | None = None
    start: datetime | None = None
    end: datetime | None = None
    by: Sequence[Dimension] = ()


class AnalyticsService:
    """Reads results of analyses.

    Each method is one transaction, and raises AnalysisNotFoundError if there are no results.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def undelivered(self, question: Question) -> tuple[Job, Sequence[UndeliveredCount]]:
        """Return the job of the analysis, and the numbers of discards.

        The discards are counted for each combination of the dimensions in `question.by`.
        """
        async with self._database.transaction() as session:
            job = await _answering(JobRepository(session), question, _UNDELIVERED)
            scope = JobScope(
                start=question.start or job.scope.start,
                end=question.end or job.scope.end,
                topic=question.topic,
                subscription=question.subscription,
            )
            counts = await AnalyticsRepository(session).undelivered(
                job.claim, scope, by=question.by, limit=question.limit
            )
        return job, counts

    async def failures(self, question: Question) -> tuple[Job, Sequence[FailureCluster]]:
        """Return the job of the analysis, and groups of similar failures with their likely causes.

        The result is always for the whole time of the job.
        """
        async with self._database.transaction() as session:
            job = await _answering(JobRepository(session), question, _UNDELIVERED)
            clusters = await AnalyticsRepository(session).failures(
                job.claim, topic=question.topic, limit=question.limit
            )
            changes = await _changes(AuditRepository(session), job, clusters)
        since = job.scope.start
        return job, [
            replace(each, cause=likely_cause(each, changes, since=since)) for each in clusters
        ]

    async def latency(self, question: Question) -> tuple[Job, Sequence[SubscriptionLatency]]:
        """Return the job of the analysis, and how long messages took to each subscription.

        The slowest subscription comes first. The result is always for the whole time of the job.
        """
        async with self._database.transaction() as session:
            job = await _answering(JobRepository(session), question, JobKind.LATENCY_ANALYTICS)
            found = await LatencyRepository(session).found(
                job.claim,
                topic=question.topic,
                subscription=question.subscription,
                limit=question.limit,
            )
        return job, found


async def _changes(
    audit: AuditRepository, job: Job, clusters: Sequence[FailureCluster]
) -> Sequence[SettingsChange]:
    """Return the changes of topics' and subscriptions' settings that may have caused the failures.

    These are changes during the time of the job, and up to CHANGED_WITHIN before.
    """
    names = {("topic", each.topic) for each in clusters} | {
        ("subscription", f"{each.topic}/{each.example_subscription}")
        for each in clusters
        if each.subscriptions == 1
    }
    since = job.scope.start - CHANGED_WITHIN
    events = await audit.changed(names, since=since, until=job.scope.end, limit=_CHANGES_MAX)
    return changes_of(events)


async def _answering(jobs: JobRepository, question: Question, kind: JobKind) -> Job:
    try:
        if question.job_id is None:
            return await jobs.last_done(kind, question.topic, question.subscription)
        job = await jobs.get(question.job_id)
    except JobNotFoundError as exc:
        hint = f'POST /jobs {{"kind": "{kind}"}} asks for one'
        raise AnalysisNotFoundError(f"{exc.message}: {hint}") from exc
    if job.kind is not kind:
        raise AnalysisNotFoundError(f"Job {job.id} has no such results: it is of kind {job.kind}")
    if job.state is not JobState.DONE:
        raise AnalysisNotFoundError(f"Job {job.id} has no results: it is {job.state}")
    return job
