"""Lists of topics and subscriptions: queries, search, owners, counts."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from app.domain.catalogue.query import Query, paths_of
from app.domain.catalogue.subscription import State, Subscription
from app.domain.catalogue.topic import Topic
from app.domain.owner import Owner
from app.domain.paging import ALL_KEYS, KeyPage
from app.filtering.queries import Holds, Read, compiled, reader
from app.services.access.audit import Describe
from app.services.catalogue.subscriptions import visible_state
from app.storage.catalogue.conditions import narrowed
from app.storage.catalogue.groups import GroupRepository
from app.storage.catalogue.listings import (
    PAGE,
    PAGE_WHOLE,
    SUBSCRIPTIONS,
    TOPICS,
    Catalogue,
    CatalogueCounts,
    CatalogueKind,
    CatalogueSearch,
    Hits,
    Key,
    Within,
)
from app.storage.catalogue.topics import TopicRepository
from app.storage.database import Database
from app.storage.health.workers import WorkerRepository
from app.storage.slices import made_of

T = TypeVar("T")
Stated = tuple[Subscription, State]
"""A subscription with the state that users see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A requested page: at most `limit` items after the key `after`; all if `limit` is None.

    `within` is the name of a group (for topics) or of a topic (for subscriptions), or None.
    """

    limit: int | None = None
    after: Key | None = None
    within: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPage(Generic[T]):
    """The found items. If there may be more, `after` is the key after which to continue."""

    items: Sequence[T]
    after: Key | None = None


class _Requested(Generic[T]):
    """A query over topics or subscriptions, and the fields that the query uses."""

    def __init__(self, kind: CatalogueKind[T], describe: Describe[T], query: Query) -> None:
        self.kind = kind
        holds = compiled(query)
        self.narrowed = narrowed(query, kind.columns)
        # Accept every item that the database returns, if the database can check the whole query.
        # Otherwise the query is checked again in Python.
        self.holds: Holds = (lambda _: True) if self.narrowed.exact else holds
        self._describe = describe
        looked_at = frozenset[str]() if self.narrowed.exact else paths_of(query)
        self._columns = sorted(looked_at) if looked_at <= kind.columns.keys() else None
        self.at_once = PAGE_WHOLE if self._columns is None else PAGE

    def within(self, home: str | None) -> Within:
        """Return which items the database reads for the query.

        These items are in the group or topic `home` (None: anywhere). They also meet the part of
        the query that the database can check.
        """
        return Within(home=home, where=self.narrowed.where)

    async def some(
        self, catalogue: Catalogue[T], after: Key | None, limit: int
    ) -> Sequence[tuple[Key, Read]]:
        """Return the next items after the key `after` that may match the query.

        If all fields that the query uses have columns, only these columns are read.
        """
        if self._columns is not None:
            rows = await catalogue.values(self._columns, after=after, limit=limit)
            return [(key, values.get) for key, values in rows]
        whole = await catalogue.whole(after=after, limit=limit)
        return await made_of(whole, lambda each: (each[0], reader(self._describe(each[1]))))


class CatalogueService:
    """Lists topics and subscriptions.

    If all fields that a query uses have columns in the database, only these columns are read to
    check the query.
    """

    def __init__(
        self,
        database: Database,
        *,
        topic: Describe[Topic],
        subscription: Describe[Subscription],
    ) -> None:
        self._database = database
        self._topic = topic
        self._subscription = subscription

    async def groups(self, query: Query) -> Sequence[str]:
        """Return the names of the groups that match the query, in alphabetical order.

        Raises:
            InvalidQueryError: The query is not valid.
        """
        holds = compiled(query)
        async with self._database.transaction() as session:
            names = await GroupRepository(session).names()
        return [name for name in names if holds(reader({"groupName": name}))]

    async def topic_names(self, query: Query, *, group: str | None = None) -> Sequence[str]:
        """Return the names of the topics that match the query, in alphabetical order.

        Raises:
            InvalidQueryError: The query is not valid.
        """
        keys = await self._keys(self._of_topics(query), Page(within=group))
        return [name for (name,) in keys]

    async def topics(self, query: Query, page: Page) -> FoundPage[Topic]:
        """Return the page of the topics that match the query.

        Raises:
            InvalidQueryError: The query is not valid.
        """
        return await self._found(self._of_topics(query), page)

    async def subscription_names(self, topic: str, query: Query) -> Sequence[str]:
        """Return the names of the topic's subscriptions that match the query.

        Raises:
            TopicNotFoundError: The topic does not exist.
            InvalidQueryError: The query is not valid.
        """
        async with self._database.transaction() as session:
            await TopicRepository(session).get(topic)
        keys = await self._keys(self._of_subscriptions(query), Page(within=topic))
        return [name for _, name in keys]

    async def subscriptions(self, query: Query, page: Page) -> FoundPage[Stated]:
        """Return the page of the subscriptions that match the query, with the state of each.

        Raises:
            InvalidQueryError: The query is not valid.
        """
        found = await self._found(self._of_subscriptions(query), page)
        return FoundPage(items=await self._stated(found.items), after=found.after)

    async def topics_of(self, owner: Owner, page: KeyPage = ALL_KEYS) -> FoundPage[Topic]:
        """Return the topics of the owner."""
        return await self._owned(TOPICS, owner, page)

    async def subscriptions_of(self, owner: Owner, page: KeyPage = ALL_KEYS) -> FoundPage[Stated]:
        """Return the subscriptions of the owner."""
        found = await self._owned(SUBSCRIPTIONS, owner, page)
        return FoundPage(items=await self._stated(found.items), after=found.after)

    async def search(self, text: str, *, limit: int, after: Key | None = None) -> Hits:
        """Find the topics and subscriptions whose name, owner id or endpoint contains `text`.

        Upper and lower case are equal.
        """
        async with self._database.transaction() as session:
            return await CatalogueSearch(session).hits(text, limit=limit, after=after)

    async def counted(self) -> CatalogueCounts:
        """Return how many topics and subscriptions there are, in total and of some kinds."""
        async with self._database.transaction() as session:
            return await CatalogueSearch(session).counted()

    async def clients(self, topic: str) -> Sequence[str]:
        """Return the ids of the owners of the topic's subscriptions, each id once.

        Raises:
            TopicNotFoundError: The topic does not exist.
        """
        async with self._database.transaction() as session:
            await TopicRepository(session).get(topic)
            return await CatalogueSearch(session).client_ids(topic)

    def _of_topics(self, query: Query) -> _Requested[Topic]:
        return _Requested(TOPICS, self._topic, query)

    def _of_subscriptions(self, query: Query) -> _Requested[Subscription]:
        return _Requested(SUBSCRIPTIONS, self._subscription, query)

    async def _found(self, requested: _Requested[T], page: Page) -> FoundPage[T]:
        if requested.narrowed.exact:
            return await self._read(requested.kind, requested.within(page.within), page)
        keys = await self._keys(requested, page)
        more = page.limit is not None and len(keys) > page.limit
        shown = keys[: page.limit]
        items: list[T] = []
        for first in range(0, len(shown), PAGE_WHOLE):
            some = shown[first : first + PAGE_WHOLE]
            async with self._database.transaction() as session:
                items += await Catalogue(session, requested.kind).named(some)
        return FoundPage(items=items, after=shown[-1] if more else None)

    async def _owned(self, kind: CatalogueKind[T], owner: Owner, page: KeyPage) -> FoundPage[T]:
        return await self._read(kind, Within(owner=owner), Page(limit=page.limit, after=page.after))

    async def _read(self, kind: CatalogueKind[T], within: Within, page: Page) -> FoundPage[T]:
        """Return a page of the topics or subscriptions that are in the part `within`."""
        found: list[tuple[Key, T]] = []
        async for each in self._whole(kind, within, page):
            if len(found) == page.limit:
                return FoundPage(items=[value for _, value in found], after=found[-1][0])
            found.append(each)
        return FoundPage(items=[value for _, value in found])

    async def _keys(self, requested: _Requested[T], page: Page) -> Sequence[Key]:
        """Return the keys of the items that match: at most one more than the page can have."""
        keys: list[Key] = []
        async for matching in self._matching(requested, page):
            keys += matching
            if page.limit is not None and len(keys) > page.limit:
                return keys[: page.limit + 1]
        return keys

    async def _matching(self, requested: _Requested[T], page: Page) -> AsyncIterator[Sequence[Key]]:
        after, limit = page.after, requested.at_once
        if requested.narrowed.exact and page.limit is not None:
            limit = min(limit, page.limit + 1)
        while True:
            async with self._database.transaction() as session:
                catalogue = Catalogue(session, requested.kind, within=requested.within(page.within))
                some = await requested.some(catalogue, after, limit)
            yield [key for key, read in some if requested.holds(read)]
            if len(some) < limit:
                return
            after = some[-1][0]

    async def _whole(
        self, kind: CatalogueKind[T], within: Within, page: Page
    ) -> AsyncIterator[tuple[Key, T]]:
        """Yield the items after the key `page.after`. They are read in steps, when needed."""
        after = page.after
        limit = PAGE_WHOLE if page.limit is None else min(PAGE_WHOLE, page.limit + 1)
        while True:
            async with self._database.transaction() as session:
                catalogue = Catalogue(session, kind, within=within)
                some = await catalogue.whole(after=after, limit=limit)
            for each in some:
                yield each
            if len(some) < limit:
                return
            after = some[-1][0]

    async def _stated(self, found: Sequence[Subscription]) -> Sequence[Stated]:
        async with self._database.transaction() as session:
            applied = await WorkerRepository(session).applied()
        return [(each, visible_state(each, taken_up=applied >= each.change)) for each in found]
