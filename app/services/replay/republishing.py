"""Offline retransmission: a Spark job publishes old messages of one topic to a target topic."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from app.domain.access.audit import Action, Change
from app.domain.job import JobKind, JobScope
from app.domain.replay.republishing import RepublishRequest, RepublishTask, require_alike
from app.log.interface import MessageLog
from app.services.access.audit import note
from app.services.replay.spans import WantedSpans, spans_of_time
from app.storage.access.audit import AuditRepository
from app.storage.catalogue.topics import TopicRepository
from app.storage.database import Database
from app.storage.insight.jobs import JobRepository
from app.storage.insight.spark_runners import SparkRunnerRepository
from app.storage.replay.republishing import OfflineTaskRepository


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksSeen:
    """A list of tasks. `runner_live` tells whether a Spark runner runs, which tasks need."""

    tasks: Sequence[RepublishTask]
    runner_live: bool


class OfflineService:
    """Requests, reads and cancels offline retransmissions; each change is one transaction."""

    def __init__(self, database: Database, log: MessageLog) -> None:
        self._database = database
        self._log = log

    async def request(
        self, source: str, target: str, *, since: datetime, until: datetime
    ) -> TasksSeen:
        """Request a task that publishes old messages of the topic `source` to the topic `target`.

        The messages are those from `since` to `until` that the log or the archive has now.

        Raises:
            TopicNotFoundError: The topic does not exist.
            ValidationFailedError: A value is not valid.
            JobQueueFullError: Too many jobs are waiting.
            LogUnavailableError: The log cannot be reached.
        """
        request = await self._between(source, target, since=since, until=until)
        wanted = WantedSpans(since=since, until=until)
        spans, gone = await spans_of_time(self._database, self._log, topic=source, wanted=wanted)
        request = replace(request, spans=tuple(spans), gone=sum(gone))
        scope = JobScope(start=since, end=until, topic=source)
        async with self._database.transaction() as session:
            job = await JobRepository(session).add(JobKind.OFFLINE_RETRANSMISSION, scope)
            task = await OfflineTaskRepository(session).add(job, request)
            await note(AuditRepository(session), _change(Action.REQUESTED, task))
            live = await SparkRunnerRepository(session).any_live()
        return TasksSeen(tasks=[task], runner_live=live)

    async def newest(self, *, limit: int, topic: str | None = None) -> TasksSeen:
        """Return the newest tasks; with `topic`, only tasks with this topic as source or target.

        Raises:
            TopicNotFoundError: The topic does not exist.
        """
        async with self._database.transaction() as session:
            if topic is not None:
                await TopicRepository(session).get(topic)
            found = await OfflineTaskRepository(session).newest(limit=limit, topic=topic)
            live = await SparkRunnerRepository(session).any_live()
        return TasksSeen(tasks=found, runner_live=live)

    async def get(self, task_id: str) -> TasksSeen:
        """Return one task, and whether a Spark runner is live that could run it.

        Raises:
            JobNotFoundError: There is no task with this id.
        """
        async with self._database.transaction() as session:
            task = await OfflineTaskRepository(session).get(task_id)
            live = await SparkRunnerRepository(session).any_live()
        return TasksSeen(tasks=[task], runner_live=live)

    async def cancel(self, task_id: str) -> TasksSeen:
        """Cancel the task. Messages that are already published stay.

        Raises:
            JobNotFoundError: The job does not exist.
            JobEndedError: The job has already ended.
        """
        async with self._database.transaction() as session:
            task = await OfflineTaskRepository(session).get(task_id)
            await JobRepository(session).cancel(task_id)
            await note(AuditRepository(session), _change(Action.CANCELLED, task))
        return await self.get(task_id)

    async def _between(
        self, source: str, target: str, *, since: datetime, until: datetime
    ) -> RepublishRequest:
        async with self._database.transaction() as session:
            topics = TopicRepository(session)
            taken, given = await topics.get(source), await topics.get(target)
        require_alike(taken, given)
        return RepublishRequest(
            source=source,
            target=target,
            since=since,
            until=until,
            source_created_at=taken.created_at,
            target_created_at=given.created_at,
        )


def _change(action: Action, task: RepublishTask) -> Change:
    request = task.request
    details = {
        "sourceTopic": request.source,
        "targetTopic": request.target,
        "startTimestamp": request.since.isoformat(),
        "endTimestamp": request.until.isoformat(),
    }
    return Change(action=action, kind="offlineRetransmission", name=task.job.id, after=details)
