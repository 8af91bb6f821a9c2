"""Looking through topics and subscriptions: queries, search, owners, counts."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from app.domain.owner import Owner
from app.domain.query import Query, paths_of
from app.domain.subscription import State, Subscription
from app.domain.topic import Topic
from app.filtering.queries import Read, compiled, reader
from app.services.applied import LIVE_WITHIN
from app.services.audit import Describe
from app.services.subscriptions import visible_state
from app.storage.catalogue import (
    PAGE,
    SUBSCRIPTIONS,
    TOPICS,
    Catalogue,
    CatalogueSearch,
    Counted,
    Hits,
    Key,
    Kind,
)
from app.storage.database import Database
from app.storage.groups import GroupRepository
from app.storage.topics import TopicRepository
from app.storage.workers import WorkerRepository

T = TypeVar("T")
Stated = tuple[Subscription, State]
"""A subscription with its visible state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """At most `limit` (None: all), those behind the key `after`; within a group or a topic."""

    limit: int | None = None
    after: Key | None = None
    within: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found(Generic[T]):
    """What was found, and the key to go on behind if there is more."""

    items: Sequence[T]
    after: Key | None = None


class _Asked(Generic[T]):
    """A query over one kind, and how what it looks at is read."""

    def __init__(self, kind: Kind[T], describe: Describe[T], query: Query) -> None:
        self.kind = kind
        self.query = query
        self._describe = describe
        paths = paths_of(query)
        self._columns = sorted(paths) if paths <= kind.fields.keys() else None

    async def some(self, catalogue: Catalogue[T], after: Key | None) -> Sequence[tuple[Key, Read]]:
        """The next ones, with what the query may read of them."""
        if self._columns is not None:
            rows = await catalogue.values(self._columns, after=after)
            return [(key, values.get) for key, values in rows]
        whole = await catalogue.whole(after=after)
        return [(key, reader(self._describe(each))) for key, each in whole]


class CatalogueService:
    """Looks through what there is. A query that only names columns reads no more than these."""

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
        """The groups for which it holds, by name; InvalidQueryError."""
        holds = compiled(query)
        async with self._database.transaction() as session:
            names = await GroupRepository(session).names()
        return [name for name in names if holds(reader({"groupName": name}))]

    async def topic_names(self, query: Query, *, group: str | None = None) -> Sequence[str]:
        """The topics for which it holds, by name; InvalidQueryError."""
        keys = await self._keys(self._of_topics(query), Page(within=group))
        return [name for (name,) in keys]

    async def topics(self, query: Query, page: Page) -> Found[Topic]:
        """The topics for which it holds; InvalidQueryError."""
        return await self._found(self._of_topics(query), page)

    async def subscription_names(self, topic: str, query: Query) -> Sequence[str]:
        """The topic's subscriptions for which it holds; TopicNotFoundError, InvalidQueryError."""
        async with self._database.transaction() as session:
            await TopicRepository(session).get(topic)
        keys = await self._keys(self._of_subscriptions(query), Page(within=topic))
        return [name for _, name in keys]

    async def subscriptions(self, query: Query, page: Page) -> Found[Stated]:
        """The subscriptions for which it holds; InvalidQueryError."""
        found = await self._found(self._of_subscriptions(query), page)
        return Found(items=await self._stated(found.items), after=found.after)

    async def topics_of(self, owner: Owner) -> Sequence[Topic]:
        """All that the owner has."""
        async with self._database.transaction() as session:
            return await Catalogue(session, TOPICS).owned_by(owner)

    async def subscriptions_of(self, owner: Owner) -> Sequence[Stated]:
        """All that the owner has."""
        async with self._database.transaction() as session:
            found = await Catalogue(session, SUBSCRIPTIONS).owned_by(owner)
        return await self._stated(found)

    async def search(self, text: str, *, limit: int) -> Hits:
        """What has `text`, in either case, in its name, its owner's id or its endpoint."""
        async with self._database.transaction() as session:
            return await CatalogueSearch(session).hits(text, limit=limit)

    async def counted(self) -> Counted:
        """How many topics and subscriptions there are, of all and of some kinds."""
        async with self._database.transaction() as session:
            return await CatalogueSearch(session).counted()

    async def clients(self, topic: str) -> Sequence[str]:
        """The ids of the owners of the topic's subscriptions, each once; TopicNotFoundError."""
        async with self._database.transaction() as session:
            await TopicRepository(session).get(topic)
            return await CatalogueSearch(session).client_ids(topic)

    def _of_topics(self, query: Query) -> _Asked[Topic]:
        return _Asked(TOPICS, self._topic, query)

    def _of_subscriptions(self, query: Query) -> _Asked[Subscription]:
        return _Asked(SUBSCRIPTIONS, self._subscription, query)

    async def _found(self, asked: _Asked[T], page: Page) -> Found[T]:
        keys = await self._keys(asked, page)
        more = page.limit is not None and len(keys) > page.limit
        shown = keys[: page.limit]
        items: list[T] = []
        for first in range(0, len(shown), PAGE):
            async with self._database.transaction() as session:
                items += await Catalogue(session, asked.kind).named(shown[first : first + PAGE])
        return Found(items=items, after=shown[-1] if more else None)

    async def _keys(self, asked: _Asked[T], page: Page) -> Sequence[Key]:
        """Of those that it holds for: all, or one more than the page takes."""
        keys: list[Key] = []
        async for matching in self._matching(asked, page):
            keys += matching
            if page.limit is not None and len(keys) > page.limit:
                return keys[: page.limit + 1]
        return keys

    async def _matching(self, asked: _Asked[T], page: Page) -> AsyncIterator[Sequence[Key]]:
        holds, after = compiled(asked.query), page.after
        while True:
            async with self._database.transaction() as session:
                some = await asked.some(Catalogue(session, asked.kind, within=page.within), after)
            yield [key for key, read in some if holds(read)]
            if not some:
                return
            after = some[-1][0]

    async def _stated(self, found: Sequence[Subscription]) -> Sequence[Stated]:
        async with self._database.transaction() as session:
            workers = await WorkerRepository(session).live(LIVE_WITHIN)
        applied = max((worker.applied_change for worker in workers), default=-1)
        return [(each, visible_state(each, taken_up=applied >= each.change)) for each in found]
