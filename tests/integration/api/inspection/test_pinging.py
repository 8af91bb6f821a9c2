"""Who asks a worker for a ping, and what becomes of those that nobody answers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from app.domain.catalogue.subscription import DeliveryPolicy
from app.domain.errors import NoWorkerError, PingTooSoonError, SubscriptionNotFoundError
from app.domain.runtime.ping import Ping, Pong, ping_in
from app.services.inspection.pings import PingService
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database
from app.storage.notices import PINGS, Notices, listen
from app.storage.runtime.pings import notify_pong
from tests.integration.storage.builders import TOPIC, a_subscription, a_worker, add_topic, beat

QUICK = DeliveryPolicy(request_timeout=timedelta(milliseconds=100))
PATIENCE_S = 60


class Asked:
    """A service whose pings are heard, and answered by hand."""

    def __init__(self, database: Database, *, margin: timedelta) -> None:
        self._database = database
        self._heard: asyncio.Queue[str] = asyncio.Queue()
        self.service = PingService(database, margin=margin)

    def receive(self, payload: str) -> None:
        self._heard.put_nowait(payload)
        self.service.receive(payload)

    async def listen(self, notices: Notices) -> None:
        async for _ in notices:
            pass

    async def next_ping(self) -> Ping:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                ping = ping_in(await self._heard.get())
                if ping is not None:
                    return ping

    async def tell(self, ping: Ping, status: int) -> None:
        pong = Pong(worker=ping.worker, message_id="m", delivered=True, seconds=0.1, status=status)
        async with self._database.transaction() as session:
            await notify_pong(session, ping, pong)

    async def beat(self, worker: str, *, applied: int = 0) -> None:
        await beat(self._database, a_worker(worker, applied=applied))


@pytest.fixture
async def change(database: Database) -> int:
    """A subscription, by the change that made it."""
    async with database.transaction() as session:
        await add_topic(session)
        added = await SubscriptionRepository(session).add(a_subscription(policy=QUICK))
    return added.change


@pytest.fixture
async def asked(database: Database, postgres_url: str, change: int) -> AsyncIterator[Asked]:
    """One that waits for long."""
    del change
    async with listening(database, postgres_url, margin=timedelta(seconds=PATIENCE_S)) as asked:
        yield asked


@pytest.fixture
async def hasty(database: Database, postgres_url: str, change: int) -> AsyncIterator[Asked]:
    """One that gives up soon."""
    del change
    async with listening(database, postgres_url, margin=timedelta(milliseconds=100)) as asked:
        yield asked


@asynccontextmanager
async def listening(
    database: Database, postgres_url: str, *, margin: timedelta
) -> AsyncIterator[Asked]:
    asked = Asked(database, margin=margin)
    channels = [PINGS, asked.service.channel]
    async with (
        listen(postgres_url, channels, receive=asked.receive) as notices,
        asyncio.TaskGroup() as tasks,
    ):
        listening = tasks.create_task(asked.listen(notices))
        yield asked
        listening.cancel()


async def test_a_ping_is_answered_by_the_worker_that_knows_the_subscription(
    asked: Asked, change: int
) -> None:
    await asked.beat("knows", applied=change)
    await asked.beat("old", applied=change - 1)
    async with asyncio.TaskGroup() as tasks:
        pong = tasks.create_task(asked.service.ping(TOPIC, "billing"))
        ping = await asked.next_ping()
        assert ping.worker == "knows"
        # What was meant for others, or comes twice, is passed over.
        await asked.tell(ping._replace(number=99), 500)
        await asked.tell(ping, 201)
        await asked.tell(ping, 500)
    assert pong.result().status == 201


async def test_a_worker_that_does_not_answer_is_not_waited_for_long(hasty: Asked) -> None:
    await hasty.beat("silent")
    with pytest.raises(NoWorkerError, match="silent"):
        await hasty.service.ping(TOPIC, "billing")


async def test_without_a_worker_nobody_is_asked(asked: Asked) -> None:
    with pytest.raises(NoWorkerError):
        await asked.service.ping(TOPIC, "billing")


async def test_one_ping_a_second_is_sent(hasty: Asked) -> None:
    found: list[object] = []
    async with asyncio.timeout(PATIENCE_S):
        # At once, unless the machine stands still for a second between the two.
        while not any(isinstance(each, PingTooSoonError) for each in found):
            await hasty.beat("silent")
            both = (hasty.service.ping(TOPIC, "billing") for _ in range(2))
            found = await asyncio.gather(*both, return_exceptions=True)


async def test_there_must_be_a_subscription(asked: Asked) -> None:
    with pytest.raises(SubscriptionNotFoundError):
        await asked.service.ping(TOPIC, "none")
