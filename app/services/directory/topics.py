"""Topics and who subscribes to them, in memory: what publishing knows without the database."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from time import monotonic
from typing import Final

from app.domain.catalogue.changes import Changes
from app.domain.catalogue.topic import Topic
from app.domain.errors import StorageUnavailableError, TopicNotFoundError
from app.services.directory.subscribers import Subscribers, TopicSubscriber

ABSENT_FOR: Final = timedelta(seconds=1)
ABSENT_MAX: Final = 10_000
LOOK_UPS_MAX: Final = 8
LOOK_UP_TIMEOUT: Final = timedelta(seconds=1)

Clock = Callable[[], float]
LookUp = Callable[[str], Awaitable[Topic]]


class TopicDirectory:
    """Topics by name: fed by the change feed, and by a look-up for a name it does not know.

    A known topic is found without waiting, whether the database answers or not. An unknown name is
    looked up, at most LOOK_UPS_MAX at once, and its absence remembered for ABSENT_FOR (for at most
    ABSENT_MAX names), so that publishers to topics that do not exist cannot load the database.
    `deleted` hears of each topic that is gone, also where another one of its name is there.
    """

    def __init__(
        self,
        look_up: LookUp,
        *,
        clock: Clock = monotonic,
        look_up_timeout: timedelta = LOOK_UP_TIMEOUT,
        deleted: Callable[[str], None] | None = None,
    ) -> None:
        self._look_up = look_up
        self._deleted = deleted
        self._look_up_timeout = look_up_timeout.total_seconds()
        self._clock = clock
        self._topics: dict[str, Topic] = {}
        self._absent: dict[str, float] = {}
        self._subscribers = Subscribers()
        self._free = asyncio.Semaphore(LOOK_UPS_MAX)
        self.number = 0

    def known(self, name: str) -> Topic | None:
        """The topic, if it is in memory."""
        return self._topics.get(name)

    def subscriptions(self, name: str) -> int:
        """How many subscriptions the topic has, suspended ones too, as the feed said last."""
        return self._subscribers.count(name)

    def is_routable(self, name: str) -> bool:
        """Whether the topic has an active subscription, as the feed said last."""
        return self._subscribers.some_active(name)

    def takes_all(self, name: str) -> bool:
        """Whether an active subscription of the topic has no filters, as the feed said last."""
        return self._subscribers.some_unfiltered(name)

    def subscribers(self, name: str) -> Mapping[str, TopicSubscriber]:
        """The topic's subscriptions by id, as the feed said last."""
        return self._subscribers.of(name)

    def all(self) -> list[Topic]:
        """The topics in memory."""
        return list(self._topics.values())

    def deduplicated(self) -> list[Topic]:
        """The topics in memory that have an idempotent filter."""
        return [topic for topic in self._topics.values() if topic.deduplication]

    def with_schemas(self) -> list[Topic]:
        """The topics in memory that have a schema."""
        return [topic for topic in self._topics.values() if topic.schema]

    async def get(self, name: str) -> Topic:
        """The topic; TopicNotFoundError.

        StorageUnavailableError when it is not known here and the database does not answer within
        its time limit.
        """
        return self._topics.get(name) or await self._looked_up(name)

    def apply(self, changes: Changes) -> None:
        """Take in what changed. Changes older than what is known of a topic are passed over."""
        for topic in changes.topics:
            self._learn(topic)
        for name in changes.deleted_topics:
            self._topics.pop(name, None)
            self._gone(name)
        self._subscribers.apply(changes)
        self.number = max(self.number, changes.number)

    def forget(self, topic: Topic) -> None:
        """Drop a topic that turned out not to exist; the next `get` looks it up."""
        if self._topics.get(topic.name) is topic:
            del self._topics[topic.name]
            self._gone(topic.name)

    def _gone(self, name: str) -> None:
        if self._deleted is not None:
            self._deleted(name)

    def _learn(self, topic: Topic) -> None:
        known = self._topics.get(topic.name)
        if known is None or known.change <= topic.change:
            self._topics[topic.name] = topic
            if known is not None and known.created_at != topic.created_at:
                # It was deleted, and made anew, between two looks.
                self._gone(topic.name)
        self._absent.pop(topic.name, None)

    async def _looked_up(self, name: str) -> Topic:
        try:
            async with asyncio.timeout(self._look_up_timeout), self._free:
                return await self._look_up_once(name)
        except TimeoutError as exc:
            message = "The database did not answer in time"
            raise StorageUnavailableError(message) from exc

    async def _look_up_once(self, name: str) -> Topic:
        # Others may have asked for the same name while this one waited for its turn.
        if topic := self._topics.get(name):
            return topic
        if self._absent.get(name, 0.0) > self._clock():
            raise _no_topic(name)
        try:
            topic = await self._look_up(name)
        except TopicNotFoundError:
            self._remember_absent(name)
            raise
        self._learn(topic)
        return topic

    def _remember_absent(self, name: str) -> None:
        if len(self._absent) >= ABSENT_MAX:
            self._absent.clear()
        self._absent[name] = self._clock() + ABSENT_FOR.total_seconds()


def _no_topic(name: str) -> TopicNotFoundError:
    return TopicNotFoundError(f"Topic not found: {name}")
