"""Creates and connects the objects of which an API process consists."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    suppress,
)
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol
from uuid import uuid4

from starlette.types import ASGIApp

from app.api.browsers import BrowserGuard
from app.api.cors import with_origins
from app.api.dependencies import Services
from app.api.dispatch import Dispatcher
from app.api.management.application import management_app
from app.api.management.catalogue.subscription_read import subscription_read
from app.api.management.catalogue.topic_bodies import topic_read
from app.api.management.fields.oauth import provider_described
from app.api.management.health.metrics_bodies import SubscriptionMetricsRead, TopicMetricsRead
from app.api.openapi.document import serve_document
from app.api.publish.batch import BatchRoute
from app.api.publish.route import PublishRoute, published_topic
from app.api.publish.schema_check import SchemaCheck
from app.api.publish.spans import Sampling, Spanned, topic_in_path
from app.config import Settings
from app.console.mounted import WithConsole
from app.domain.catalogue.subscription import Subscription
from app.domain.catalogue.topic import Ack, Topic
from app.domain.console import ConsoleSettings
from app.domain.errors import UnavailableError
from app.domain.network.own_hosts import OwnHosts
from app.domain.status import WorkerStatus
from app.domain.streams import TRACES
from app.log.interface import MessageLog
from app.metrics.publish_counts import PublishCounts
from app.otlp.configured import configured_otlp
from app.postgres.urls import DatabaseUrl
from app.services.access.audit import AuditService
from app.services.access.authorization import AccessService, Gate
from app.services.access.first_key import Announce, make_first_key
from app.services.access.keys import KeyService
from app.services.access.known_keys import KeyUse, KnownKeys, known_keys
from app.services.applied_changes import LIVE_WITHIN, AppliedChanges, TakeIn
from app.services.catalogue.consistency import ConsistencyService
from app.services.catalogue.foreign_changes import LOOK_EVERY as FOREIGN_EVERY
from app.services.catalogue.foreign_changes import ForeignChangeService
from app.services.catalogue.fresh_schemas import FreshSchemas, Look
from app.services.catalogue.groups import GroupService
from app.services.catalogue.inactive_topics import LOOK_EVERY, ActivityService
from app.services.catalogue.listings import CatalogueService
from app.services.catalogue.oauth_providers import OAuthProviderService
from app.services.catalogue.operations import OperationsService
from app.services.catalogue.schemas import MIRROR_EVERY, RegistryMirror, SchemaService
from app.services.catalogue.subscriptions import SubscriptionService
from app.services.catalogue.topics import SETTLE_EVERY, TopicService
from app.services.directory.topics import TopicDirectory
from app.services.discards.redrives import RedriveService
from app.services.discards.undelivered import UndeliveredService
from app.services.durability import DurabilityService
from app.services.health.announcements import Announcer
from app.services.health.monitor import HealthMonitor, monitor_settings
from app.services.health.subscription_health import HealthService
from app.services.health.workers import WorkerService
from app.services.idempotent_requests import IdempotentRequests
from app.services.insight.analytics import AnalyticsService
from app.services.insight.archives import ASK_EVERY, ArchiveSchedule, ArchiveService
from app.services.insight.jobs import JobService
from app.services.insight.ledger_schedule import LOOK_EVERY as LEDGER_EVERY
from app.services.insight.ledger_schedule import LedgerSchedule
from app.services.insight.ledgers import LedgerService
from app.services.insight.simulations import SimulationService
from app.services.inspection.consumer_groups import ConsumerGroupService
from app.services.inspection.pings import PingService
from app.services.inspection.preview import PreviewService
from app.services.inspection.search import MessageSearch
from app.services.inspection.traces import TraceService
from app.services.metrics.api_process import ApiMetrics, ClusterSight
from app.services.metrics.history import MetricsHistoryService
from app.services.metrics.history_recorder import LOOK_EVERY as HISTORY_EVERY
from app.services.metrics.history_recorder import HistoryRecorder
from app.services.metrics.queries import CatalogueMetrics, Describes
from app.services.metrics.resources import MetricsService
from app.services.metrics.volumes import TELL_EVERY, Volumes
from app.services.periodic import repeat
from app.services.pruning import POSITIONS_KEPT, PRUNE_EVERY, Pruner
from app.services.publishing.deduplication import FORGET_EVERY, IdForgetter
from app.services.publishing.publisher import Publisher
from app.services.publishing.tracing import TracedPublisher
from app.services.publishing.waiters import Waiters
from app.services.publishing.writability import Writability
from app.services.readiness import ReadinessService
from app.services.refresh import Refresher
from app.services.replay.republishing import OfflineService
from app.services.replay.retransmissions import RetransmissionService
from app.services.replay.seeks import SeekService
from app.shown_settings import shown_settings
from app.storage.access.keys import USED_EVERY
from app.storage.database import Database, open_database
from app.storage.health.workers import WorkerRepository
from app.storage.keyring import open_vault
from app.storage.notices import ACCESS, APPLIED, CHANGES, listen
from app.storage.runtime.published_ids import claimed_ids
from app.storage.runtime.receipts import receipt_channel
from app.tracing.buffer import TraceBuffer
from app.vault import Vault

if TYPE_CHECKING:
    from app.otlp.exporter import Otlp

# How long it may take to store the last traces, or the last counts of bytes, when a process ends.
LAST_TRACES_MAX: Final = timedelta(seconds=2)
LAST_VOLUMES_MAX: Final = timedelta(seconds=2)

Part = Literal["all", "publish", "management"]


class OpenLog(Protocol):
    """A function that opens the message log of a process."""

    def __call__(
        self, settings: Settings, *, database_url: DatabaseUrl
    ) -> AbstractAsyncContextManager[MessageLog]:
        """Open the log that the settings name. `app.log.factory.open_log` is such a function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the caller passes to an API process. `announce` is called with the first API key."""

    only: Part
    open_a_log: OpenLog
    announce: Announce


@asynccontextmanager
async def running(
    settings: Settings, database_url: DatabaseUrl, parts: Parts
) -> AsyncIterator[ASGIApp]:
    """Yield the API application. Its database and its log stay open until the block ends."""
    async with AsyncExitStack() as stack:
        core = await _core(settings, database_url, parts, stack=stack)
        for chore in _chores(core, parts.announce):
            await stack.enter_async_context(_background(chore))
        services = _services(core)
        publishing = _Publishing()
        if core.only != "management":
            waiters = Waiters()
            await stack.enter_async_context(_receipts_received(database_url, waiters))
            publishing = _publishing(core, waiters)
        if core.otlp is not None:
            await stack.enter_async_context(_background(core.otlp.run(services.figures.read)))
        publish, batch = publishing
        status_only = core.only == "publish"
        management = management_app(services, publish=publish, batch=batch, status_only=status_only)
        serve_document(management)
        others: ASGIApp = management
        if not status_only:
            api = Dispatcher(publish=publish, others=management)
            console = WithConsole(management, api=api, access=services.access, vault=core.vault)
            await stack.enter_async_context(_background(console.feeds.run()))
            others = console
        app = with_origins(Dispatcher(publish=publish, others=others), settings.cors_origins)
        yield app if settings.access_controlled else _for_this_machine(app, settings)


def _for_this_machine(app: ASGIApp, settings: Settings) -> ASGIApp:
    hosts = OwnHosts(
        bound=settings.host, machine=socket.gethostname(), configured=settings.host_names
    )
    return BrowserGuard(app, hosts=hosts, origins=settings.cors_origins)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Core:
    """The objects that services and routes of an API process need."""

    settings: Settings
    only: Part
    vault: Vault
    database: Database
    log: MessageLog
    directory: TopicDirectory
    applied: AppliedChanges
    topics: TopicService
    schemas: "_Schemas"
    keys: KnownKeys
    key_service: KeyService
    refresher: Refresher
    publisher: TracedPublisher
    counts: PublishCounts
    writability: Writability
    volumes: Volumes
    otlp: "Otlp | None"
    pings: PingService
    activity: ActivityService
    announcer: Announcer


async def _core(
    settings: Settings, database_url: DatabaseUrl, parts: Parts, *, stack: AsyncExitStack
) -> _Core:
    """Create the objects of an API process, with the state of the database. `stack` closes them."""
    vault = open_vault(settings)
    database = await stack.enter_async_context(open_database(database_url, vault=vault))
    log = await stack.enter_async_context(parts.open_a_log(settings, database_url=database_url))

    async def take_in() -> None:
        await refresher.refresh()  # `refresher` is created below

    applied = _applied_changes(database, take_in)
    topics = TopicService(
        database,
        log,
        take_in=take_in,
        describe=_topic_described,
        describe_subscription=_subscription_described,
    )
    counts = PublishCounts()
    directory = TopicDirectory(topics.get, deleted=counts.forget)
    otlp = await stack.enter_async_context(configured_otlp(settings, _process_name()))
    writability = Writability()
    published = Publisher(log, counts=counts, writability=writability)
    publisher = await stack.enter_async_context(_publisher(database_url, log, published))
    pings = PingService(database)
    channels = (CHANGES, APPLIED, ACCESS, pings.channel)
    notices = await stack.enter_async_context(listen(database_url, channels, receive=pings.receive))
    keys = known_keys(database)
    refresher = Refresher(database, directory, applied, keys=keys)
    await keys.refresh()
    await refresher.refresh()
    await stack.enter_async_context(_background(refresher.run(notices)))
    return _Core(
        settings=settings,
        only=parts.only,
        vault=vault,
        database=database,
        log=log,
        directory=directory,
        applied=applied,
        topics=topics,
        schemas=await stack.enter_async_context(_schemas(settings, topics, directory)),
        keys=keys,
        key_service=KeyService(database, keys),
        refresher=refresher,
        publisher=publisher,
        counts=counts,
        writability=writability,
        volumes=await stack.enter_async_context(_volumes(database, counts)),
        otlp=otlp,
        pings=pings,
        activity=ActivityService(database, log),
        announcer=Announcer(database, log, topics),
    )


def _chores(core: _Core, announce: Announce) -> Iterator[Coroutine[Any, Any, None]]:
    """Yield the background tasks of the process."""
    database, settings = core.database, core.settings
    forgetter = IdForgetter(database, core.directory)
    yield repeat(_pruner(settings, database).prune, every=PRUNE_EVERY, name="prune")
    yield repeat(ArchiveSchedule(database).look, every=ASK_EVERY, name="ask_for_archive")
    ledgers = LedgerSchedule(database, LedgerService(database, core.log))
    yield repeat(ledgers.look, every=LEDGER_EVERY, name="ask_for_ledgers")
    yield repeat(core.topics.settle_all, every=SETTLE_EVERY, name="settle_topics_in_log")
    foreign = ForeignChangeService(database, core.log, describe=_topic_described)
    yield repeat(foreign.look, every=FOREIGN_EVERY, name="take_over_foreign_changes")
    yield repeat(core.activity.look, every=LOOK_EVERY, name="look_for_activity")
    yield repeat(forgetter.forget, every=FORGET_EVERY, name="forget_published_ids")
    yield repeat(KeyUse(database, core.keys).note, every=USED_EVERY, name="note_keys_used")
    recorder = HistoryRecorder(database, core.log)
    yield repeat(recorder.look, every=HISTORY_EVERY, name="record_metrics_history")
    yield HealthMonitor(
        database, core.log, core.announcer, settings=monitor_settings(settings)
    ).run()
    if settings.access_controlled:
        yield make_first_key(core.key_service, announce)


def _services(core: _Core) -> Services:
    settings, database, log = core.settings, core.database, core.log
    controlled, applied, topics = settings.access_controlled, core.applied, core.topics
    return Services(
        access=AccessService(database, core.keys, controlled=controlled),
        keys=core.key_service,
        audit=AuditService(database),
        operations=OperationsService(database),
        activity=core.activity,
        previews=PreviewService(database, log),
        archives=ArchiveService(database),
        consistency=ConsistencyService(database, log, topics),
        consumer_groups=ConsumerGroupService(database, log, namespace=settings.namespace),
        catalogue_figures=CatalogueMetrics(database, log, describes=_FIGURES, volumes=core.volumes),
        catalogue=CatalogueService(
            database, topic=_topic_described, subscription=_subscription_described
        ),
        console=ConsoleSettings(
            groups_restricted=controlled, hermes_metrics=settings.hermes_metrics
        ),
        settings=shown_settings(settings),
        idempotent=IdempotentRequests(database),
        groups=GroupService(database),
        topics=topics,
        schemas=core.schemas.service,
        subscriptions=_subscriptions(settings, database, log=log, applied=applied),
        pings=core.pings,
        oauth=OAuthProviderService(
            database, applied, egress=settings.egress, describe=provider_described
        ),
        seeking=SeekService(database, log, applied),
        redriving=RedriveService(database, log),
        retransmitting=RetransmissionService(database, log, applied),
        ledgers=LedgerService(database, log),
        metrics=MetricsService(database, log, core.volumes),
        metrics_history=MetricsHistoryService(database, log),
        figures=_metrics(core),
        health=HealthService(database),
        workers=WorkerService(database),
        announcer=core.announcer,
        undelivered=UndeliveredService(database),
        traces=TraceService(database),
        searching=MessageSearch(database, log),
        readiness=ReadinessService(database, log, core.writability),
        durability=DurabilityService(database, settings.replication, log),
        jobs=JobService(database),
        analytics=AnalyticsService(database),
        simulating=SimulationService(database, log),
        offline=OfflineService(database, log),
    )


def _metrics(core: _Core) -> ApiMetrics:
    sight = ClusterSight(core.database, core.log, core.directory)
    return ApiMetrics(
        log=core.log,
        directory=core.directory,
        names_max=core.settings.metrics_names_max,
        publishing=core.counts,
        traces=core.publisher,
        cluster=None if core.only == "publish" else sight,
        spans=None if core.otlp is None else core.otlp.spans,
    )


class _Publishing(NamedTuple):
    """The routes that publish messages and batches; None in a process that does not publish."""

    publish: ASGIApp | None = None
    batch: ASGIApp | None = None


def _publishing(core: _Core, waiters: Waiters) -> _Publishing:
    directory, publisher, counts = core.directory, core.publisher, core.counts
    gate = Gate(core.keys, controlled=core.settings.access_controlled)
    check = SchemaCheck(directory, FreshSchemas(core.refresher.refresh, mirror=core.schemas.mirror))
    publish = PublishRoute(
        directory, publisher, waiters=waiters, gate=gate, schemas=check, counts=counts
    )
    batch = BatchRoute(directory, publisher, gate=gate, schemas=check, counts=counts)
    if core.otlp is None:
        return _Publishing(publish, batch)
    sampling = Sampling(spans=core.otlp.spans, share=core.otlp.sample)
    return _Publishing(
        Spanned(publish, sampling, named_by=published_topic),
        Spanned(batch, sampling, named_by=topic_in_path),
    )


class _Schemas(NamedTuple):
    service: SchemaService
    mirror: Look | None = None  # looks up new versions of schemas in the registry, if any


@asynccontextmanager
async def _schemas(
    settings: Settings, topics: TopicService, directory: TopicDirectory
) -> AsyncIterator[_Schemas]:
    if settings.schema_registry_url is None:
        yield _Schemas(SchemaService(topics))
        return
    from app.registry import open_registry  # noqa: PLC0415 - its import of httpx takes 0.1 s

    url, suffix = settings.schema_registry_url.get_secret_value(), settings.schema_subject_suffix
    async with open_registry(url, suffix=suffix) as registry:
        mirror = RegistryMirror(topics, registry, directory)
        chore = repeat(mirror.look_at_all, every=MIRROR_EVERY, name="mirror_schemas")
        async with _background(chore):
            yield _Schemas(SchemaService(topics, registry), mirror.look_at)


def _subscriptions(
    settings: Settings, database: Database, *, log: MessageLog, applied: AppliedChanges
) -> SubscriptionService:
    egress = settings.egress
    described = _subscription_described
    return SubscriptionService(database, log, applied, egress=egress, describe=described)


@asynccontextmanager
async def _volumes(database: Database, counts: PublishCounts) -> AsyncIterator[Volumes]:
    """Yield the counts of published bytes. They are stored regularly, and when the block ends."""
    volumes = Volumes(database, counts)
    async with _background(repeat(volumes.store, every=TELL_EVERY, name="tell_volumes")):
        yield volumes
    with suppress(TimeoutError, UnavailableError):
        async with asyncio.timeout(LAST_VOLUMES_MAX.total_seconds()):
            await volumes.store()


@asynccontextmanager
async def _publisher(
    database_url: DatabaseUrl, log: MessageLog, untraced: Publisher
) -> AsyncIterator[TracedPublisher]:
    async with (
        _traces(log) as traces,
        untraced as publisher,
        # Message ids use separate connections, so publishers that wait here do not block others.
        open_database(database_url) as claims,
    ):
        yield TracedPublisher(publisher, partial(claimed_ids, claims), traces)


def _pruner(settings: Settings, database: Database) -> Pruner:
    return Pruner(
        database,
        undelivered_kept=timedelta(days=settings.undelivered_days),
        audit_kept=timedelta(days=settings.audit_days),
        # Positions are kept as long as traces, because a search for missing messages uses both.
        positions_kept=max(POSITIONS_KEPT, timedelta(days=settings.traces_days)),
    )


def _topic_described(topic: Topic) -> Mapping[str, Any]:
    # Leave out the text of the schema, because each event would repeat it. Its version is enough.
    return {k: v for k, v in topic_read(topic).answered().items() if k != "schema"}


def _subscription_described(subscription: Subscription) -> Mapping[str, Any]:
    return subscription_read(subscription, subscription.state).answered()


_FIGURES: Final = Describes(
    topic=lambda figures: TopicMetricsRead.of(figures).answered(),
    subscription=lambda figures: SubscriptionMetricsRead.of(figures).answered(),
)


@asynccontextmanager
async def _receipts_received(database_url: DatabaseUrl, waiters: Waiters) -> AsyncIterator[None]:
    """Receive receipts on a separate database connection, and pass them to `waiters`."""
    channel = receipt_channel(waiters.name)
    async with listen(database_url, [channel], receive=waiters.receive) as notices:

        async def receive() -> None:
            async for _ in notices:
                pass  # do nothing: `receive` has already handled the receipt

        async with _background(receive()):
            yield


@asynccontextmanager
async def _traces(log: MessageLog) -> AsyncIterator[TraceBuffer]:
    """Yield the buffer for traces of publications. At the end, flush it in `LAST_TRACES_MAX`."""
    traces = TraceBuffer(partial(log.append, TRACES, ack=Ack.LEADER), worker=_process_name())
    async with _background(traces.run()):
        yield traces
        await traces.finish(LAST_TRACES_MAX)


def _process_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"


def _applied_changes(database: Database, take_in: TakeIn) -> AppliedChanges:
    async def live() -> list[WorkerStatus]:
        async with database.transaction() as session:
            return await WorkerRepository(session).live(LIVE_WITHIN)

    return AppliedChanges(live, take_in=take_in)


@asynccontextmanager
async def _background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run `work` as a background task until the block ends."""
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(work)
        try:
            yield
        finally:
            task.cancel()
