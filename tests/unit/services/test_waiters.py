"""Many publishers who wait at once, and those who go away, on the publish route itself."""

import asyncio
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from app.api.publish.route import PublishRoute
from app.domain.catalogue.changes import Changes
from app.domain.catalogue.subscription import Subscription
from app.domain.catalogue.topic import Topic
from app.domain.errors import TopicNotFoundError
from app.services.catalogue.topics import log_topic
from app.services.directory.topics import TopicDirectory
from app.services.publishing.deduplication import IdempotentPublisher
from app.services.publishing.publisher import Publisher
from app.services.publishing.waiters import Waiters
from tests.fakes.access import open_gate
from tests.fakes.claims import no_claims
from tests.fakes.memory_log import MemoryLog
from tests.fakes.schemas import schema_check

PATIENCE_S = 60.0
TOPIC = Topic(name="a.b", change=1)
BILLING = Subscription(id="s-1", topic="a.b", name="billing", endpoint="http://h.test/", change=2)


class Client:
    """A publisher of one message, who stays until it is told to go away."""

    def __init__(self, query: bytes = b"wait=30s") -> None:
        self.scope = {
            "type": "http",
            "method": "POST",
            "path": "/topics/a.b",
            "query_string": query,
            "headers": [],
        }
        self.gone = asyncio.Event()
        self.waits = asyncio.Event()
        self.sent: list[MutableMapping[str, Any]] = []
        self._published = False

    async def receive(self) -> dict[str, Any]:
        if not self._published:
            self._published = True
            return {"type": "http.request", "body": b"1", "more_body": False}
        self.waits.set()
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int | None:
        status: int | None = self.sent[0]["status"] if self.sent else None
        return status

    @property
    def code(self) -> str:
        code: str = orjson.loads(self.sent[1]["body"])["code"]
        return code


async def look_up(name: str) -> Topic:
    raise TopicNotFoundError(name)


@asynccontextmanager
async def publishing(log: MemoryLog, *, waiters_max: int) -> AsyncIterator[PublishRoute]:
    await log.create_topic(log_topic(TOPIC))
    directory = TopicDirectory(look_up)
    directory.apply(Changes(number=2, topics=(TOPIC,), subscriptions=(BILLING,)))
    async with Publisher(log) as publisher:
        idempotent = IdempotentPublisher(publisher, no_claims)
        yield PublishRoute(
            directory,
            idempotent,
            waiters=Waiters(waiters_max=waiters_max),
            gate=open_gate(),
            schemas=schema_check(directory),
        )


async def asked(route: PublishRoute, client: Client) -> Client:
    await route(client.scope, client.receive, client.send)
    return client


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


async def test_too_many_who_wait_are_refused_before_anything_is_stored(log: MemoryLog) -> None:
    waiting = [Client(), Client()]
    async with (
        asyncio.timeout(PATIENCE_S),
        publishing(log, waiters_max=2) as route,
        asyncio.TaskGroup() as tasks,
    ):
        for client in waiting:
            tasks.create_task(asked(route, client))
            await client.waits.wait()
        refused = await asked(route, Client())
        assert (refused.status, refused.code) == (503, "TOO_MANY_WAITERS")
        assert (b"retry-after", b"1") in refused.sent[0]["headers"]
        assert (await asked(route, Client(b""))).status == 201
        assert len(log.records("a.b")) == 3
        for client in waiting:
            client.gone.set()
    assert [client.sent for client in waiting] == [[], []]


async def test_who_goes_away_makes_room(log: MemoryLog) -> None:
    client, other = Client(), Client(b"wait=0s")
    async with asyncio.timeout(PATIENCE_S), publishing(log, waiters_max=1) as route:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(asked(route, client))
            await client.waits.wait()
            client.gone.set()
        assert (await asked(route, other)).status == 201
    told = orjson.loads(other.sent[1]["body"])["subscriptions"]
    assert told == [{"name": "billing", "outcome": "PENDING"}]
