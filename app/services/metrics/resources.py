"""Metrics of one topic or subscription, from workers' reports and the ends of partitions."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog

from app.domain.errors import NotFoundError, UnavailableError
from app.domain.message import Partition
from app.domain.status import FailedAttempt
from app.log.interface import Bounds, MessageLog
from app.services.health.forecasts import backlog_forecast
from app.services.health.monitor import LEASE
from app.services.health.subscription_health import FRESH
from app.services.metrics.volumes import Volumes
from app.services.rates import (
    SubscriptionMetrics,
    TopicMetrics,
    delivery_rates,
    lag_behind,
    summed_metrics,
)
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database
from app.storage.health.statuses import StatusRepository
from app.storage.health.subscription_health import SubscriptionHealthRepository
from app.storage.health.topic_volumes import VolumeRepository

_log = structlog.get_logger(__name__)

# Workers report every second. If a worker's last report is older than this, the report is ignored.
REPORTED_WITHIN: Final = timedelta(seconds=5)
# How long a request waits for the log to return the ends of partitions. After this time, the ends
# in the workers' last reports are used.
BOUNDS_WITHIN: Final = timedelta(milliseconds=500)
# The last time span over which a topic's published messages per second are measured.
RATE_OVER: Final = timedelta(minutes=1)


class MetricsService:
    """Reads the metrics of a subscription or topic, with one transaction and few log queries."""

    def __init__(self, database: Database, log: MessageLog, volumes: Volumes) -> None:
        self._database = database
        self._log = log
        self._volumes = volumes

    async def subscription(self, topic: str, name: str) -> SubscriptionMetrics:
        """Return the metrics of a subscription.

        Raises:
            TopicNotFoundError: The topic does not exist.
            SubscriptionNotFoundError: The subscription does not exist.
        """
        async with self._database.transaction() as session:
            found = await SubscriptionRepository(session).get(topic, name)
            status = StatusRepository(session)
            cursors = await status.cursors(found.id)
            loads = await status.loads(found.id, within=REPORTED_WITHIN)
            repository = SubscriptionHealthRepository(session)
            seen = await repository.looked_at(found.id, LEASE, within=FRESH)
        bounds = await fresh_bounds(self._log, topic)
        lag = lag_behind(cursors, bounds)
        figures = summed_metrics(cursors, loads, lag)
        if seen:
            unfinished = bounds.keys() if lag and bounds else ()
            ahead = await backlog_forecast(self._log, found, seen[0], unfinished=unfinished)
            figures = replace(figures, backlog_forecast=ahead)
        return figures if found.batching is None else replace(figures, batch_rate=figures.rate)

    async def retried(self, topic: str, name: str) -> Sequence[FailedAttempt]:
        """Return the messages that failed last and are still retried, the newest failure first.

        Each worker reports only a few of them.

        Raises:
            TopicNotFoundError: The topic does not exist.
            SubscriptionNotFoundError: The subscription does not exist.
        """
        async with self._database.transaction() as session:
            found = await SubscriptionRepository(session).get(topic, name)
            return await StatusRepository(session).failing(found.id, within=REPORTED_WITHIN)

    async def topic(self, name: str) -> TopicMetrics:
        """Return the metrics of a topic.

        Raises:
            TopicNotFoundError: The topic does not exist.
        """
        async with self._database.transaction() as session:
            subscriptions = await SubscriptionRepository(session).names(name)
            status = StatusRepository(session)
            loads = await status.loads_of_topic(name, within=REPORTED_WITHIN)
            volumes = await self._volumes.of(VolumeRepository(session), [name])
        bounds = await fresh_bounds(self._log, name)
        delivery_rate, throughput = delivery_rates(loads)
        return TopicMetrics(
            published=sum(each.end for each in bounds.values()) if bounds else None,
            volume=volumes[name],
            rate=await self._publish_rate(bounds) if bounds else None,
            subscriptions=len(subscriptions),
            delivery_rate=delivery_rate,
            throughput=throughput,
        )

    async def _publish_rate(self, bounds: Mapping[Partition, Bounds]) -> float | None:
        """Return how many messages per second were published over the last RATE_OVER.

        `bounds` has the current ends of the topic's partitions. The result is None if the log does
        not respond in time.
        """
        since_ms = int((datetime.now(UTC) - RATE_OVER).timestamp() * 1000)
        try:
            async with asyncio.timeout(BOUNDS_WITHIN.total_seconds()):
                offsets = await self._log.offsets_at(bounds.keys(), since_ms)
        except (TimeoutError, UnavailableError, NotFoundError) as error:
            _log.info("publish_rate_not_known", reason=type(error).__name__)
            return None
        # Count a negative difference as zero. The ends were read first. If messages have come since
        # then, an offset may be higher than the end that was read.
        lately = sum(max(0, bounds[each].end - offset) for each, offset in offsets.items())
        return lately / RATE_OVER.total_seconds()


async def fresh_bounds(log: MessageLog, topic: str) -> Mapping[Partition, Bounds] | None:
    """Return the bounds of the topic's partitions; None if the log does not respond in time."""
    try:
        async with asyncio.timeout(BOUNDS_WITHIN.total_seconds()):
            return await log.bounds(await log.partitions(topic))
    except (TimeoutError, UnavailableError, NotFoundError) as error:
        _log.info("bounds_not_fresh", topic=topic, reason=type(error).__name__)
        return None
