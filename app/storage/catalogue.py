"""Topics and subscriptions as a catalogue: looked through page by page, found by text or owner."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from sqlalchemy import Double, Select, cast, func, or_, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from app.domain.owner import Owner
from app.domain.subscription import Subscription
from app.domain.topic import Topic
from app.domain.trace import TrackingMode
from app.storage.models import SubscriptionRow, TopicRow
from app.storage.rows import subscription_of, topic_of
from app.storage.sealing import vault_of
from app.vault import Vault

# Rows of one statement: between two, other requests have their turn.
PAGE: Final = 1_000
# Of whole resources, which take longer to make.
PAGE_WHOLE: Final = 200

T = TypeVar("T")
Key = tuple[str, ...]
"""What a resource is ordered by: a topic's name; a subscription's topic and name."""


def _epoch(column: InstrumentedAttribute[Any]) -> Any:  # noqa: ANN401 - SQLAlchemy's expression
    return cast(func.extract("epoch", column), Double)


def _owned(row: type[TopicRow] | type[SubscriptionRow]) -> dict[str, Any]:
    return {
        "description": row.description,
        "owner.source": row.owner_source,
        "owner.id": row.owner_id,
        "createdAt": _epoch(row.created_at),
        "modifiedAt": _epoch(row.modified_at),
    }


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """What is in a catalogue.

    `fields` have columns, by the names that they are answered with.
    """

    row: Any
    key: tuple[Any, ...]
    fields: Mapping[str, Any]
    of: Callable[[Any, Vault], T]


TOPICS: Final[Kind[Topic]] = Kind(
    TopicRow,
    (TopicRow.name,),
    {"name": TopicRow.name, "partitions": TopicRow.partitions, **_owned(TopicRow)},
    lambda row, _vault: topic_of(row),
)
SUBSCRIPTIONS: Final[Kind[Subscription]] = Kind(
    SubscriptionRow,
    (SubscriptionRow.topic, SubscriptionRow.name),
    {
        "name": SubscriptionRow.name,
        "topicName": SubscriptionRow.topic,
        # With a mask in place of its password.
        "endpoint": SubscriptionRow.endpoint,
        "contact": SubscriptionRow.contact,
        "supportTeam": SubscriptionRow.owner_id,
        **_owned(SubscriptionRow),
    },
    subscription_of,
)


class Catalogue(Generic[T]):
    """The resources of one kind in the order of their keys; those of one group or topic, if said.

    `within` is the name of a topic's group, or of a subscription's topic.
    """

    def __init__(self, session: AsyncSession, kind: Kind[T], *, within: str | None = None) -> None:
        self._session = session
        self._kind = kind
        self._within = within

    async def values(
        self, fields: Sequence[str], *, after: Key | None
    ) -> Sequence[tuple[Key, Mapping[str, Any]]]:
        """The next PAGE of them: their keys, and these fields, each of which has a column."""
        columns = [self._kind.fields[name] for name in fields]
        page = self._next([*self._kind.key, *columns], after).limit(PAGE)
        rows = await self._session.execute(page)
        width = len(self._kind.key)
        return [
            (tuple(row[:width]), dict(zip(fields, row[width:], strict=True))) for row in rows.all()
        ]

    async def whole(self, *, after: Key | None) -> Sequence[tuple[Key, T]]:
        """The next PAGE_WHOLE of them, as they are."""
        rows = await self._session.scalars(self._next([self._kind.row], after).limit(PAGE_WHOLE))
        return [self._keyed(row) for row in rows]

    async def named(self, keys: Sequence[Key]) -> Sequence[T]:
        """Those of these keys that are there, in their order."""
        wanted = select(self._kind.row).where(tuple_(*self._kind.key).in_(keys))
        rows = await self._session.scalars(wanted.order_by(*self._kind.key))
        return [self._keyed(row)[1] for row in rows]

    async def owned_by(self, owner: Owner) -> Sequence[T]:
        """All that the owner has."""
        row = self._kind.row
        owned = select(row).where(row.owner_source == owner.source, row.owner_id == owner.id)
        rows = await self._session.scalars(owned.order_by(*self._kind.key))
        return [self._keyed(each)[1] for each in rows]

    def _next(self, columns: Sequence[Any], after: Key | None) -> Select[Any]:
        key = tuple_(*self._kind.key)
        query = select(*columns).order_by(*self._kind.key)
        if after is not None:
            query = query.where(key > tuple_(*after))
        if self._within is not None:
            row = self._kind.row
            home = row.group_name if row is TopicRow else row.topic
            query = query.where(home == self._within)
        return query

    def _keyed(self, row: Any) -> tuple[Key, T]:  # noqa: ANN401 - a row of the kind
        key = tuple(getattr(row, column.key) for column in self._kind.key)
        return key, self._kind.of(row, vault_of(self._session))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicHit:
    """A topic that was found."""

    name: str
    owner_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionHit:
    """A subscription that was found, its endpoint with a mask in place of a password."""

    name: str
    topic: str
    endpoint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hits:
    """The first that were found, and how many there are in all."""

    topics: Sequence[TopicHit]
    subscriptions: Sequence[SubscriptionHit]
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """How many there are of what."""

    topics: int
    topics_ack_all: int
    topics_tracked: int
    topics_avro: int
    subscriptions: int
    subscriptions_tracked: int
    subscriptions_avro: int


class CatalogueSearch:
    """Finds by a part of a text, and counts."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def hits(self, text: str, *, limit: int) -> Hits:
        """What has `text`, in either case, in its name, its owner's id or its endpoint."""
        row = TopicRow
        found = or_(row.name.icontains(text, autoescape=True), _owner_has(row, text))
        columns = (row.name, row.owner_id, func.count().over().label("total"))
        topics = (
            await self._session.execute(
                select(*columns).where(found).order_by(row.name).limit(limit)
            )
        ).all()
        sub = SubscriptionRow
        found = or_(
            sub.name.icontains(text, autoescape=True),
            sub.endpoint.icontains(text, autoescape=True),
            _owner_has(sub, text),
        )
        places = (sub.name, sub.topic, sub.endpoint, func.count().over().label("total"))
        ordered = select(*places).where(found).order_by(sub.topic, sub.name)
        # At least one, for the count.
        ordered = ordered.limit(max(1, limit - len(topics)))
        subscriptions = (await self._session.execute(ordered)).all()
        shown = subscriptions[: limit - len(topics)]
        return Hits(
            topics=[TopicHit(name=each.name, owner_id=each.owner_id) for each in topics],
            subscriptions=[
                SubscriptionHit(name=each.name, topic=each.topic, endpoint=each.endpoint)
                for each in shown
            ],
            total=sum(int(rows[0].total) for rows in (topics, subscriptions) if rows),
        )

    async def counted(self) -> Counted:
        """How many topics and subscriptions there are, of all and of some kinds."""
        topics = (await self._session.execute(_counts(TopicRow, ack="ALL"))).one()
        subscriptions = (await self._session.execute(_counts(SubscriptionRow))).one()
        return Counted(
            topics=topics.all_of_them,
            topics_ack_all=topics.ack,
            topics_tracked=topics.tracked,
            topics_avro=topics.avro,
            subscriptions=subscriptions.all_of_them,
            subscriptions_tracked=subscriptions.tracked,
            subscriptions_avro=subscriptions.avro,
        )

    async def client_ids(self, topic: str) -> Sequence[str]:
        """The ids of all who own a subscription of the topic, each once."""
        owners = select(SubscriptionRow.owner_id).where(SubscriptionRow.topic == topic).distinct()
        return list(await self._session.scalars(owners.order_by(SubscriptionRow.owner_id)))


def _owner_has(row: type[TopicRow] | type[SubscriptionRow], text: str) -> Any:  # noqa: ANN401 - SQLAlchemy's expression
    return row.owner_id.icontains(text, autoescape=True)


def _counts(
    row: type[TopicRow] | type[SubscriptionRow], *, ack: str = ""
) -> Select[int, int, int, int]:
    said = row.settings
    off = TrackingMode.OFF.value
    return select(
        func.count().label("all_of_them"),
        func.count().filter(said["ack"].astext == ack).label("ack"),
        func.count().filter(said["tracking"].astext != off).label("tracked"),
        func.count().filter(said["content_type"].astext == "AVRO").label("avro"),
    )
