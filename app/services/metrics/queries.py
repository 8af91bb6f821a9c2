"""Queries over the figures of all topics and subscriptions."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from app.domain.catalogue.query import Query, paths_of
from app.domain.errors import UnavailableError
from app.filtering.queries import compiled, reader
from app.log.interface import MessageLog
from app.services.catalogue.listings import FoundPage, Page
from app.services.metrics.resources import BOUNDS_WITHIN, REPORTED_WITHIN
from app.services.metrics.volumes import Volumes
from app.services.rates import (
    SubscriptionMetrics,
    TopicMetrics,
    lag_behind,
    summed_metrics,
)
from app.storage.catalogue.listings import Key
from app.storage.catalogue.metric_columns import PUBLISHED
from app.storage.catalogue.metrics import MetricRepository, NamedTopic
from app.storage.database import Database
from app.storage.health.topic_volumes import VolumeRepository

# Subscriptions whose figures are read at a time; also, of either, those that are answered in a turn
# of the loop.
AT_ONCE: Final = 100
# Topics that are read at a time, unless fewer are wanted: what the log said goes along each time.
# The largest page, and the one that says that there are more.
TOPICS_AT_ONCE: Final = 1_001
# Of thousands of topics the log says it in less; for the first time it may have to look for them.
ALL_WITHIN: Final = timedelta(seconds=2)
_NOTHING: Final = (0.0, 0.0)

Described = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Describes:
    """How figures are answered, and so looked at by queries."""

    topic: Callable[[TopicMetrics], Described]
    subscription: Callable[[SubscriptionMetrics], Described]


class CatalogueMetrics:
    """Looks through the figures of all there is, some at a time: no more than a page needs."""

    def __init__(
        self, database: Database, log: MessageLog, *, describes: Describes, volumes: Volumes
    ) -> None:
        self._database = database
        self._log = log
        self._describes = describes
        self._volumes = volumes

    async def subscriptions(self, query: Query, page: Page) -> FoundPage[Described]:
        """Names and figures of the subscriptions for which it holds; InvalidQueryError."""
        return await _found(self._subscriptions(query, page.after), query, page)

    async def topics(self, query: Query, page: Page) -> FoundPage[Described]:
        """Names and figures of the topics for which it holds; InvalidQueryError."""
        return await _found(self._topics(query, page), query, page)

    async def _subscriptions(
        self, query: Query, after: Key | None
    ) -> AsyncIterator[tuple[Key, Described]]:
        """Those for which it may hold."""
        while True:
            async with self._database.transaction() as session:
                figures = MetricRepository(session)
                some = await figures.subscriptions(
                    query, REPORTED_WITHIN, after=after, limit=AT_ONCE
                )
                ids = [each.id for each in some]
                cursors = await figures.cursors(ids) if ids else {}
                loads = await figures.loads(ids, REPORTED_WITHIN) if ids else {}
            for each in some:
                mine = [cursors[each.id]] if each.id in cursors else []
                found = summed_metrics(mine, loads.get(each.id, ()), lag_behind(mine, None))
                shown = replace(found, batch_rate=found.rate) if each.batched else found
                names = {"name": each.name, "topicName": each.topic}
                yield (each.topic, each.name), {**names, **self._describes.subscription(shown)}
            if len(some) < AT_ONCE:
                return
            after = (some[-1].topic, some[-1].name)

    async def _topics(self, query: Query, page: Page) -> AsyncIterator[tuple[Key, Described]]:
        """Those for which it may hold."""
        ever = await self._ever() if PUBLISHED in paths_of(query) else None
        after, limit = page.after, _topics_at_once(page)
        while True:
            async with self._database.transaction() as session:
                figures = MetricRepository(session)
                some = await figures.topics(
                    query, REPORTED_WITHIN, after=after, limit=limit, published=ever
                )
                names = [each.name for each in some]
                rates = await figures.rates_of_topics(names, REPORTED_WITHIN) if names else {}
                volumes = await self._volumes.of(VolumeRepository(session), names)
            published = await self._published(_counted(some)) if ever is None else ever
            for number, each in enumerate(some, 1):
                rate, throughput = rates.get(each.name, _NOTHING)
                found = TopicMetrics(
                    published=published.get(each.name),
                    volume=volumes[each.name],
                    subscriptions=each.subscriptions,
                    delivery_rate=rate,
                    throughput=throughput,
                )
                yield (each.name,), {"name": each.name, **self._describes.topic(found)}
                if number % AT_ONCE == 0:
                    await asyncio.sleep(0)
            if len(some) < limit:
                return
            after = (some[-1].name,)

    async def _ever(self) -> Mapping[str, int]:
        """Messages ever, of all topics: what is asked for is answered as it was looked for."""
        async with self._database.transaction() as session:
            topics = await MetricRepository(session).partitions()
        return await self._published(topics, within=ALL_WITHIN)

    async def _published(
        self, topics: Mapping[str, int], within: timedelta = BOUNDS_WITHIN
    ) -> Mapping[str, int]:
        """Messages ever, by topic; what the log does not say in time is left out."""
        if not topics:
            return {}
        with suppress(TimeoutError, UnavailableError):
            async with asyncio.timeout(within / timedelta(seconds=1)):
                return await self._log.published(topics)
        return {}


def _topics_at_once(page: Page) -> int:
    """With the one that says that there are more."""
    wanted = TOPICS_AT_ONCE if page.limit is None else page.limit + 1
    return min(TOPICS_AT_ONCE, max(AT_ONCE, wanted))


def _counted(topics: Sequence[NamedTopic]) -> Mapping[str, int]:
    return {each.name: each.partitions for each in topics}


async def _found(
    described: AsyncIterator[tuple[Key, Described]], query: Query, page: Page
) -> FoundPage[Described]:
    holds, items = compiled(query), list[Described]()
    last: Key | None = None
    async for key, each in described:
        if not holds(reader(each)):
            continue
        if len(items) == page.limit:
            return FoundPage(items=items, after=last)
        items.append(each)
        last = key
    return FoundPage(items=items)
