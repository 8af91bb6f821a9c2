"""Lists of topics and subscriptions: pages of all, those of an owner, and a search for a text."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from sqlalchemy import ColumnElement, Row, Select, func, or_, select, true, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.catalogue.subscription import Subscription
from app.domain.catalogue.topic import Topic
from app.domain.owner import Owner
from app.domain.trace import TrackingMode
from app.storage.catalogue.columns import SUBSCRIPTION_COLUMNS, TOPIC_COLUMNS, Columns
from app.storage.catalogue.rows import subscription_of, topic_of
from app.storage.sealing import vault_of
from app.storage.slices import made_of
from app.storage.tables import SubscriptionRow, TopicRow
from app.vault import Vault

# The number of table rows that one SQL statement of a list reads. Other requests can run between
# two statements.
PAGE: Final = 1_000
# The number of topics or subscriptions that one SQL statement reads with all fields. This takes
# longer than to read some of their fields, so the number is smaller.
PAGE_WHOLE: Final = 200

T = TypeVar("T")
Key = tuple[str, ...]
"""The key by which resources are ordered: a topic's name, or a subscription's topic and name."""


@dataclass(frozen=True, slots=True)
class CatalogueKind(Generic[T]):
    """The kind of a list: topics or subscriptions. Says how they are read from the database."""

    row: Any
    key: tuple[Any, ...]
    columns: Columns
    of: Callable[[Any, Vault], T]


TOPICS: Final[CatalogueKind[Topic]] = CatalogueKind(
    TopicRow, (TopicRow.name,), TOPIC_COLUMNS, lambda row, _vault: topic_of(row)
)
SUBSCRIPTIONS: Final[CatalogueKind[Subscription]] = CatalogueKind(
    SubscriptionRow,
    (SubscriptionRow.topic, SubscriptionRow.name),
    SUBSCRIPTION_COLUMNS,
    subscription_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Within:
    """Says which part of all topics or subscriptions a list has. None means no condition.

    `home` is the name of a group (for topics) or of a topic (for subscriptions). `owner` is their
    owner. `where` is a further condition in SQL.
    """

    home: str | None = None
    owner: Owner | None = None
    where: ColumnElement[bool] | None = None


_EVERYWHERE: Final = Within()


class Catalogue(Generic[T]):
    """The list of all topics or subscriptions, or of the part `within`, ordered by their keys."""

    def __init__(
        self, session: AsyncSession, kind: CatalogueKind[T], *, within: Within = _EVERYWHERE
    ) -> None:
        self._session = session
        self._kind = kind
        self._within = within

    async def values(
        self, fields: Sequence[str], *, after: Key | None, limit: int
    ) -> Sequence[tuple[Key, Mapping[str, Any]]]:
        """Return the next items after the key `after`: their keys, and their values of `fields`.

        Each of these fields must have a column in the database.
        """
        columns = [self._kind.columns[name].sql for name in fields]
        page = self._next([*self._kind.key, *columns], after).limit(limit)
        rows = await self._session.execute(page)
        width = len(self._kind.key)
        return [
            (tuple(row[:width]), dict(zip(fields, row[width:], strict=True))) for row in rows.all()
        ]

    async def whole(self, *, after: Key | None, limit: int) -> Sequence[tuple[Key, T]]:
        """Return the next topics or subscriptions after the key `after`, with all fields."""
        rows = await self._session.scalars(self._next([self._kind.row], after).limit(limit))
        return await made_of(rows, self._keyed)

    async def named(self, keys: Sequence[Key]) -> Sequence[T]:
        """Return the topics or subscriptions with these keys, if they exist, ordered by key."""
        wanted = select(self._kind.row).where(tuple_(*self._kind.key).in_(keys))
        rows = await self._session.scalars(wanted.order_by(*self._kind.key))
        return [value for _, value in await made_of(rows, self._keyed)]

    def _next(self, columns: Sequence[Any], after: Key | None) -> Select[Any]:
        query, row, within = (
            select(*columns).order_by(*self._kind.key),
            self._kind.row,
            self._within,
        )
        if after is not None:
            query = query.where(tuple_(*self._kind.key) > tuple_(*after))
        if within.home is not None:
            query = query.where((row.group_name if row is TopicRow else row.topic) == within.home)
        if within.owner is not None:
            owner = within.owner
            query = query.where(row.owner_source == owner.source, row.owner_id == owner.id)
        return query if within.where is None else query.where(within.where)

    def _keyed(self, row: Any) -> tuple[Key, T]:  # noqa: ANN401 - a row of the kind
        key = tuple(getattr(row, column.key) for column in self._kind.key)
        return key, self._kind.of(row, vault_of(self._session))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicHit:
    """A topic that a search has found."""

    name: str
    owner_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionHit:
    """A subscription that a search has found. A mask replaces the password in its endpoint."""

    name: str
    topic: str
    endpoint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hits:
    """A page of the results of a search, and the total number of results.

    `after` is the key after which the next page begins; None if there are no more results.
    """

    topics: Sequence[TopicHit]
    subscriptions: Sequence[SubscriptionHit]
    total: int
    after: Key | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueCounts:
    """How many topics and subscriptions there are."""

    topics: int
    topics_ack_all: int
    topics_tracked: int
    topics_avro: int
    subscriptions: int
    subscriptions_tracked: int
    subscriptions_avro: int


class CatalogueSearch:
    """Finds topics and subscriptions that contain a text; counts topics and subscriptions."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def hits(self, text: str, *, limit: int, after: Key | None = None) -> Hits:
        """Find the topics and subscriptions whose name, owner id or endpoint contains `text`.

        Upper and lower case are equal. The result has at most `limit` items after the key `after`:
        first topics, then subscriptions.
        """
        row, other = TopicRow, SubscriptionRow
        # Return no topics if `after` is the key of a subscription. The pages before have had all
        # topics, because topics come first.
        behind, over = (None, after) if after and len(after) > 1 else (after, None)
        matching = select(row.name, row.owner_id).where(_topic_has(text))
        at_most = 0 if over else limit
        rows, many = await self._found(matching, ("name",), limit=at_most, behind=behind)
        topics = [TopicHit(name=each.name, owner_id=each.owner_id) for each in rows]
        others = select(other.topic, other.name, other.endpoint).where(_subscription_has(text))
        left = limit - len(topics)
        rows, more = await self._found(others, ("topic", "name"), limit=left, behind=over)
        subscriptions = [
            SubscriptionHit(name=each.name, topic=each.topic, endpoint=each.endpoint)
            for each in rows
        ]
        last: list[Key] = [(each.name,) for each in topics]
        last += [(each.topic, each.name) for each in subscriptions]
        return Hits(
            topics=topics,
            subscriptions=subscriptions,
            total=many + more,
            after=last[-1] if len(last) == limit else None,
        )

    async def _found(
        self,
        matching: Select[*tuple[Any, ...]],
        key: Sequence[str],
        *,
        limit: int,
        behind: Key | None,
    ) -> tuple[Sequence[Row[*tuple[Any, ...]]], int]:
        """Return at most `limit` matches after the key `behind`, and the number of all matches.

        The columns `key` give the order. One SQL statement finds the matches and their number, so
        that each row is checked only once.
        """
        found = matching.cte("found")
        order = [found.c[each] for each in key]
        some = select(found).order_by(*order).limit(limit)
        if behind is not None:
            some = some.where(tuple_(*order) > tuple_(*behind))
        shown = some.subquery()
        counted = select(func.count().label("total")).select_from(found).subquery()
        # Join the total number of matches with the matches of this page. So the statement returns
        # the total even if this page has no matches.
        both = select(counted.c.total, shown).select_from(counted.outerjoin(shown, true()))
        rows = (await self._session.execute(both.order_by(*(shown.c[each] for each in key)))).all()
        return [each for each in rows if each.name is not None], int(rows[0].total)

    async def counted(self) -> CatalogueCounts:
        """Return how many topics and subscriptions there are, in total and of some kinds."""
        topics = (await self._session.execute(_counts(TopicRow, ack="ALL"))).one()
        subscriptions = (await self._session.execute(_counts(SubscriptionRow))).one()
        return CatalogueCounts(
            topics=topics.all_of_them,
            topics_ack_all=topics.ack,
            topics_tracked=topics.tracked,
            topics_avro=topics.avro,
            subscriptions=subscriptions.all_of_them,
            subscriptions_tracked=subscriptions.tracked,
            subscriptions_avro=subscriptions.avro,
        )

    async def client_ids(self, topic: str) -> Sequence[str]:
        """Return the ids of all owners of the topic's subscriptions, each id once."""
        owners = select(SubscriptionRow.owner_id).where(SubscriptionRow.topic == topic).distinct()
        return list(await self._session.scalars(owners.order_by(SubscriptionRow.owner_id)))


def _topic_has(text: str) -> ColumnElement[bool]:
    row = TopicRow
    return or_(row.name.icontains(text, autoescape=True), _owner_has(row, text))


def _subscription_has(text: str) -> ColumnElement[bool]:
    row = SubscriptionRow
    return or_(
        row.name.icontains(text, autoescape=True),
        row.endpoint.icontains(text, autoescape=True),
        _owner_has(row, text),
    )


def _owner_has(row: type[TopicRow] | type[SubscriptionRow], text: str) -> Any:  # noqa: ANN401 - any expression of SQLAlchemy
    return row.owner_id.icontains(text, autoescape=True)


def _counts(
    row: type[TopicRow] | type[SubscriptionRow], *, ack: str = ""
) -> Select[int, int, int, int]:
    settings = row.settings
    off = TrackingMode.OFF.value
    return select(
        func.count().label("all_of_them"),
        func.count().filter(settings["ack"].astext == ack).label("ack"),
        func.count().filter(settings["tracking"].astext != off).label("tracked"),
        func.count().filter(settings["content_type"].astext == "AVRO").label("avro"),
    )
