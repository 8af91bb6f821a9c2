"""The directory: looks up topics and their subscriptions for publishing, mostly in memory."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from time import monotonic
from typing import Final

from app.domain.catalogue.changes import NO_CHANGE, Changes
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
    """The topics that this process knows, by name, and their subscriptions.

    A known topic is found without waiting, even if the database is down. An unknown name is looked
    up in the database, with at most LOOK_UPS_MAX look-ups at once. The directory remembers for
    ABSENT_FOR that a topic does not exist (for at most ABSENT_MAX names). So publishers to missing
    topics cannot overload the database. The function `deleted` is called with the name of each
    deleted topic, even if the topic was created again.
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
        self.last = NO_CHANGE

    def known(self, name: str) -> Topic | None:
        """Return the topic, if it is in memory."""
        return self._topics.get(name)

    def subscriptions(self, name: str) -> int:
        """Return the number of the topic's subscriptions, also suspended ones, as last known."""
        return self._subscribers.count(name)

    def is_routable(self, name: str) -> bool:
        """Whether the topic has an active subscription, as last known."""
        return self._subscribers.some_active(name)

    def takes_all(self, name: str) -> bool:
        """Whether an active subscription of the topic has no filters, as last known."""
        return self._subscribers.some_unfiltered(name)

    def subscribers(self, name: str) -> Mapping[str, TopicSubscriber]:
        """Return the topic's subscriptions by id, as last known."""
        return self._subscribers.of(name)

    def all(self) -> list[Topic]:
        """Return the topics in memory."""
        return list(self._topics.values())

    def deduplicated(self) -> list[Topic]:
        """Return the topics in memory that have deduplication."""
        return [topic for topic in self._topics.values() if topic.deduplication]

    def with_schemas(self) -> list[Topic]:
        """Return the topics in memory with a schema."""
        return [topic for topic in self._topics.values() if topic.schema]

    async def get(self, name: str) -> Topic:
        """Return the topic.

        Raises:
            TopicNotFoundError: The topic does not exist.
            StorageUnavailableError: The topic is not in memory, and the database does not respond
                in time.
        """
        return self._topics.get(name) or await self._looked_up(name)

    def apply(self, changes: Changes) -> None:
        """Apply changes of topics and subscriptions. Older states of a known topic are skipped."""
        changes = changes.with_deletions(self._topics, self._subscribers.ids)
        for topic in changes.topics:
            self._learn(topic, is_current=changes.is_complete)
        for name in changes.deleted_topics:
            self._topics.pop(name, None)
            self._gone(name)
        self._subscribers.apply(changes)
        self.last = changes.last

    def forget(self, topic: Topic) -> None:
        """Remove a topic that no longer exists from memory. The next `get` looks up its name."""
        if self._topics.get(topic.name) is topic:
            del self._topics[topic.name]
            self._gone(topic.name)

    def _gone(self, name: str) -> None:
        if self._deleted is not None:
            self._deleted(name)

    def _learn(self, topic: Topic, *, is_current: bool = False) -> None:
        known = self._topics.get(topic.name)
        if known is None or is_current or known.change <= topic.change:
            self._topics[topic.name] = topic
            if known is not None and known.created_at != topic.created_at:
                # Report that the old topic was deleted. The topic was deleted and created again
                # between two reads of the database.
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
        # Check again whether the topic is known. Another call may have looked up the same name
        # while this call waited.
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
