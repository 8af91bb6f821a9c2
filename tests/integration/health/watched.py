"""Watches on a real database, and a log in memory."""

import json
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sqlalchemy import text

from app.domain.catalogue.subscription import State, Subscription
from app.domain.catalogue.topic import Topic
from app.domain.message import NewRecord, Partition
from app.domain.status import AttemptCounts, CursorStatus, SubscriptionLoad
from app.domain.streams import ALERTS
from app.log.interface import Bounds
from app.services.catalogue.topics import TopicService, log_topic
from app.services.health.announcements import Announcer
from app.services.health.monitor import HealthMonitor, HealthMonitorSettings
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.catalogue.topics import TopicRepository
from app.storage.database import Database
from tests.fakes.memory_log import MemoryLog
from tests.integration.storage.builders import (
    a_cursor,
    a_load,
    a_worker,
    add_subscription,
    beat,
    report,
)

EVERY = timedelta(seconds=5)
FAILING = AttemptCounts(codes_5xx=600, codes_2xx=10)


async def _nobody_publishes_here() -> None:
    """No directory is to be refreshed."""


class InterruptedLog(MemoryLog):
    """Something happens while it is asked for the ends of partitions."""

    in_next_bounds: Callable[[], Awaitable[None]] | None = None

    async def bounds(self, partitions: Collection[Partition]) -> Mapping[Partition, Bounds]:
        happens, self.in_next_bounds = self.in_next_bounds, None
        if happens is not None:
            await happens()
        return await super().bounds(partitions)


@dataclass
class Watched:
    """Subscriptions of one topic, what is reported of them, and what is announced."""

    database: Database
    log: InterruptedLog = field(default_factory=InterruptedLog)

    def announcer(self) -> Announcer:
        topics = TopicService(
            self.database,
            self.log,
            take_in=_nobody_publishes_here,
            describe=lambda topic: {"name": topic.name},
        )
        return Announcer(self.database, self.log, topics)

    def monitor(self) -> HealthMonitor:
        settings = HealthMonitorSettings(every=EVERY)
        return HealthMonitor(self.database, self.log, self.announcer(), settings=settings)

    async def subscription(self, name: str = "billing") -> Subscription:
        added = await add_subscription(self.database, name)
        await self.log.create_topic(log_topic(Topic(name=added.topic)))
        return added

    async def add(self, subscription: Subscription) -> Subscription:
        async with self.database.transaction() as session:
            return await SubscriptionRepository(session).add(subscription)

    async def forget_announcements(self) -> None:
        """As if the process had died before it noted that something was announced."""
        async with self.database.transaction() as session:
            await session.execute(text("UPDATE alerts SET announced = 0"))

    async def set_state(self, subscription: Subscription, state: State, reason: str = "") -> None:
        async with self.database.transaction() as session:
            subscriptions = SubscriptionRepository(session)
            current = await subscriptions.get(subscription.topic, subscription.name)
            await subscriptions.update(current.in_state(state, reason=reason))

    async def delete(self, subscription: Subscription) -> None:
        async with self.database.transaction() as session:
            await SubscriptionRepository(session).delete(subscription.topic, subscription.name)

    async def change_topic(self, topic: Topic) -> None:
        async with self.database.transaction() as session:
            await TopicRepository(session).update(topic)

    async def report(
        self,
        subscription: Subscription,
        *cursors: CursorStatus,
        **load: Any,  # noqa: ANN401 - fields of the value
    ) -> None:
        reported: SubscriptionLoad = a_load(subscription.id, **load)
        await beat(self.database, a_worker())
        await report(self.database, reported, cursors=cursors)

    async def published(self, topic: str, count: int, *, ago: timedelta) -> None:
        at = time.time_ns() // 1_000_000 - ago // timedelta(milliseconds=1)
        records = [NewRecord(value=b"{}", timestamp_ms=at + each) for each in range(count)]
        await self.log.append(topic, records)

    def announced(self) -> list[dict[str, Any]]:
        if ALERTS not in self.log.topics:
            return []
        return [json.loads(record.value or b"") for record in self.log.records(ALERTS)]

    def told(self) -> list[tuple[str, str]]:
        """What was announced, each by its kind and state."""
        return [(event["data"]["kind"], event["data"]["state"]) for event in self.announced()]


def at_start(subscription: Subscription, partition: int = 0, **numbers: Any) -> CursorStatus:  # noqa: ANN401 - fields of the value
    """A cursor that has taken nothing."""
    nothing = dict.fromkeys(("offset", "end", "delivered", "discarded", "volume", "position"), 0)
    return a_cursor(subscription.id, partition, **{**nothing, **numbers})
