"""Queries over the figures of all topics and subscriptions."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from app.domain.errors import UnavailableError
from app.domain.message import Partition
from app.domain.query import Query, paths_of
from app.filtering.queries import compiled, reader
from app.log.interface import MessageLog
from app.services.catalogue import Found, Page
from app.services.metrics import BOUNDS_WITHIN, REPORTED_WITHIN
from app.services.rates import (
    SubscriptionFigures,
    TopicFigures,
    delivery_rates,
    lag_behind,
    subscription_figures,
)
from app.storage.catalogue import Key
from app.storage.database import Database
from app.storage.figures import FigureRepository, NamedTopic

# Subscriptions, or topics, whose figures are read at a time.
SUBSCRIPTIONS_AT_ONCE: Final = 500
TOPICS_AT_ONCE: Final = 100

Described = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Describes:
    """How figures are answered, and so looked at by queries."""

    topic: Callable[[TopicFigures], Described]
    subscription: Callable[[SubscriptionFigures], Described]


class CatalogueFigures:
    """Looks through the figures of all there is, some at a time: no more than a page needs."""

    def __init__(self, database: Database, log: MessageLog, describes: Describes) -> None:
        self._database = database
        self._log = log
        self._describes = describes

    async def subscriptions(self, query: Query, page: Page) -> Found[Described]:
        """Names and figures of the subscriptions for which it holds; InvalidQueryError."""
        return await _found(self._subscriptions(_only_names(query), page.after), query, page)

    async def topics(self, query: Query, page: Page) -> Found[Described]:
        """Names and figures of the topics for which it holds; InvalidQueryError."""
        return await _found(self._topics(_only_names(query), page.after), query, page)

    async def _subscriptions(
        self, wanted: Callable[[Described], bool], after: Key | None
    ) -> AsyncIterator[tuple[Key, Described]]:
        while True:
            async with self._database.transaction() as session:
                figures = FigureRepository(session)
                some = await figures.subscriptions(after=after, limit=SUBSCRIPTIONS_AT_ONCE)
                names = {each.id: {"name": each.name, "topicName": each.topic} for each in some}
                chosen = [each for each in some if wanted(names[each.id])]
                ids = [each.id for each in chosen]
                cursors = await figures.cursors(ids) if ids else {}
                loads = await figures.loads(ids, REPORTED_WITHIN) if ids else {}
            if not some:
                return
            for each in chosen:
                mine = [cursors[each.id]] if each.id in cursors else []
                found = subscription_figures(mine, loads.get(each.id, ()), lag_behind(mine, None))
                shown = replace(found, batch_rate=found.rate) if each.batched else found
                described = {**names[each.id], **self._describes.subscription(shown)}
                yield (each.topic, each.name), described
            after = (some[-1].topic, some[-1].name)

    async def _topics(
        self, wanted: Callable[[Described], bool], after: Key | None
    ) -> AsyncIterator[tuple[Key, Described]]:
        while True:
            async with self._database.transaction() as session:
                figures = FigureRepository(session)
                some = await figures.topics(after=after, limit=TOPICS_AT_ONCE)
                chosen = [each for each in some if wanted({"name": each.name})]
                names = [each.name for each in chosen]
                loads = await figures.loads_of_topics(names, REPORTED_WITHIN) if names else {}
            if not some:
                return
            published = await self._published(chosen) if chosen else {}
            for each in chosen:
                rate, throughput = delivery_rates(loads.get(each.name, ()))
                found = TopicFigures(
                    published=published.get(each.name),
                    subscriptions=each.subscriptions,
                    delivery_rate=rate,
                    throughput=throughput,
                )
                yield (each.name,), {"name": each.name, **self._describes.topic(found)}
            after = (some[-1].name,)

    async def _published(self, topics: Sequence[NamedTopic]) -> Mapping[str, int]:
        """Messages ever, by topic; what the log does not say in time is left out."""
        partitions = [Partition(each.name, n) for each in topics for n in range(each.partitions)]
        sums: dict[str, int] = {}
        with suppress(TimeoutError, UnavailableError):
            async with asyncio.timeout(BOUNDS_WITHIN / timedelta(seconds=1)):
                for partition, bounds in (await self._log.bounds(partitions)).items():
                    sums[partition.topic] = sums.get(partition.topic, 0) + bounds.end
        return sums


async def _found(
    described: AsyncIterator[tuple[Key, Described]], query: Query, page: Page
) -> Found[Described]:
    holds, items = compiled(query), list[Described]()
    last: Key | None = None
    async for key, each in described:
        if not holds(reader(each)):
            continue
        if len(items) == page.limit:
            return Found(items=items, after=last)
        items.append(each)
        last = key
    return Found(items=items)


def _only_names(query: Query) -> Callable[[Described], bool]:
    """Whether it holds by the names alone, where it asks for nothing else; else for all."""
    if paths_of(query) <= {"name", "topicName"}:
        holds = compiled(query)
        return lambda names: holds(names.get)
    return lambda _names: True
