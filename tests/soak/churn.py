"""What operators and subscribers do all the time: nothing is left alone for long.

Each operator repeats one thing, with pauses drawn from a seed. So what is created is deleted, and
nothing becomes more: what grows is the service's own.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final

from tests.benchmarks import pace
from tests.soak.account import SubscriptionAccount, TopicAccount
from tests.soak.catalogue import Catalogue
from tests.soak.endpoints import MOODS, Endpoint
from tests.soak.publishing import ANSWER_WITHIN_S

TOPICS: Final = 8
SUBSCRIPTIONS_OF_EACH: Final = 3
# A topic and a subscription that are created live for about so long.
LIVE_S: Final = 60.0
PAUSE_S: Final = 5.0
MOOD_S: Final = 20.0
SUSPENDED_S: Final = 10.0
# Tried by turns. None changes which messages a subscription gets.
EDITS: Final[tuple[dict[str, Any], ...]] = (
    {"subscriptionPolicy": {"rate": 5_000, "inflightSize": 50}},
    {"subscriptionPolicy": {"rate": 10_000, "inflightSize": 100}},
    {"subscriptionPolicy": {"messageBackoff": 200}},
    {"subscriptionPolicy": {"messageBackoff": 1_000}},
    {"ordering": "KEY"},
    {"ordering": "NONE"},
    {"trackingMode": "trackingAll"},
    {"trackingMode": "trackingOff"},
    {"filters": [{"type": "jsonpath", "path": "$.n", "matcher": "[0-9]+"}]},
    {"filters": []},
    {"description": "edited"},
)
TOPIC_EDITS: Final[tuple[dict[str, Any], ...]] = (
    {"description": "edited"},
    {"retentionTime": {"duration": 2}},
    {"retentionTime": {"duration": 1}},
    {"trackingEnabled": False},
    {"trackingEnabled": True},
)


@dataclass(slots=True)
class Churn:
    """All operators. `done` counts what they did."""

    catalogue: Catalogue
    random: Random
    steady: list[Endpoint] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)

    async def begin(self) -> None:
        """Create the topics and subscriptions that stay, and publish to them."""
        for _ in range(TOPICS):
            topic = await self.catalogue.create_topic()
            for number in range(SUBSCRIPTIONS_OF_EACH):
                self.steady.append(await self.catalogue.subscribe(topic, refuses_some=number == 0))
            self.catalogue.publisher.topics.append(topic)

    async def run(self) -> None:
        """Do all that, until cancelled; a last call is not cut off by an error of another."""
        operators: tuple[Callable[[], Awaitable[None]], ...] = (
            self._live_topic,
            self._live_topic,
            self._live_subscription,
            self._live_subscription,
            self._edit,
            self._edit_topic,
            self._suspend,
            self._move,
            self._upset,
            self._upset,
        )
        async with asyncio.TaskGroup() as tasks:
            for each in operators:
                tasks.create_task(self._repeat(each))

    async def _repeat(self, operator: Callable[[], Awaitable[None]]) -> None:
        while True:
            await operator()
            self.done[operator.__name__.strip("_")] += 1
            await self._pause(PAUSE_S)

    async def _pause(self, about_s: float) -> None:
        await pace.until(time.monotonic() + about_s * self.random.uniform(0.5, 1.5))

    async def _live_topic(self) -> None:
        """A topic with two subscriptions is created, used and deleted."""
        topic = await self.catalogue.create_topic()
        for _ in range(2):
            await self.catalogue.subscribe(topic)
        self.catalogue.publisher.topics.append(topic)
        await self._pause(LIVE_S)
        await self.catalogue.delete_topic(topic)

    async def _live_subscription(self) -> None:
        """A subscription of a topic that stays is created, used and deleted."""
        endpoint = await self.catalogue.subscribe(self._topic())
        await self._pause(LIVE_S)
        await self.catalogue.unsubscribe(endpoint.account)

    async def _edit(self) -> None:
        """A setting of a subscription is changed."""
        await self.catalogue.ask("PUT", self._account().path, self.random.choice(EDITS))

    async def _edit_topic(self) -> None:
        """A setting of a topic is changed."""
        edit = self.random.choice(TOPIC_EDITS)
        await self.catalogue.ask("PUT", f"/topics/{self._topic().name}", edit)

    async def _suspend(self) -> None:
        """A subscription is suspended for a while."""
        state = f"{self._account().path}/state"
        await self.catalogue.ask("PUT", state, "SUSPENDED")
        await self._pause(SUSPENDED_S)
        await self.catalogue.ask("PUT", state, "ACTIVE")

    async def _move(self) -> None:
        """A subscription is moved back by some seconds, so that it gets these messages again.

        One that lags would be moved forward, and miss what lies in between.
        """
        account = self._account()
        if account.missing():
            await self.catalogue.read_list(account)
        if account.missing():
            return
        # What is older and not acknowledged yet never will be.
        then = datetime.now(UTC) - timedelta(seconds=ANSWER_WITHIN_S)
        back = {"retransmissionDate": f"{then:%Y-%m-%dT%H:%M:%SZ}"}
        await self.catalogue.ask("PUT", f"{account.path}/retransmission", back)

    async def _upset(self) -> None:
        """An endpoint is not well for a while, and recovers."""
        endpoint = self.random.choice(self.steady)
        endpoint.mood = self.random.choice(list(MOODS))
        await self._pause(MOOD_S)
        endpoint.mood = ""

    def _topic(self) -> TopicAccount:
        return self._account().topic

    def _account(self) -> SubscriptionAccount:
        return self.random.choice(self.steady).account

    async def end(self) -> None:
        """All endpoints recover, and nothing stays suspended."""
        for endpoint in self.steady:
            endpoint.mood = ""
            await self.catalogue.ask("PUT", f"{endpoint.account.path}/state", "ACTIVE")
