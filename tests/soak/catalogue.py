"""Topics and subscriptions of the soak: made and deleted by the API, each with its account."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from tests.benchmarks import pace
from tests.soak.account import SubscriptionAccount, TopicAccount, Totals
from tests.soak.endpoints import Endpoint, Endpoints
from tests.soak.publishing import Publisher

AGAIN_AFTER_S: Final = 1.0
LOOK_EVERY_S: Final = 1.0
PAGE: Final = 200
PARTITIONS: Final = 2
# An answer that did not arrive: what was asked for may have been done all the same.
DONE_BEFORE: Final = {"POST": httpx.codes.CONFLICT, "DELETE": httpx.codes.NOT_FOUND}
POLICY: Final = {
    "rate": 10_000,
    "requestTimeout": 5_000,
    "messageBackoff": 500,
    "messageTtl": 7_200,
    "inflightSize": 100,
}


@dataclass(slots=True)
class Catalogue:
    """What is there, and what became of what is not there any more."""

    http: httpx.AsyncClient
    endpoints: Endpoints
    publisher: Publisher
    topics: list[TopicAccount] = field(default_factory=list)
    subscriptions: list[SubscriptionAccount] = field(default_factory=list)
    settled: Totals = field(default_factory=Totals)
    calls: int = 0
    calls_again: int = 0
    _made: int = 0

    async def ask(self, method: str, path: str, body: object = None) -> httpx.Response:
        """Call the API until it answers, as operators do.

        Raises:
            httpx.HTTPStatusError: It refused the call.
        """
        first = True
        while True:
            self.calls += 1
            try:
                answer = await self.http.request(method, path, json=body)
                done = answer.status_code == DONE_BEFORE.get(method) and not first
                if done or answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                    return answer if done else answer.raise_for_status()
            except httpx.TransportError:
                pass  # it is busy
            first = False
            self.calls_again += 1
            await pace.until(time.monotonic() + AGAIN_AFTER_S)

    def _name(self, prefix: str) -> str:
        self._made += 1
        return f"{prefix}{self._made}"

    async def create_topic(self) -> TopicAccount:
        """Create a topic, to which nothing is published yet."""
        topic = TopicAccount(self._name("soak.topic"))
        settings = {"partitions": PARTITIONS, "trackingEnabled": True}
        await self.ask("POST", "/topics", {"name": topic.name, **settings})
        self.topics.append(topic)
        return topic

    async def subscribe(
        self,
        topic: TopicAccount,
        *,
        refuses_some: bool = False,
        **more: Any,  # noqa: ANN401 - any JSON
    ) -> Endpoint:
        """Create a subscription with an endpoint of its own."""
        name = self._name("s")
        account = SubscriptionAccount(topic=topic, name=name, since=0)
        endpoint = Endpoint(account, refuses_some=refuses_some)
        await self.ask(
            "POST",
            f"/topics/{topic.name}/subscriptions",
            {
                "name": name,
                "endpoint": self.endpoints.add(endpoint),
                "owner": {"source": "Plaintext", "id": "soak"},
                "subscriptionPolicy": POLICY,
                **more,
            },
        )
        account.since = topic.sent
        self.subscriptions.append(account)
        return endpoint

    async def unsubscribe(self, account: SubscriptionAccount) -> None:
        """Delete a subscription when it owes nothing any more."""
        account.end()
        await self.settle(account)
        self.subscriptions.remove(account)
        self.settled.add(account)
        await self.ask("DELETE", account.path)
        self.endpoints.remove(account)

    async def delete_topic(self, topic: TopicAccount) -> None:
        """Delete a topic, and before it its subscriptions, when these owe nothing any more."""
        self.publisher.topics.remove(topic)
        for each in [each for each in self.subscriptions if each.topic is topic]:
            await self.unsubscribe(each)
        await self.ask("DELETE", f"/topics/{topic.name}")
        self.topics.remove(topic)

    async def settle(self, account: SubscriptionAccount) -> None:
        """Return when all acknowledged messages are delivered or listed, however long it takes."""
        while account.missing():
            await pace.until(time.monotonic() + LOOK_EVERY_S)
            await self.read_list(account)

    async def settle_all(self, *, quiet_s: float) -> Totals:
        """Wait for what is owed until nothing has moved for so long; the totals of all then."""
        moved_at, before = time.monotonic(), -1
        while missing := sum(each.missing() for each in self.subscriptions):
            if missing != before:
                moved_at, before = time.monotonic(), missing
            if time.monotonic() > moved_at + quiet_s:
                break
            await pace.until(time.monotonic() + LOOK_EVERY_S)
            for each in self.subscriptions:
                if each.missing():
                    await self.read_list(each)
        for each in self.subscriptions:
            await self.read_list(each)
            self.settled.add(each)
        return self.settled

    async def read_list(self, account: SubscriptionAccount) -> None:
        """Read the list of undelivered messages, page by page."""
        url: str | None = f"{account.path}/undelivered?limit={PAGE}"
        while url is not None:
            answer = await self.ask("GET", url)
            for each in answer.json():
                account.listed.add(number_of(each))
            url = answer.links.get("next", {}).get("url")
            await asyncio.sleep(0)


def number_of(undelivered: Mapping[str, Any]) -> int:
    """Return the number in the body of an undelivered message."""
    text: str = undelivered["message"]
    return int(text.removeprefix('{"n": ').partition(",")[0])
