"""Queries over the metrics of all topics and subscriptions."""

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

# The number of subscriptions whose metrics are read with one query. It is also the number of topics
# that are handled in one turn of the event loop.
AT_ONCE: Final = 100
# The maximum number of topics whose metrics are read in one step, with one query of the log. This
# is the size of the largest page, and one more topic, which shows whether there are more.
TOPICS_AT_ONCE: Final = 1_001
# The time limit for a query of the log about all topics. The log usually needs less time, but the
# first query may have to look up thousands of topics.
ALL_WITHIN: Final = timedelta(seconds=2)
_NOTHING: Final = (0.0, 0.0)

Described = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Describes:
    """Functions that convert metrics to the form of the response.

    Queries use the field names of this form.
    """

    topic: Callable[[TopicMetrics], Described]
    subscription: Callable[[SubscriptionMetrics], Described]


class CatalogueMetrics:
    """Runs queries over the metrics of all topics and subscriptions.

    The metrics are read in steps, until the page is full.
    """

    def __init__(
        self, database: Database, log: MessageLog, *, describes: Describes, volumes: Volumes
    ) -> None:
        self._database = database
        self._log = log
        self._describes = describes
        self._volumes = volumes

    async def subscriptions(self, query: Query, page: Page) -> FoundPage[Described]:
        """Return the names and metrics of the subscriptions that match the query.

        Raises:
            InvalidQueryError: The query is not valid.
        """
        return await _found(self._subscriptions(query, page.after), query, page)

    async def topics(self, query: Query, page: Page) -> FoundPage[Described]:
        """Return the names and metrics of the topics that match the query.

        Raises:
            InvalidQueryError: The query is not valid.
        """
        return await _found(self._topics(query, page), query, page)

    async def _subscriptions(
        self, query: Query, after: Key | None
    ) -> AsyncIterator[tuple[Key, Described]]:
        """Yield the subscriptions that may match the query, with their metrics."""
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
        """Yield the topics that may match the query, with their metrics."""
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
        """Return how many messages were ever published to each topic.

        These numbers are read once. They are used to check the query, and for the response.
        """
        async with self._database.transaction() as session:
            topics = await MetricRepository(session).partitions()
        return await self._published(topics, within=ALL_WITHIN)

    async def _published(
        self, topics: Mapping[str, int], within: timedelta = BOUNDS_WITHIN
    ) -> Mapping[str, int]:
        """Return how many messages were ever published to each topic.

        Topics that the log does not report in time are left out.
        """
        if not topics:
            return {}
        with suppress(TimeoutError, UnavailableError):
            async with asyncio.timeout(within / timedelta(seconds=1)):
                return await self._log.published(topics)
        return {}


def _topics_at_once(page: Page) -> int:
    """Return how many topics are read in one step.

    This is one topic more than the page has, which shows whether there are more topics.
    """
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
