"""Figures for people and dashboards: what workers report, against what the log has now."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog

from app.domain.errors import NotFoundError, UnavailableError
from app.domain.message import Partition
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

# A worker reports every second; older reports are of one that is gone.
REPORTED_WITHIN: Final = timedelta(seconds=5)
# The log's own word on the ends is worth this wait; else those of the last reports do.
BOUNDS_WITHIN: Final = timedelta(milliseconds=500)
# How long the log is looked back to say how much is published.
RATE_OVER: Final = timedelta(minutes=1)


class MetricsService:
    """Figures of subscriptions and topics; one transaction each, and one look at the log."""

    def __init__(self, database: Database, log: MessageLog, volumes: Volumes) -> None:
        self._database = database
        self._log = log
        self._volumes = volumes

    async def subscription(self, topic: str, name: str) -> SubscriptionMetrics:
        """TopicNotFoundError, SubscriptionNotFoundError."""
        async with self._database.transaction() as session:
            found = await SubscriptionRepository(session).get(topic, name)
            status = StatusRepository(session)
            cursors = await status.cursors(found.id)
            loads = await status.loads(found.id, within=REPORTED_WITHIN)
            repository = SubscriptionHealthRepository(session)
            seen = await repository.looked_at(found.id, LEASE, within=FRESH)
        bounds = await self._bounds(topic)
        lag = lag_behind(cursors, bounds)
        figures = summed_metrics(cursors, loads, lag)
        if seen:
            unfinished = bounds.keys() if lag and bounds else ()
            ahead = await backlog_forecast(self._log, found, seen[0], unfinished=unfinished)
            figures = replace(figures, backlog_forecast=ahead)
        return figures if found.batching is None else replace(figures, batch_rate=figures.rate)

    async def topic(self, name: str) -> TopicMetrics:
        """TopicNotFoundError."""
        async with self._database.transaction() as session:
            subscriptions = await SubscriptionRepository(session).names(name)
            status = StatusRepository(session)
            loads = await status.loads_of_topic(name, within=REPORTED_WITHIN)
            volumes = await self._volumes.of(VolumeRepository(session), [name])
        bounds = await self._bounds(name)
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
        """Messages a second up to the ends in `bounds`; None when the log does not say in time."""
        since_ms = int((datetime.now(UTC) - RATE_OVER).timestamp() * 1000)
        try:
            async with asyncio.timeout(BOUNDS_WITHIN.total_seconds()):
                places = await self._log.offsets_at(bounds.keys(), since_ms)
        except (TimeoutError, UnavailableError, NotFoundError) as error:
            _log.info("publish_rate_not_known", reason=type(error).__name__)
            return None
        # What came after the ends were asked for does not count against them.
        lately = sum(max(0, bounds[each].end - place) for each, place in places.items())
        return lately / RATE_OVER.total_seconds()

    async def _bounds(self, topic: str) -> Mapping[Partition, Bounds] | None:
        try:
            async with asyncio.timeout(BOUNDS_WITHIN.total_seconds()):
                return await self._log.bounds(await self._log.partitions(topic))
        except (TimeoutError, UnavailableError, NotFoundError) as error:
            _log.info("bounds_not_fresh", topic=topic, reason=type(error).__name__)
            return None
