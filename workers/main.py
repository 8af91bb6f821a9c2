"""Builds every part of the worker, runs the parts together, and stops them in order."""

import asyncio
import os
import socket
from collections.abc import Collection, Mapping
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol
from uuid import uuid4

import structlog
from structlog.contextvars import bind_contextvars

from app import native
from app.config import Settings
from app.domain import streams
from app.domain.catalogue.changes import LastChange
from app.domain.catalogue.topic import Ack
from app.domain.discards.retractions import Entry, entry_of
from app.domain.errors import UnavailableError
from app.domain.message import Partition
from app.log.factory import open_log
from app.log.interface import MessageLog
from app.metrics.name_cap import NameCap
from app.metrics.shared import StoredTraceTotals
from app.otlp.configured import configured_otlp
from app.otlp.spans import SpanBuffer
from app.postgres.urls import DatabaseUrl
from app.services.periodic import repeat
from app.storage.database import open_database
from app.storage.keyring import open_vault
from app.storage.notices import CHANGES, CIRCUITS, PINGS, listen
from app.tracing.buffer import TraceBuffer
from app.tracing.packs import Pack, unpacked
from workers.assignment.changes import ChangeFollower, ChangeSource
from workers.assignment.circuits import CircuitSharing, CircuitStore
from workers.assignment.own_streams import OwnStreams
from workers.assignment.pings import PingDesk
from workers.assignment.rate_sharing import NoteStore, RateSharing
from workers.assignment.renewal import Renewal
from workers.assignment.reporter import INTERVAL as REPORT_INTERVAL
from workers.assignment.reporter import Reporter, StatusStore
from workers.assignment.start_positions import CursorCopies, StartFinder
from workers.assignment.stores import (
    DatabaseChanges,
    DatabaseCircuits,
    DatabaseNotes,
    DatabasePongs,
    DatabaseStatus,
    DatabaseSuspensions,
)
from workers.assignment.supervisor import Supervisor
from workers.assignment.suspensions import Suspender, SuspensionStore
from workers.consumer.commit.committer import HOLD_MAX, Committer
from workers.consumer.commit.receipts import ReceiptBoard, Receipts
from workers.consumer.outcome.dead_letters import DeadLetterTopics
from workers.consumer.outcome.undelivered import UndeliveredStream
from workers.consumer.subscription_consumers import Endpoints, SubscriptionConsumers
from workers.delivery.pinger import Pinger
from workers.delivery.sender import Sender
from workers.lifecycle import stop_signals
from workers.reading.reader import Reader
from workers.reading.registered_schemas import RegistryLookup
from workers.recorder.backlog import BACKLOG_INTERVAL, Backlog, WaitingStore
from workers.recorder.recorder import Recorder, Recorders, StreamStore
from workers.recorder.store import DatabaseUndelivered
from workers.recorder.traces import KEEP_EVERY, LINGER, PACKS_MAX, DatabaseTraces, missed
from workers.retransmission.feeder import RetransmissionFeeder
from workers.retransmission.store import DatabaseRetransmissions, RetransmissionStore
from workers.telemetry.export import Exported
from workers.telemetry.observer import WorkerObserver
from workers.telemetry.status_address import status_address
from workers.telemetry.worker_metrics import Connections, WorkerMetrics

if TYPE_CHECKING:
    from app.otlp.exporter import Otlp

# The time limit for writing the last trace entries when the worker stops. Entries that are not
# written in this time are lost.
LAST_TRACES_MAX: Final = timedelta(seconds=2)

_log = structlog.get_logger()


class WorkerStore(StatusStore, CursorCopies, ReceiptBoard, Protocol):
    """The part of the database for reports of a worker, copies of commits, and receipts."""

    async def remove(self) -> None:
        """Delete this worker from the database, because it has stopped.

        Raises:
            UnavailableError: The database cannot be reached.
        """


class TraceStore(StreamStore[Pack], WaitingStore, Protocol):
    """The store of traces."""

    @property
    def stats(self) -> StoredTraceTotals:
        """Return the statistics of storing trace entries."""

    async def keep(self) -> None:
        """Prepare the store for the traces of the next days, and drop old traces.

        Raises:
            UnavailableError: The database cannot be reached.
        """


class _Stopped(Exception):  # noqa: N818 - no error: it ends the task group
    """Raised to end all tasks after the parts of the worker have been stopped in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seams:
    """The parts of a worker that reach other systems. Tests replace them."""

    worker_id: str
    log: MessageLog
    changes: ChangeSource
    status: WorkerStore
    suspensions: SuspensionStore
    notes: NoteStore
    circuits: CircuitStore
    undelivered: StreamStore[Entry]
    traces: TraceStore
    endpoints: Endpoints
    pings: PingDesk
    sending: RetransmissionStore
    report_interval: timedelta = REPORT_INTERVAL
    trace_linger: timedelta = LINGER
    commit_hold_max: timedelta = HOLD_MAX
    connections: Connections | None = None
    observers: Collection[WorkerObserver] = ()
    metrics_names_max: int = 1_000
    spans: SpanBuffer | None = None
    registry: RegistryLookup | None = None


async def run(settings: Settings, *, database_url: DatabaseUrl, number: int = 1) -> None:
    """Deliver until SIGTERM or SIGINT.

    Then let requests in flight end, commit, and leave the group of workers. `number` distinguishes
    the workers on this machine.
    """
    worker_id = f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"
    async with AsyncExitStack() as stack:
        stopping = await stack.enter_async_context(stop_signals())
        otlp = await stack.enter_async_context(configured_otlp(settings, worker_id))
        observers = await _observers(settings, otlp, stack, number=number)
        spans = None if otlp is None else otlp.spans
        vault = open_vault(settings)
        database = await stack.enter_async_context(open_database(database_url, vault=vault))
        sender = Sender(
            egress=settings.egress, ca_file=settings.ca_file, proxy=settings.proxy, spans=spans
        )
        pinger = Pinger(sender, worker=worker_id)
        pings = PingDesk(worker_id, pinger, DatabasePongs(database))
        notices = await stack.enter_async_context(
            listen(database_url, [CHANGES, PINGS], receive=pings.receive)
        )
        # Use a separate connection for the notices of circuits. It is opened only when a
        # subscription shares its circuit, which few subscriptions do.
        turns = await stack.enter_async_context(listen(database_url, [CIRCUITS], at_once=False))
        seams = Seams(
            worker_id=worker_id,
            log=await stack.enter_async_context(open_log(settings, database_url=database_url)),
            changes=DatabaseChanges(database, notices),
            status=DatabaseStatus(database, worker_id),
            suspensions=DatabaseSuspensions(database),
            notes=DatabaseNotes(database, worker_id),
            circuits=DatabaseCircuits(database, turns, worker_id),
            undelivered=DatabaseUndelivered(database),
            traces=DatabaseTraces(
                database,
                kept=timedelta(days=settings.traces_days),
                bytes_max=settings.traces_gib_max << 30,
            ),
            endpoints=await stack.enter_async_context(sender),
            pings=pings,
            sending=DatabaseRetransmissions(database, worker_id),
            connections=sender.transport,
            observers=observers,
            metrics_names_max=settings.metrics_names_max,
            spans=spans,
            registry=await _registry(settings, stack),
        )
        await Worker(seams).run(stopping)


async def _observers(
    settings: Settings, otlp: "Otlp | None", stack: AsyncExitStack, *, number: int
) -> Collection[WorkerObserver]:
    """Return the observers of the worker: an OTLP endpoint and its status page, if configured."""
    exported = () if otlp is None else (Exported(otlp),)
    address = status_address(settings, number=number)
    if address is None:
        return exported
    from workers.telemetry.status_page import StatusPage, served  # noqa: PLC0415 - imports uvicorn, needed only for the page

    page = StatusPage()
    await stack.enter_async_context(served(page, address))
    return (*exported, page)


async def _registry(settings: Settings, stack: AsyncExitStack) -> RegistryLookup | None:
    if settings.schema_registry_url is None:
        return None
    from app.registry import open_registry  # noqa: PLC0415 - needed only with a registry

    url, suffix = settings.schema_registry_url.get_secret_value(), settings.schema_subject_suffix
    return await stack.enter_async_context(open_registry(url, suffix=suffix))


class Worker:
    """One member of the group of workers that deliver."""

    def __init__(self, seams: Seams) -> None:
        self.id = seams.worker_id
        self._seams = seams

    async def run(self, stopping: asyncio.Event) -> None:
        """Deliver until `stopping` is set."""
        # Add the worker's id to everything that is logged from here on.
        bind_contextvars(worker=self.id)
        _log.info("worker_starting", compiled=native.is_compiled())
        try:
            async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
                parts = await self._built(stack, tasks)
                # Close the consumers before the task group ends. Otherwise their timers could start
                # tasks in a group that has ended.
                with closing(parts.consumers):
                    parts.start(tasks, self._seams.log)
                    await stopping.wait()
                    _log.info("worker_stopping")
                    await self._stop(parts)
                raise _Stopped  # noqa: TRY301 - an error here would end the group's tasks
        except* _Stopped:
            # Delete the worker from the database only after its last heartbeat, because a heartbeat
            # would register the worker again.
            await self._sign_off()
            _log.info("worker_stopped")

    async def _built(self, stack: AsyncExitStack, tasks: asyncio.TaskGroup) -> "_Parts":
        log, status = self._seams.log, self._seams.status
        tail = await stack.enter_async_context(log.tail())
        reader = Reader(log, tail, registry=self._seams.registry)
        traces = TraceBuffer(partial(log.append, streams.TRACES, ack=Ack.LEADER), worker=self.id)
        committer = Committer(log, traces, hold_max=self._seams.commit_hold_max)
        receipts = Receipts(status)
        consumers = SubscriptionConsumers(
            endpoints=self._seams.endpoints,
            reader=reader,
            committer=committer,
            undelivered=UndeliveredStream(log),
            dead_letters=DeadLetterTopics(log),
            suspensions=Suspender(self._seams.suspensions, tasks),
            marks=self._seams.sending,
            receipts=receipts,
            traces=traces,
            tasks=tasks,
        )
        undelivered_recorder = Recorder(
            await stack.enter_async_context(log.tail()), self._seams.undelivered, entry_of
        )
        trace_recorder = Recorder(
            await stack.enter_async_context(log.tail()),
            self._seams.traces,
            unpacked,
            records_max=PACKS_MAX,
            linger=self._seams.trace_linger,
            missed=missed,
        )
        rates = RateSharing(self.id, consumers, self._seams.notes)
        supervisor = Supervisor(
            consumers=consumers,
            starts=StartFinder(log, status),
            ownership=await stack.enter_async_context(log.ownership(member=self.id)),
            rates=rates,
            recorder=Recorders(
                {streams.UNDELIVERED: undelivered_recorder, streams.TRACES: trace_recorder}
            ),
            tasks=tasks,
        )
        return _Parts(
            reader=reader,
            committer=committer,
            receipts=receipts,
            consumers=consumers,
            traces=traces,
            trace_store=self._seams.traces,
            backlog=Backlog(traces, self._seams.traces, worker=self.id),
            undelivered_recorder=undelivered_recorder,
            trace_recorder=trace_recorder,
            supervisor=supervisor,
            rates=rates,
            pings=self._seams.pings,
            follower=ChangeFollower(self._seams.changes, supervisor, known=reader.known),
            sharing=CircuitSharing(consumers.circuits, self._seams.circuits),
            reporter=Reporter(self.id, consumers, status, interval=self._seams.report_interval),
            seams=self._seams,
        )

    @staticmethod
    async def _stop(parts: "_Parts") -> None:
        cursors = await parts.supervisor.stop()
        await parts.receipts.flush()
        await parts.traces.finish(LAST_TRACES_MAX)
        try:
            await parts.backlog.report_last()
            await parts.reporter.write(cursors)
        except UnavailableError as exc:
            # Ignore the error, although the last report is lost. The log has the positions and the
            # counts, and the next worker reports them.
            _log.warning("last_report_failed", error=exc.message)

    async def _sign_off(self) -> None:
        try:
            await self._seams.status.remove()
        except UnavailableError as exc:
            # Ignore the error, although the worker stays in the database. It sends no more
            # heartbeats, so it counts as dead in a few seconds.
            _log.warning("sign_off_failed", error=exc.message)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """The parts of a running worker, and the state that it reports."""

    reader: Reader
    committer: Committer
    receipts: Receipts
    consumers: SubscriptionConsumers
    traces: TraceBuffer
    trace_store: TraceStore
    backlog: Backlog
    undelivered_recorder: Recorder[Entry]
    trace_recorder: Recorder[Pack]
    supervisor: Supervisor
    rates: RateSharing
    pings: PingDesk
    follower: ChangeFollower
    sharing: CircuitSharing
    reporter: Reporter
    seams: Seams
    streams: OwnStreams = field(default_factory=OwnStreams)

    @property
    def applied(self) -> LastChange | None:
        return self.follower.applied

    @property
    def on_applied(self) -> asyncio.Event:
        return self.follower.on_applied

    @property
    def owned(self) -> Collection[Partition]:
        return self.supervisor.owned

    @property
    def waits(self) -> Mapping[str, str]:
        known = self.follower.applied is not None
        return {
            "subscriptions": "" if known else self.follower.waits_for,
            "streams": self.streams.waits_for,
        }

    def start(self, tasks: asyncio.TaskGroup, log: MessageLog) -> None:
        """Start all loops. They run until the task group is cancelled."""
        figures = self._worker_metrics()
        for loop in (
            self.reader.run(),
            self.committer.run(),
            self.receipts.run(),
            self.traces.run(),
            self.undelivered_recorder.run(),
            self.trace_recorder.run(),
            repeat(self.trace_store.keep, every=KEEP_EVERY, name="keep_traces"),
            repeat(self.backlog.report, every=BACKLOG_INTERVAL, name="report_waiting_traces"),
            self.supervisor.run(),
            self.rates.run(),
            self.rates.watch(),
            self.follower.run(),
            self.sharing.run(),
            self.sharing.listen(),
            self.reporter.run(self),
            self.pings.run(self.supervisor.registry.get),
            RetransmissionFeeder(log, self.seams.sending).run(),
            Renewal(log, self.supervisor, self.consumers).run(),
            self.streams.make(log),
            *(observer.watch(figures) for observer in self.seams.observers),
        ):
            tasks.create_task(loop)

    def _worker_metrics(self) -> WorkerMetrics:
        return WorkerMetrics(
            state=self,
            consumers=self.consumers,
            log=self.seams.log,
            traces=self.traces,
            cap=NameCap(self.seams.metrics_names_max),
            connections=self.seams.connections,
            spans=self.seams.spans,
            stored_traces=self.trace_store.stats,
        )
