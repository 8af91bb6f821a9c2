"""Many topics and subscriptions at once: over the API each would wait for the one before."""

from asyncio import Semaphore, TaskGroup
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final, Self

from sqlalchemy import func, insert, select

from app.config import Settings
from app.domain.catalogue.subscription import Subscription
from app.domain.catalogue.topic import Topic
from app.domain.commit import initial_metadata
from app.domain.message import NewRecord, Partition
from app.log.factory import open_log
from app.log.interface import Committed, MessageLog
from app.services.catalogue.topics import log_topic
from app.storage.catalogue.changes import ChangeFeed
from app.storage.catalogue.groups import GroupRepository
from app.storage.catalogue.rows import subscription_values
from app.storage.catalogue.topics import TopicRepository
from app.storage.database import Database, open_database
from app.storage.sealing import vault_of
from app.storage.tables import CursorRow, SubscriptionRow

GROUP: Final = "bench"
TOPICS_AT_ONCE: Final = 8
# As many as are stored and committed in one go.
PER_GO: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """So many subscriptions, evenly over so many topics."""

    topics: int
    subscriptions: int
    partitions: int = 4

    @property
    def cursors(self) -> int:
        """A subscription has one in each partition of its topic."""
        return self.subscriptions * self.partitions

    def topic(self, number: int) -> str:
        """The topic of the subscription of that number."""
        return f"{GROUP}.t{number % self.topics}"


class Backstage:
    """The database and the log of a service, past its API."""

    def __init__(self, database: Database, log: MessageLog) -> None:
        self._database = database
        self._log = log

    @classmethod
    @asynccontextmanager
    async def of(cls, configuration: Mapping[str, str]) -> AsyncIterator[Self]:
        """Those of a service with that configuration."""
        settings = Settings.model_validate(
            {name.removeprefix("ANGELIA_").lower(): text for name, text in configuration.items()}
        )
        url = configuration["ANGELIA_DATABASE_URL"]
        async with AsyncExitStack() as stack:
            database = await stack.enter_async_context(open_database(url))
            log = await stack.enter_async_context(open_log(settings, database_url=url))
            yield cls(database, log)

    async def populate(self, population: Population, endpoint: str) -> None:
        """Make all of it; no worker may be running."""
        topics = [
            Topic(name=population.topic(number), partitions=population.partitions)
            for number in range(population.topics)
        ]
        async with self._database.transaction() as session:
            await GroupRepository(session).add(GROUP)
            for topic in topics:
                await TopicRepository(session).add(topic)
        await self._make(topics)
        for first in range(0, population.subscriptions, PER_GO):
            numbers = range(first, min(first + PER_GO, population.subscriptions))
            await self._subscribe([a_subscription(population, n, endpoint) for n in numbers])

    async def cursors(self) -> int:
        """How many cursors workers have reported."""
        async with self._database.transaction() as session:
            return await session.scalar(select(func.count()).select_from(CursorRow)) or 0

    async def publish(self, topic: str, body: bytes) -> None:
        """Publish one message."""
        await self._log.append(topic, [NewRecord(value=body, key=None)])

    async def _make(self, topics: Sequence[Topic]) -> None:
        at_once = Semaphore(TOPICS_AT_ONCE)

        async def make(topic: Topic) -> None:
            async with at_once:
                await self._log.create_topic(log_topic(topic))

        async with TaskGroup() as tasks:
            for topic in topics:
                tasks.create_task(make(topic))

    async def _subscribe(self, subscriptions: Sequence[Subscription]) -> None:
        async with self._database.transaction() as session:
            change = await ChangeFeed(session).next_number()
            rows = [
                {
                    "id": each.id,
                    "topic": each.topic,
                    "name": each.name,
                    "change": change,
                    **subscription_values(each, vault_of(session)),
                }
                for each in subscriptions
            ]
            # One by one, as a repository adds them, they would take longer than a transaction may.
            await session.execute(insert(SubscriptionRow), rows)
        # The topics are new and empty.
        starts = {
            each.group: {
                Partition(each.topic, index): Committed(offset, initial_metadata(each.id))
                for index, offset in each.start.items()
            }
            for each in subscriptions
        }
        failed = await self._log.commit(starts)
        assert not failed, failed


def a_subscription(population: Population, number: int, endpoint: str) -> Subscription:
    """The subscription of that number, with the settings that it has by default."""
    return Subscription(
        id=f"{number:032x}",
        topic=population.topic(number),
        name=f"s{number}",
        endpoint=endpoint,
        start=dict.fromkeys(range(population.partitions), 0),
    )
