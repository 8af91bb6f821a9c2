"""Composition root of the worker: builds every part, runs them together, stops them in order."""

import asyncio
import os
import socket
from collections.abc import Collection
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import uuid4

import structlog
from app.storage.notices import CHANGES, Notices, listen

from app.config import Settings
from app.domain import streams
from app.domain.errors import UnavailableError
from app.domain.message import Partition
from app.domain.topic import MESSAGE_SIZE_MAX
from app.log.factory import open_log
from app.log.interface import LogTopic, MessageLog
from app.storage.database import Database, open_database
from workers.assignment.changes import ChangeFollower
from workers.assignment.renewal import Renewal
from workers.assignment.reporter import Reporter
from workers.assignment.starting import Starts
from workers.assignment.stores import DatabaseChanges, DatabaseStatus
from workers.assignment.supervisor import Supervisor
from workers.consumer.committer import Committer
from workers.consumer.lines import Lines
from workers.consumer.undelivered import UndeliveredStream
from workers.delivery.sender import Sender
from workers.lifecycle import stop_signals
from workers.reading.reader import Reader
from workers.recorder.recorder import Recorder
from workers.recorder.store import DatabaseUndelivered

RETRY_PAUSE: Final = timedelta(seconds=1)
# The stream carries whole bodies and their description.
UNDELIVERED_TOPIC: Final = LogTopic(
    name=streams.UNDELIVERED,
    partitions=streams.UNDELIVERED_PARTITIONS,
    retention=timedelta(days=2),
    message_size_max=MESSAGE_SIZE_MAX + 64 * 1024,
)

_log = structlog.get_logger()


class _Stopped(Exception):  # noqa: N818 - no error: it ends the task group
    """The worker has stopped in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """What is reported of the worker."""

    follower: ChangeFollower
    supervisor: Supervisor

    @property
    def applied(self) -> int | None:
        return self.follower.applied

    @property
    def on_applied(self) -> asyncio.Event:
        return self.follower.on_applied

    @property
    def owned(self) -> Collection[Partition]:
        return self.supervisor.owned


async def run(settings: Settings, *, database_url: str) -> None:
    """Deliver until SIGTERM or SIGINT, then let what is in the air land, commit, and leave."""
    async with AsyncExitStack() as stack:
        stopping = await stack.enter_async_context(stop_signals())
        database = await stack.enter_async_context(open_database(database_url))
        notices = await stack.enter_async_context(listen(database_url, [CHANGES]))
        log = await stack.enter_async_context(open_log(settings, database_url=database_url))
        worker = Worker(database, notices, log)
        await worker.run(stopping)


class Worker:
    """One member of the delivering group."""

    def __init__(self, database: Database, notices: Notices, log: MessageLog) -> None:
        self.id = f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"
        self._database = database
        self._notices = notices
        self._log = log

    async def run(self, stopping: asyncio.Event) -> None:
        """Deliver until `stopping` is set."""
        _log.info("worker_starting", worker=self.id)
        try:
            async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
                await self._run(stack, tasks, stopping)
                raise _Stopped  # noqa: TRY301 - raised within, it ends the tasks of the group
        except* _Stopped:
            _log.info("worker_stopped", worker=self.id)

    async def _run(
        self, stack: AsyncExitStack, tasks: asyncio.TaskGroup, stopping: asyncio.Event
    ) -> None:
        log, status = self._log, DatabaseStatus(self._database, self.id)
        reader = Reader(log, await stack.enter_async_context(log.tail()))
        committer = Committer(log)
        lines = Lines(
            endpoints=await stack.enter_async_context(Sender()),
            reader=reader,
            committer=committer,
            undelivered=UndeliveredStream(log),
            tasks=tasks,
        )
        recorder = Recorder(
            await stack.enter_async_context(log.tail()), DatabaseUndelivered(self._database)
        )
        supervisor = Supervisor(
            lines=lines,
            starts=Starts(log, status),
            ownership=await stack.enter_async_context(log.ownership(member=self.id)),
            recorder=recorder,
            tasks=tasks,
        )
        follower = ChangeFollower(DatabaseChanges(self._database, self._notices), supervisor)
        state = _State(follower=follower, supervisor=supervisor)
        reporter = Reporter(self.id, lines, status)
        for loop in (
            reader.run(),
            committer.run(),
            recorder.run(),
            supervisor.run(),
            follower.run(),
            reporter.run(state),
            Renewal(log, supervisor, lines).run(),
            _ensure_streams(log),
        ):
            tasks.create_task(loop)
        await stopping.wait()
        _log.info("worker_stopping", worker=self.id)
        await self._stop(supervisor, reporter, status)

    async def _stop(
        self, supervisor: Supervisor, reporter: Reporter, status: DatabaseStatus
    ) -> None:
        cursors = await supervisor.stop()
        try:
            await reporter.write(cursors)
            await status.remove()
        except UnavailableError as exc:
            # The log has the positions and the counts; the next worker reports them.
            _log.warning("last_report_failed", error=exc.message)


async def _ensure_streams(log: MessageLog) -> None:
    while True:
        try:
            return await log.create_topic(UNDELIVERED_TOPIC)
        except UnavailableError as exc:
            _log.warning("stream_not_created", error=exc.message)
            await asyncio.sleep(RETRY_PAUSE.total_seconds())
