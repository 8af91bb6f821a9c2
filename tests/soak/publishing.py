"""Publishes at a steady rate, whatever the answers, to the topics that are there."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Final

import httpx

from tests.benchmarks import pace
from tests.fakes.egress import LOOPBACK
from tests.soak.account import TopicAccount
from workers.transport.transport import DeliveryTransport

# No more than so many messages wait for their answers. Only then the rate depends on the answers.
UNANSWERED_MAX: Final = 500
ANSWER_WITHIN_S: Final = 20.0
FILLER: Final = b"x" * 600
BEGIN_RATE: Final = 50.0
# The rate follows what was measured by at most this factor at a time.
FACTOR_MAX: Final = 2.0


@dataclass(slots=True)
class Publisher:
    """Who publishes: so many messages a second, to each topic in turn."""

    url: str
    rate: float
    topics: list[TopicAccount] = field(default_factory=list)
    acknowledged: int = 0
    failed: int = 0
    unanswered: int = 0

    @asynccontextmanager
    async def publishing(self) -> AsyncIterator[None]:
        """Publish inside the block. All that was sent is answered when it ends."""
        async with (
            httpx.AsyncClient(
                base_url=self.url,
                transport=DeliveryTransport(egress=LOOPBACK),
                timeout=ANSWER_WITHIN_S,
            ) as http,
            asyncio.TaskGroup() as tasks,
        ):
            endless = tasks.create_task(self._publish_all(http, tasks))
            try:
                yield
            finally:
                endless.cancel()

    async def _publish_all(self, http: httpx.AsyncClient, tasks: asyncio.TaskGroup) -> None:
        due = time.monotonic()
        for number in count():
            await pace.until(due)
            due += 1 / self.rate
            if self.unanswered >= UNANSWERED_MAX:
                due = max(due, time.monotonic())
            elif self.topics:
                topic = self.topics[number % len(self.topics)]
                tasks.create_task(self._publish(http, topic))

    async def _publish(self, http: httpx.AsyncClient, topic: TopicAccount) -> None:
        number = topic.next_number()
        self.unanswered += 1
        body = b'{"n": %d, "filler": "%s"}' % (number, FILLER)
        try:
            answer = await http.post(
                f"/topics/{topic.name}", content=body, headers={"Partition-Key": str(number % 16)}
            )
        except httpx.HTTPError:
            self.failed += 1  # it may be stored or not: nothing is owed for it
        else:
            self._answered(topic, number, status=answer.status_code)
        finally:
            self.unanswered -= 1

    def _answered(self, topic: TopicAccount, number: int, *, status: int) -> None:
        if status == httpx.codes.CREATED:
            topic.acknowledged.add(number)
            self.acknowledged += 1
        else:
            self.failed += 1


def next_rate(rate: float, *, used_s: float, published: int, cores: float) -> float:
    """Return the rate at which the service would use so many cores.

    `used_s` is the CPU time that `published` messages took at the present rate.
    """
    if not published or used_s <= 0:
        return rate
    wanted = cores * published / used_s
    return min(max(wanted, rate / FACTOR_MAX), rate * FACTOR_MAX)
