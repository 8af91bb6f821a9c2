"""The API process: everything it is made of, put together."""

import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
)
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Final, Literal, NamedTuple, NoReturn, Protocol
from uuid import uuid4

import structlog
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.connection import BoundedConnection
from app.api.cors import with_origins
from app.api.dependencies import Services
from app.api.dispatch import Dispatcher
from app.api.management import management_app
from app.api.publish import PublishRoute, published_topic
from app.api.publish_batch import BatchRoute
from app.api.publish_counted import Counted, topic_in_path
from app.api.publish_spans import Sampling, Spanned
from app.api.publish_typed import SchemaCheck
from app.api.schemas.metrics import SubscriptionMetricsRead, TopicMetricsRead
from app.api.schemas.oauth import provider_described
from app.api.schemas.subscription import subscription_read
from app.api.schemas.topic import topic_read
from app.config import Settings
from app.domain.console import ConsoleSettings
from app.domain.status import WorkerStatus
from app.domain.streams import TRACES
from app.domain.subscription import Subscription
from app.domain.topic import Ack, Topic
from app.log.factory import open_log
from app.log.interface import MessageLog
from app.metrics.publishing import PublishCounts
from app.otlp.exporter import open_otlp
from app.registry import open_registry
from app.services.access import AccessService, Gate
from app.services.activity import LOOK_EVERY, ActivityService
from app.services.alerting import Announcer
from app.services.analytics import AnalyticsService
from app.services.applied import LIVE_WITHIN, AppliedChanges, TakeIn
from app.services.audit import AuditService
from app.services.catalogue import CatalogueService
from app.services.catalogue_figures import CatalogueFigures, Describes
from app.services.consumer_groups import ConsumerGroupService
from app.services.directory import TopicDirectory
from app.services.figures import ApiFigures, ClusterSight
from app.services.first_key import Announce, make_first_key
from app.services.fresh_schemas import FreshSchemas, Look
from app.services.groups import GroupService
from app.services.health import HealthService
from app.services.idempotent_requests import IdempotentRequests
from app.services.jobs import JobService
from app.services.keys import KeyService
from app.services.known_keys import KeyUse, known_keys
from app.services.metrics import MetricsService
from app.services.oauth import OAuthProviderService
from app.services.operations import OperationsService
from app.services.periodic import repeat
from app.services.pinging import PingService
from app.services.previewing import PreviewService
from app.services.pruning import PRUNE_EVERY, Pruner
from app.services.publish_deduplication import FORGET_EVERY, IdForgetter
from app.services.publish_tracing import TracedPublisher
from app.services.publishing import Publisher
from app.services.readiness import ReadinessService
from app.services.redriving import RedriveService
from app.services.refreshing import Refresher
from app.services.retransmitting import RetransmissionService
from app.services.schemas import MIRROR_EVERY, RegistryMirror, SchemaService
from app.services.searching import MessageSearch
from app.services.seeking import SeekService
from app.services.subscriptions import SubscriptionService
from app.services.topics import TopicService
from app.services.traces import TraceService
from app.services.undelivered import UndeliveredService
from app.services.waiting import Waiters
from app.services.watching import Watch, watch_settings
from app.storage.access import USED_EVERY
from app.storage.configured import database_url as opened_database_url
from app.storage.database import Database, open_database
from app.storage.keyring import open_vault
from app.storage.notices import ACCESS, APPLIED, CHANGES, listen
from app.storage.published_ids import claimed_ids
from app.storage.receipts import receipt_channel
from app.storage.workers import WorkerRepository
from app.telemetry import configure_logging
from app.tracing.buffer import TraceBuffer

_log = structlog.get_logger(__name__)

# Answers under way when the process is told to stop have this long.
SHUTDOWN_S: Final = 10
# So many new objects, and so many times that, until older ones are looked at.
COLLECT_AFTER: Final = (20_000, 20, 20)
# Longer than the idle time-outs of the usual load balancers, which then close first.
KEEP_ALIVE_S: Final = 75
LAST_TRACES_MAX: Final = timedelta(seconds=2)

Part = Literal["all", "publish", "management"]


class OpenLog(Protocol):
    """Opens the message log of a process."""

    def __call__(
        self, settings: Settings, *, database_url: str
    ) -> AbstractAsyncContextManager[MessageLog]:
        """See `app.log.factory.open_log`."""


class Application:
    """The API as an ASGI application, which opens and closes all it needs with its lifespan."""

    def __init__(self, parts: AbstractAsyncContextManager[ASGIApp]) -> None:
        self._parts = parts
        self._serving: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or the whole lifespan."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif self._serving is None:
            message = "The application is not started: its server must speak the lifespan protocol"
            raise RuntimeError(message)
        else:
            await self._serving(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            async with self._parts as self._serving:
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except Exception as error:  # noqa: BLE001 - told to the server, which ends the process
            stage = "shutdown" if self._serving else "startup"
            _log.exception("api_broke", stage=stage)
            await send({"type": f"lifespan.{stage}.failed", "message": type(error).__name__})
        else:
            await send({"type": "lifespan.shutdown.complete"})


def _announce(token: str) -> None:
    """For the operator's eyes: not an event, which would be stored and searched."""
    sys.stderr.write(
        f"\nThe first API key, an admin's, shown this once:\n\n  {token}\n\n"
        "Send it as `Authorization: Bearer …`; commands take it from ANGELIA_API_KEY.\n\n"
    )
    sys.stderr.flush()


def create_app(
    settings: Settings,
    *,
    database_url: str,
    only: Part = "all",
    log: OpenLog = open_log,
    announce: Announce = _announce,
) -> Application:
    """The API over the (migrated) database at `database_url` and the log of `settings`.

    It starts, and answers, whether they can be reached or not, and recovers when they can.
    `announce` is told the first API key, where there was none and one is needed.
    """
    parts = _Parts(only=only, open_a_log=log, announce=announce)
    return Application(_running(settings, database_url, parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    only: Part
    open_a_log: OpenLog
    announce: Announce


@asynccontextmanager
async def _running(settings: Settings, database_url: str, parts: _Parts) -> AsyncIterator[ASGIApp]:
    only = parts.only
    async with AsyncExitStack() as stack:
        vault = open_vault(settings)
        database = await stack.enter_async_context(open_database(database_url, vault=vault))
        log = await stack.enter_async_context(parts.open_a_log(settings, database_url=database_url))

        async def take_in() -> None:
            await refresher.refresh()  # made below, from what needs this

        applied = _applied_changes(database, take_in)
        topics = TopicService(
            database,
            log,
            take_in=take_in,
            describe=_topic_described,
            describe_subscription=_subscription_described,
        )
        directory = TopicDirectory(topics.get)
        counts = PublishCounts()
        otlp = await stack.enter_async_context(open_otlp(settings, _process_name()))
        publisher = await stack.enter_async_context(_publisher(database_url, log, counts))
        pings = PingService(database)
        channels = (CHANGES, APPLIED, ACCESS, pings.channel)
        notices = await stack.enter_async_context(listen(database_url, channels, hear=pings.hear))
        keys = known_keys(database)
        key_service = KeyService(database, keys)
        controlled = settings.access_controlled
        refresher = Refresher(database, directory, applied, keys=keys)
        await keys.refresh()
        await refresher.refresh()
        await stack.enter_async_context(_background(refresher.run(notices)))
        forgetter = IdForgetter(database, directory)
        activity = ActivityService(database, log)
        announcer = Announcer(database, log, topics)
        for chore in (
            repeat(_pruner(settings, database).prune, every=PRUNE_EVERY, name="prune"),
            repeat(activity.look, every=LOOK_EVERY, name="look_for_activity"),
            repeat(forgetter.forget, every=FORGET_EVERY, name="forget_published_ids"),
            repeat(KeyUse(database, keys).note, every=USED_EVERY, name="note_keys_used"),
            Watch(database, log, announcer, settings=watch_settings(settings)).run(),
            *([make_first_key(key_service, parts.announce)] if controlled else ()),
        ):
            await stack.enter_async_context(_background(chore))
        subscriptions = _subscriptions(settings, database, log=log, applied=applied)
        schemas = await stack.enter_async_context(_schemas(settings, topics, directory))
        services = Services(
            access=AccessService(database, keys, controlled=controlled),
            keys=key_service,
            audit=AuditService(database),
            operations=OperationsService(database),
            activity=activity,
            previews=PreviewService(database, log),
            consumer_groups=ConsumerGroupService(database, log, namespace=settings.namespace),
            catalogue_figures=CatalogueFigures(database, log, _FIGURES),
            catalogue=CatalogueService(
                database, topic=_topic_described, subscription=_subscription_described
            ),
            console=ConsoleSettings(groups_restricted=controlled),
            idempotent=IdempotentRequests(database),
            groups=GroupService(database),
            topics=topics,
            schemas=schemas.service,
            subscriptions=subscriptions,
            pings=pings,
            oauth=OAuthProviderService(
                database, applied, egress=settings.egress, describe=provider_described
            ),
            seeking=SeekService(database, log, applied),
            redriving=RedriveService(database, log),
            retransmitting=RetransmissionService(database, log, applied),
            metrics=MetricsService(database, log),
            figures=ApiFigures(
                log=log,
                directory=directory,
                names_max=settings.metrics_names_max,
                publishing=counts,
                traces=publisher,
                cluster=None if only == "publish" else ClusterSight(database, log, directory),
                spans=None if otlp is None else otlp.spans,
            ),
            health=HealthService(database),
            announcer=announcer,
            undelivered=UndeliveredService(database),
            traces=TraceService(database),
            searching=MessageSearch(database, log),
            readiness=ReadinessService(database, log),
            jobs=JobService(database),
            analytics=AnalyticsService(database),
        )
        publish: ASGIApp | None = None
        batch: ASGIApp | None = None
        if only != "management":
            waiters = Waiters()
            await stack.enter_async_context(_heard(database_url, waiters))
            gate = Gate(keys, controlled=controlled)
            check = SchemaCheck(directory, FreshSchemas(take_in, mirror=schemas.mirror))
            publish = PublishRoute(directory, publisher, waiters=waiters, gate=gate, schemas=check)
            batch = BatchRoute(directory, publisher, gate=gate, schemas=check)
            publish = Counted(publish, counts, directory, named_by=published_topic)
            batch = Counted(batch, counts, directory, named_by=topic_in_path)
            if otlp is not None:
                sampling = Sampling(spans=otlp.spans, share=otlp.sample)
                publish = Spanned(publish, sampling, named_by=published_topic)
                batch = Spanned(batch, sampling, named_by=topic_in_path)
        if otlp is not None:
            await stack.enter_async_context(_background(otlp.run(services.figures.read)))
        status_only = only == "publish"
        others = management_app(services, publish=publish, batch=batch, status_only=status_only)
        yield with_origins(Dispatcher(publish=publish, others=others), settings.cors_origins)


class _Schemas(NamedTuple):
    service: SchemaService
    # Asks the registry for a topic's newest versions, where there is one.
    mirror: Look | None = None


@asynccontextmanager
async def _schemas(
    settings: Settings, topics: TopicService, directory: TopicDirectory
) -> AsyncIterator[_Schemas]:
    if settings.schema_registry_url is None:
        yield _Schemas(SchemaService(topics))
        return
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
async def _publisher(
    database_url: str, log: MessageLog, counts: PublishCounts
) -> AsyncIterator[TracedPublisher]:
    async with (
        _traces(log) as traces,
        Publisher(log, counts=counts) as publisher,
        # Connections of its own: publishers that wait for each other leave the others alone.
        open_database(database_url) as claims,
    ):
        yield TracedPublisher(publisher, partial(claimed_ids, claims), traces)


def _pruner(settings: Settings, database: Database) -> Pruner:
    return Pruner(
        database,
        undelivered_kept=timedelta(days=settings.undelivered_days),
        audit_kept=timedelta(days=settings.audit_days),
    )


def _topic_described(topic: Topic) -> Mapping[str, Any]:
    # Whose text would be in every event; its version says which it is.
    return {k: v for k, v in topic_read(topic).answered().items() if k != "schema"}


def _subscription_described(subscription: Subscription) -> Mapping[str, Any]:
    return subscription_read(subscription, subscription.state).answered()


_FIGURES: Final = Describes(
    topic=lambda figures: TopicMetricsRead.of(figures).answered(),
    subscription=lambda figures: SubscriptionMetricsRead.of(figures).answered(),
)


@asynccontextmanager
async def _heard(database_url: str, waiters: Waiters) -> AsyncIterator[None]:
    """Tell `waiters` of receipts, on a connection of their own: they come soon, or not at all."""
    channel = receipt_channel(waiters.name)
    async with listen(database_url, [channel], hear=waiters.hear) as notices:

        async def hear() -> None:
            async for _ in notices:
                pass  # each was heard as it came

        async with _background(hear()):
            yield


@asynccontextmanager
async def _traces(log: MessageLog) -> AsyncIterator[TraceBuffer]:
    """Where publications leave their traces; what is left at the end has a moment to go."""
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
    """Run `work` beside the block, and end it with the block."""
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(work)
        try:
            yield
        finally:
            task.cancel()


def serve(settings: Settings) -> None:
    """Serve the API until SIGTERM or SIGINT; answers under way then have SHUTDOWN_S."""
    configure_logging(settings.log_level)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    with opened_database_url(settings) as url:
        _spare_the_collector()
        uvicorn.run(
            create_app(settings, database_url=url, only=settings.only),
            host=settings.host,
            port=settings.port,
            loop="uvloop",
            http=BoundedConnection,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=SHUTDOWN_S,
        )


def _spare_the_collector() -> None:
    """Let it look less often, and not at what is loaded by now.

    Nearly all that a request makes is gone with it, without the collector; which at its usual pace
    takes half of the time of a batch of messages.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


def _end(_number: int, _frame: object) -> NoReturn:
    # uvicorn raises the signal again once it has stopped: then, too, what is open here is closed.
    sys.exit(0)


if __name__ == "__main__":
    serve(Settings())
