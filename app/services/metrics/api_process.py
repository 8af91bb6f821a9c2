"""Collects all metrics of an API process, for example for Prometheus."""

import asyncio
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic
from typing import Final, NamedTuple

import structlog

from app.domain.catalogue.topic import Topic
from app.domain.errors import UnavailableError
from app.domain.message import Partition
from app.log.interface import MessageLog
from app.metrics import catalogue
from app.metrics.event_loop import read_event_loop
from app.metrics.name_cap import CappedReadings, NameCap
from app.metrics.process import ProcessMetrics
from app.metrics.publish_counts import PublishCounts
from app.metrics.readings import Readings, Value
from app.metrics.shared import (
    read_log,
    read_spans,
    read_traces,
    subscription_labels,
    topic_labels,
)
from app.otlp.spans import SpanBuffer
from app.services.applied_changes import LIVE_WITHIN
from app.services.directory.topics import TopicDirectory
from app.services.health.monitor import LEASE
from app.services.health.subscription_health import FRESH
from app.services.metrics.resources import REPORTED_WITHIN
from app.services.publishing.tracing import TracedPublisher
from app.storage.database import Database
from app.storage.health.totals import SubscriptionTotals, TotalsRepository
from app.storage.health.workers import WorkerRepository

_log = structlog.get_logger(__name__)

# The shortest time between two queries of the database and the log for metrics. If metrics are
# collected more often, the last results are used again.
FRESH_FOR: Final = timedelta(seconds=1)
BOUNDS_WITHIN: Final = timedelta(seconds=2)
# The number of subscriptions whose metrics are collected in one turn of the event loop. A turn then
# takes less than a millisecond.
SUBSCRIPTIONS_PER_TURN: Final = 50


class _Seen(NamedTuple):
    """The state of all topics, subscriptions and workers, for metrics.

    `ends` is None if the log did not respond. `subscriptions` is None if the database did not
    respond.
    """

    ends: Mapping[Partition, int] | None
    subscriptions: Collection[SubscriptionTotals] | None
    workers: int


class ClusterSight:
    """Reads the state of all subscriptions and topics, at most once in FRESH_FOR."""

    def __init__(self, database: Database, log: MessageLog, directory: TopicDirectory) -> None:
        self._database = database
        self._log = log
        self._directory = directory
        self._seen: tuple[float, _Seen] | None = None

    async def read(self, topics: CappedReadings, subscriptions: CappedReadings) -> _Seen:
        """Add the metrics of all topics and subscriptions to the readings; return the state.

        If the log does not respond, the metrics of topics are missing. If the database does not
        respond, the metrics of subscriptions are missing.
        """
        if self._seen is None or monotonic() - self._seen[0] >= FRESH_FOR.total_seconds():
            self._seen = monotonic(), await self._look()
        seen = self._seen[1]
        for topic, published in _published(seen.ends or {}).items():
            topics.add(catalogue.TOPIC_PUBLISHED, published, topic_labels(topic))
        for number, each in enumerate(seen.subscriptions or (), 1):
            labels = subscription_labels(each.topic, each.name)
            for metric, value in _metrics_of(each):
                subscriptions.add(metric, value, labels)
            if number % SUBSCRIPTIONS_PER_TURN == 0:
                await asyncio.sleep(0)
        return seen

    async def _look(self) -> _Seen:
        ends = await self._ends(self._directory.all())
        try:
            async with self._database.transaction() as session:
                totals = TotalsRepository(session)
                found = await totals.subscriptions(
                    ends or {}, within=REPORTED_WITHIN, lease=LEASE, looked_within=FRESH
                )
                live = await WorkerRepository(session).live(LIVE_WITHIN)
        except UnavailableError as error:
            _log.warning("figures_without_database", reason=error.message)
            return _Seen(ends, None, 0)
        return _Seen(ends, found, len(live))

    async def _ends(self, topics: Collection[Topic]) -> Mapping[Partition, int] | None:
        partitions = [Partition(t.name, index) for t in topics for index in range(t.partitions)]
        try:
            async with asyncio.timeout(BOUNDS_WITHIN.total_seconds()):
                if not partitions:
                    await self._log.ping()
                    return {}
                bounds = await self._log.bounds(partitions)
        except (TimeoutError, UnavailableError) as error:
            _log.warning("figures_without_log", reason=type(error).__name__)
            return None
        return {partition: bound.end for partition, bound in bounds.items()}


@dataclass(slots=True, kw_only=True)
class ApiMetrics:
    """The metrics of one API process. With `cluster`, also of all topics and subscriptions."""

    log: MessageLog
    directory: TopicDirectory
    names_max: int
    publishing: PublishCounts | None = None
    traces: TracedPublisher | None = None
    cluster: ClusterSight | None = None
    spans: SpanBuffer | None = None
    _process: ProcessMetrics = field(default_factory=ProcessMetrics)
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)
    _caps: tuple[NameCap, NameCap] = field(init=False)

    def __post_init__(self) -> None:
        self._caps = NameCap(self.names_max), NameCap(self.names_max)

    async def read(self) -> Readings:
        """Return all current metrics.

        Calls at the same time run one after another. A lock is needed, because other work of the
        event loop can run while metrics are read.
        """
        async with self._reading:
            readings = Readings()
            self._process.read(readings)
            await read_event_loop(readings)
            read_log(readings, self.log.stats)
            if self.traces is not None:
                read_traces(readings, self.traces.stats)
            if self.spans is not None:
                read_spans(readings, self.spans.stats)
            of_topics, of_subscriptions = self._caps
            with (
                of_topics.collecting(readings) as topics,
                of_subscriptions.collecting(readings) as subscriptions,
            ):
                if self.publishing is not None:
                    self.publishing.read(topics, self.directory.known)
                if self.cluster is not None:
                    _read_parts(readings, await self.cluster.read(topics, subscriptions))
            return readings


def _read_parts(readings: Readings, seen: _Seen) -> None:
    readings.add(catalogue.PART_UP, int(seen.ends is not None), ("log",))
    readings.add(catalogue.PART_UP, int(seen.subscriptions is not None), ("database",))
    if seen.subscriptions is not None:
        readings.add(catalogue.WORKERS, seen.workers)


def _published(ends: Mapping[Partition, int]) -> Mapping[str, int]:
    published: dict[str, int] = {}
    for partition, end in ends.items():
        published[partition.topic] = published.get(partition.topic, 0) + end
    return published


def _metrics_of(each: SubscriptionTotals) -> Iterator[tuple[catalogue.Metric, Value]]:
    yield catalogue.LIFETIME_DELIVERED, each.delivered
    yield catalogue.LIFETIME_DISCARDED, each.discarded
    yield catalogue.LIFETIME_FILTERED, each.filtered
    yield catalogue.LIFETIME_BYTES, each.volume
    yield catalogue.LAG, each.lag
    yield catalogue.CLUSTER_INFLIGHT, each.in_flight
    yield catalogue.PARKED, each.waiting_retries
    yield catalogue.SUSPENDED, int(each.suspended)
    for metric, value in (
        (catalogue.UNHEALTHY, None if each.unhealthy is None else int(each.unhealthy)),
        (catalogue.LAG_SECONDS, each.lag_seconds),
        (catalogue.DRAIN_SECONDS, each.drain_seconds),
        (catalogue.LOSS_SECONDS, None if each.loss_seconds is None else max(0, each.loss_seconds)),
        (catalogue.MISSING, each.missing),
        (catalogue.OUTPUT_RATE, each.rate),
        (catalogue.MODE, each.mode),
        (catalogue.CIRCUIT, each.circuit),
    ):
        if value is not None:
            yield metric, value
