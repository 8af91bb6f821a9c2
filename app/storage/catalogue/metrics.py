"""Reads the workers' reports about many subscriptions at once, with few queries."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import func, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.catalogue.batching import DeliveryType
from app.domain.catalogue.query import Query
from app.domain.status import CursorStatus, SubscriptionLoad
from app.storage.catalogue.listings import Key
from app.storage.catalogue.metric_columns import of_subscriptions, of_topics, rate_of, recent
from app.storage.health.statuses import LOAD_COLUMNS, load_of
from app.storage.tables import CursorRow, SubscriptionLoadRow, SubscriptionRow, TopicRow


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSubscription:
    """The parts of a subscription that metrics need."""

    id: str
    topic: str
    name: str
    batched: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTopic:
    """The fields of a topic that are needed for its metrics, and how many subscriptions it has."""

    name: str
    partitions: int
    subscriptions: int


class MetricRepository:
    """Reads the workers' reports, and the subscriptions and topics that these are about."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def subscriptions(
        self, query: Query, within: timedelta, *, after: Key | None, limit: int
    ) -> Sequence[NamedSubscription]:
        """Return the next subscriptions that may match the query, ordered by topic and name.

        Workers' reports about load are used only if they were made in the last time span `within`.
        """
        row = SubscriptionRow
        kind = row.settings["delivery_type"].astext
        those = of_subscriptions(
            select(row.id, row.topic, row.name, kind.label("kind")), query, within
        )
        if after is not None:
            those = those.where(tuple_(row.topic, row.name) > tuple_(*after))
        rows = await self._session.execute(those.order_by(row.topic, row.name).limit(limit))
        return [
            NamedSubscription(
                id=each.id,
                topic=each.topic,
                name=each.name,
                batched=each.kind == DeliveryType.BATCH,
            )
            for each in rows
        ]

    async def partitions(self) -> Mapping[str, int]:
        """Return the number of partitions of each topic."""
        rows = await self._session.execute(select(TopicRow.name, TopicRow.partitions))
        return {each.name: each.partitions for each in rows}

    async def topics(
        self,
        query: Query,
        within: timedelta,
        *,
        after: Key | None,
        limit: int,
        published: Mapping[str, int] | None = None,
    ) -> Sequence[NamedTopic]:
        """Return the next topics that may match the query, ordered by name.

        `published` has the number of messages of each topic; None if the query does not need these
        numbers. Only those reports of workers are used that were made in the last time span
        `within`.
        """
        row = TopicRow
        those = of_topics(select(row.name, row.partitions), query, within, published=published)
        if after is not None:
            those = those.where(row.name > after[0])
        rows = (await self._session.execute(those.order_by(row.name).limit(limit))).all()
        names = [each.name for each in rows]
        counted = select(SubscriptionRow.topic, func.count().label("count"))
        counted = counted.where(SubscriptionRow.topic.in_(names)).group_by(SubscriptionRow.topic)
        counts: dict[str, int] = {
            each.topic: int(each[1]) for each in await self._session.execute(counted)
        }
        return [
            NamedTopic(
                name=each.name,
                partitions=each.partitions,
                subscriptions=counts.get(each.name, 0),
            )
            for each in rows
        ]

    async def cursors(self, ids: Collection[str]) -> Mapping[str, CursorStatus]:
        """Return, by subscription id, one status with the sums over all cursors."""
        row = CursorRow
        sums = [func.sum(column) for column in (row.delivered, row.discarded, row.volume)]
        lag = func.sum(func.greatest(row.end - row.offset, 0))
        query = select(row.subscription_id, func.min(row.topic), lag, func.sum(row.filtered), *sums)
        query = query.where(row.subscription_id.in_(ids)).group_by(row.subscription_id)
        return {
            each[0]: CursorStatus(
                subscription_id=each[0],
                topic=each[1],
                partition=0,
                worker_id="",
                offset=0,
                end=int(each[2]),
                filtered=int(each[3]),
                delivered=int(each[4]),
                discarded=int(each[5]),
                volume=int(each[6]),
            )
            for each in await self._session.execute(query)
        }

    async def loads(
        self, ids: Collection[str], within: timedelta
    ) -> Mapping[str, Sequence[SubscriptionLoad]]:
        """Return, by subscription id, the workers' reports in the last time span `within`.

        Subscriptions without such a report are left out.
        """
        chosen = SubscriptionLoadRow.subscription_id.in_(ids)
        rows = await self._session.execute(select(*LOAD_COLUMNS).where(chosen, recent(within)))
        found: dict[str, list[SubscriptionLoad]] = {}
        for each in rows:
            found.setdefault(each.subscription_id, []).append(load_of(each))
        return found

    async def rates_of_topics(
        self, names: Collection[str], within: timedelta
    ) -> Mapping[str, tuple[float, float]]:
        """Return, by topic name, deliveries per second and delivered bytes per second.

        Only those reports of workers are used that were made in the last time span `within`.
        """
        row = SubscriptionLoadRow
        rates = select(SubscriptionRow.topic, rate_of("codes_2xx"), rate_of("bytes"))
        joined = rates.join(row, row.subscription_id == SubscriptionRow.id)
        chosen = joined.where(SubscriptionRow.topic.in_(names), recent(within))
        found = await self._session.execute(chosen.group_by(SubscriptionRow.topic))
        return {topic: (float(rate or 0), float(volume or 0)) for topic, rate, volume in found}
