"""A subscriber that is too slow, second by second: what is forecast, and what then happens."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest

from app.domain.catalogue.subscription import Subscription
from app.domain.catalogue.topic import Topic
from app.domain.delivery import Delivered, Outcome
from app.domain.health.alerts import Alert, AlertBook, AlertKind, Case, Limits, readings
from app.domain.health.evaluator import Seen
from app.domain.health.indicators import Thresholds
from app.domain.health.subscription_health import SubscriptionHealth
from app.domain.message import Message, NewRecord, Partition
from app.domain.status import CursorStatus
from app.services.catalogue.topics import log_topic
from app.services.health.collector import HealthCollector, KnownState
from tests.fakes.in_flight import InFlightRequest
from tests.fakes.worker import World, delivered
from workers.delivery.in_flight import ResponseListener

START = 1_700_000_000.0
PARTITIONS = 2
RETENTION = timedelta(seconds=45)
ARRIVING, CAPACITY = 20, 10
# So large that a worker has few of those that wait in its memory.
BODY = b"x" * 500_000
# A worker says what it did four times a second, however fast ours pass.
LOOK_EVERY = 5


@dataclass
class SlowEndpoints:
    """Takes as many messages as it is allowed to."""

    permits: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))

    def destination(self, _subscription: Subscription) -> "SlowEndpoints":
        return self

    def begin(
        self, message: Message, retry_count: int, listener: ResponseListener
    ) -> InFlightRequest:
        return InFlightRequest(lambda: self.attempt(message, retry_count=retry_count), listener)

    async def attempt(self, _message: Message, *, retry_count: int) -> Outcome:
        del retry_count
        await self.permits.acquire()
        return Delivered(status=200)

    def allow(self, count: int) -> None:
        for _ in range(count):
            self.permits.release()


@dataclass
class Clockwork:
    """A world whose time passes when it is told to, and a watch over it."""

    world: World
    endpoints: SlowEndpoints
    topic: Topic
    subscription: Subscription
    now: float = START
    taken: int = 0
    raised: dict[AlertKind, float] = field(default_factory=dict)
    active: list[Alert] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._collector = HealthCollector(self.world.log, Thresholds())
        self._book = AlertBook(lambda: f"a{len(self.active)}")

    async def pass_time(self) -> None:
        """All seconds until the next look at once."""
        at = int(self.now * 1000)
        spread = [at + each * 1000 // ARRIVING for each in range(LOOK_EVERY * ARRIVING)]
        records = [NewRecord(value=BODY, timestamp_ms=each) for each in spread]
        await self.world.log.append(self.topic.name, records)
        self.now += LOOK_EVERY
        self._retain()
        self.taken += LOOK_EVERY * CAPACITY
        self.endpoints.allow(LOOK_EVERY * CAPACITY)
        enough = self.taken
        await self.world.plane.until(lambda: delivered(self.world, self.subscription.id) >= enough)

    async def look(self) -> SubscriptionHealth:
        known = self._known()
        health_by_id = await self._collector.look(known)
        subscription_health = health_by_id[self.subscription.id]
        now = datetime.fromtimestamp(self.now, UTC)
        case = Case(subscription=self.subscription, subscription_health=subscription_health)
        read = [(self.subscription, list(readings(case, Limits(), now)))]
        told = self._book.changes(self.active, read, now)
        self.active += told.raised
        self.raised |= {alert.kind: self.now for alert in told.raised}
        return subscription_health

    @property
    def lost(self) -> int:
        """Messages that were passed without being delivered."""
        passed = sum(status.offset for status in self._statuses().values())
        return passed - delivered(self.world, self.subscription.id)

    def _known(self) -> KnownState:
        cursors = {index: Seen(each, self.now) for index, each in self._statuses().items()}
        return KnownState(
            now=self.now,
            topics={self.topic.name: self.topic},
            subscriptions={self.subscription.id: self.subscription},
            cursors={self.subscription.id: cursors},
            workers=frozenset({"w1"}),
            loads={},
            moved={self.subscription.id},
        )

    def _statuses(self) -> Mapping[int, CursorStatus]:
        return {place.index: each for (_, place), each in self.world.plane.statuses.items()}

    def _retain(self) -> None:
        """Drop what the log keeps no longer."""
        oldest = int((self.now - RETENTION.total_seconds()) * 1000)
        for index in range(PARTITIONS):
            records = self.world.memory.of(Partition(self.topic.name, index))
            kept = next((each.offset for each in records if each.timestamp_ms >= oldest), None)
            if kept is not None:
                self.world.memory.trim(Partition(self.topic.name, index), kept)


async def test_the_forecast_comes_true_and_the_alert_comes_before_the_first_loss() -> None:
    endpoints = SlowEndpoints()
    world = World(sender=endpoints)
    topic = await world.topic(partitions=PARTITIONS)
    topic = replace(topic, retention=RETENTION, message_size_max=len(BODY))
    await world.log.alter_topic(log_topic(topic))
    subscription = await world.subscribe(topic, in_flight_max=4)
    clockwork = Clockwork(world, endpoints, topic, subscription)
    forecasts: dict[float, float] = {}
    async with world.worker():
        await world.plane.until_applied()
        while not clockwork.lost:
            assert clockwork.now < START + 300, "nothing was lost"
            await clockwork.pass_time()
            if loss := (await clockwork.look()).first_loss:
                forecasts[clockwork.now] = loss.at.timestamp()
        first_loss = clockwork.now
        # So that the worker ends at once.
        endpoints.allow(ARRIVING * 1_000)
    assert clockwork.raised[AlertKind.LOSS_FORECAST] < first_loss - 40
    assert len(forecasts) > 10
    for at, forecast in forecasts.items():
        # To the second that it is looked at in, and what a worker has in its memory.
        assert forecast - at == pytest.approx(first_loss - at, rel=0.2, abs=LOOK_EVERY)
