"""Who asks for more than there is of something is refused over HTTP, and by which code."""

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager

import httpx
import pytest

from app.api.publish.route import PublishRoute
from app.domain.catalogue.changes import Changes
from app.domain.catalogue.subscription import Subscription
from app.domain.catalogue.topic import Topic
from app.domain.errors import TopicNotFoundError
from app.domain.message import Partition
from app.services.catalogue.topics import log_topic
from app.services.directory.topics import TopicDirectory
from app.services.inspection.search import SEARCHES_MAX
from app.services.publishing.deduplication import IdempotentPublisher
from app.services.publishing.publisher import Publisher
from app.services.publishing.waiters import WAIT_MAX, Waiters
from tests.fakes.access import open_gate
from tests.fakes.claims import no_claims
from tests.fakes.memory_log import MemoryLog
from tests.fakes.schemas import schema_check
from tests.integration.api.server import serving

PATIENCE_S = 60.0
TOPIC = Topic(name="shop.orders", change=1)
BILLING = Subscription(
    id="s-1", topic=TOPIC.name, name="billing", endpoint="http://h.test/", change=2
)


class SearchedLog(MemoryLog):
    """A log that says which times of it are looked for when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Semaphore(0)
        self.answers = asyncio.Event()

    async def offsets_at(
        self, partitions: Collection[Partition], timestamp_ms: int
    ) -> Mapping[Partition, int]:
        self.asked.release()
        await self.answers.wait()
        return await super().offsets_at(partitions, timestamp_ms)


@pytest.fixture
def log() -> SearchedLog:
    return SearchedLog()


async def test_two_searches_run_at_a_time(
    api: httpx.AsyncClient, topic: str, log: SearchedLog
) -> None:
    path = f"/topics/{topic}/messages?key=k"
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(api.get(path)) for _ in range(SEARCHES_MAX)]
        for _ in running:
            await log.asked.acquire()
        refused = await api.get(path)
        assert (refused.status_code, refused.json()["code"]) == (503, "TOO_MANY_SEARCHES")
        assert refused.headers["retry-after"] == "1"
        log.answers.set()
    assert [each.result().status_code for each in running] == [200] * SEARCHES_MAX
    assert (await api.get(path)).status_code == 200


async def look_up(name: str) -> Topic:
    raise TopicNotFoundError(name)


@asynccontextmanager
async def publishing(
    log: MemoryLog, waiters: Waiters, *, body_timeout_s: float = PATIENCE_S
) -> AsyncIterator[httpx.AsyncClient]:
    """The publish route alone, served, with other bounds than its own."""
    await log.create_topic(log_topic(TOPIC))
    directory = TopicDirectory(look_up)
    directory.apply(Changes(number=2, topics=(TOPIC,), subscriptions=(BILLING,)))
    async with Publisher(log) as publisher:
        route = PublishRoute(
            directory,
            IdempotentPublisher(publisher, no_claims),
            waiters=waiters,
            gate=open_gate(),
            schemas=schema_check(directory),
            body_timeout_s=body_timeout_s,
        )
        async with serving(route) as client:
            yield client


async def test_so_many_publishers_wait_at_a_time() -> None:
    log, waiters = MemoryLog(), Waiters(waiters_max=1)
    path = f"/topics/{TOPIC.name}"
    with waiters.waiting(dict, within=WAIT_MAX):
        async with publishing(log, waiters) as api:
            refused = await api.post(f"{path}?wait=30s", content=b"1")
            assert (refused.status_code, refused.json()["code"]) == (503, "TOO_MANY_WAITERS")
            assert refused.headers["retry-after"] == "1"
            assert (await api.post(path, content=b"2")).status_code == 201
    assert [record.value for record in log.records(TOPIC.name)] == [b"2"]


async def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    log = MemoryLog()
    async with publishing(log, Waiters(), body_timeout_s=0.05) as api:
        # By hand: a client reads no answer before it has sent all.
        reader, writer = await asyncio.open_connection(api.base_url.host, api.base_url.port)
        head = f"POST /topics/{TOPIC.name} HTTP/1.1\r\nHost: api\r\nContent-Length: 9\r\n\r\n"
        writer.write(head.encode() + b"half")
        async with asyncio.timeout(PATIENCE_S):
            answer = await reader.read()
        writer.close()
        await writer.wait_closed()
    status, _, rest = answer.partition(b" ")[2].partition(b" ")
    assert (status, json.loads(rest.partition(b"\r\n\r\n")[2])["code"]) == (b"408", "TIMEOUT")
    assert log.records(TOPIC.name) == []
