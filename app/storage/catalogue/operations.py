"""Stores settings that operators change while the service runs, and the last activity of topics."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from sqlalchemy import case, delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.catalogue.operations import Constraints, InactiveTopic, WorkloadConstraints
from app.storage.tables import DatacenterRow, TopicActivityRow, TopicRow, WorkloadConstraintRow

# Stands in place of a subscription's name, in the table row of a constraint for the topic itself.
_TOPIC_ITSELF = ""
# The name under which the state of the data centre is stored in the database.
_STORED_AS = "primary-dc"


class ConstraintRepository:
    """Stores workload constraints: how many consumers a topic or subscription should have.

    A constraint is deleted with its topic.
    """

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def all(self) -> WorkloadConstraints:
        """Return the workload constraints of all topics and subscriptions."""
        row = WorkloadConstraintRow
        rows = list(await self._session.scalars(select(row).order_by(row.topic, row.subscription)))
        of_topics = {each.topic: _of(each) for each in rows if not each.subscription}
        others = {(each.topic, each.subscription): _of(each) for each in rows if each.subscription}
        return WorkloadConstraints(topics=of_topics, subscriptions=others)

    async def get(self, topic: str, subscription: str = _TOPIC_ITSELF) -> Constraints | None:
        """Return the constraints of a topic or subscription; None if there are none."""
        row = await self._session.get(WorkloadConstraintRow, (topic, subscription))
        return None if row is None else _of(row)

    async def put(
        self, constraints: Constraints, *, topic: str, subscription: str = _TOPIC_ITSELF
    ) -> None:
        """Set the constraints of an existing topic, or of one of its subscriptions."""
        values = {"consumers": constraints.consumers, "reason": constraints.reason}
        stored = insert(WorkloadConstraintRow).values(
            topic=topic, subscription=subscription, **values
        )
        keys = ["topic", "subscription"]
        await self._session.execute(stored.on_conflict_do_update(index_elements=keys, set_=values))

    async def delete(self, topic: str, subscription: str = _TOPIC_ITSELF) -> None:
        """Delete the constraints of a topic or subscription, if there are any."""
        row = WorkloadConstraintRow
        named = delete(row).where(row.topic == topic, row.subscription == subscription)
        await self._session.execute(named)


class DatacenterRepository:
    """Stores whether operators have put the data centre into service."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def is_ready(self) -> bool:
        """Whether the data centre is in service; True by default."""
        ready = await self._session.scalar(
            select(DatacenterRow.ready).where(DatacenterRow.name == _STORED_AS)
        )
        return ready is not False

    async def set_ready(self, *, ready: bool) -> None:
        """Put the data centre into service, or out of service."""
        statement = insert(DatacenterRow).values(name=_STORED_AS, ready=ready)
        statement = statement.on_conflict_do_update(index_elements=["name"], set_={"ready": ready})
        await self._session.execute(statement)


class ActivityRepository:
    """Stores when each topic last had new messages."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def partitions(self, *, after: str, limit: int) -> Mapping[str, int]:
        """Return the number of partitions of the next `limit` topics after the name `after`."""
        row = TopicRow
        query = select(row.name, row.partitions).where(row.name > after)
        rows = await self._session.execute(query.order_by(row.name).limit(limit))
        return {each.name: each.partitions for each in rows}

    async def note(self, published: Mapping[str, int]) -> None:
        """Store how many messages were ever published to each topic.

        If the number of a topic has changed, the topic has got new messages, and the current time
        is stored.
        """
        row = TopicActivityRow
        known = select(TopicRow.name).where(TopicRow.name.in_(published)).with_for_update(read=True)
        values = [
            {"topic": name, "published": published[name]}
            for name in await self._session.scalars(known)
        ]
        if not values:
            return
        noted = insert(row).values(values)
        grown = row.published != noted.excluded.published
        news = case((grown, func.clock_timestamp()), else_=row.grown_at)
        changed = {"published": noted.excluded.published, "grown_at": news}
        await self._session.execute(
            noted.on_conflict_do_update(index_elements=["topic"], set_=changed)
        )

    async def inactive(self, longer_than: timedelta) -> Sequence[InactiveTopic]:
        """Return the topics that have got no new messages for more than `longer_than`.

        The topic that has been inactive for the longest time comes first.
        """
        row = TopicActivityRow
        old = row.grown_at < func.clock_timestamp() - longer_than
        rows = await self._session.scalars(select(row).where(old).order_by(row.grown_at, row.topic))
        return [InactiveTopic(name=each.topic, since=each.grown_at) for each in rows]


def _of(row: WorkloadConstraintRow) -> Constraints:
    return Constraints(consumers=row.consumers, reason=row.reason)
