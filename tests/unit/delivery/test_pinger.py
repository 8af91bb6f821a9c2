"""Pings and pongs as notifications, and the desk of a worker that takes them."""

import asyncio
from dataclasses import replace

import pytest

from app.domain.catalogue.subscription import Subscription
from app.domain.errors import StorageUnavailableError
from app.domain.runtime.ping import PAYLOAD_BYTES_MAX, Ping, Pong, Security, ping_in, pong_in
from workers.assignment.pings import UNDER_WAY_MAX, WAITING_MAX, PingDesk

PING = Ping("w1", "a" * 32, 7, "s-1")
PONG = Pong(
    worker="w1",
    message_id="ping-1",
    delivered=False,
    seconds=0.25,
    status=500,
    reason="no",
    headers=(("Server", "x"), ("Server", "y")),
    address="192.0.2.7:443",
    protocol="HTTP/2",
    tls=Security(version="TLSv1.3", cipher="AES"),
)
SUBSCRIPTION = Subscription(id="s-1", topic="g.t", name="s", endpoint="http://h.test/")
GARBAGE = (
    "",
    "{}",
    "[]",
    "7",
    "null",
    '{"ping": 7}',
    '{"pong": 1}',
    "\ud800",
    '{"pong": 1, "tls": 1}',
)


def test_a_ping_is_read_as_it_was_written() -> None:
    assert ping_in(PING.text()) == PING
    assert pong_in(PING.text()) is None


@pytest.mark.parametrize("pong", [PONG, replace(PONG, tls=None, status=None, headers=())])
def test_a_pong_is_read_as_it_was_written(pong: Pong) -> None:
    assert pong_in(pong.text(9)) == (9, pong)
    assert ping_in(pong.text(9)) is None


@pytest.mark.parametrize("text", GARBAGE)
def test_what_is_neither_is_passed_over(text: str) -> None:
    assert (ping_in(text), pong_in(text)) == (None, None)


def test_a_pong_fits_however_much_was_answered() -> None:
    headers = tuple((f"X-{n}", "\ud800ż" * 1000) for n in range(1000))
    text = replace(PONG, headers=headers, reason="ż" * 10_000).text(1)
    assert len(text.encode()) < PAYLOAD_BYTES_MAX
    heard = pong_in(text)
    assert heard is not None
    assert heard[1].headers
    assert heard[1].status == 500


class Counter:
    """Sends nothing, waits until it may, and counts."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.changed = asyncio.Event()
        self.begun = 0
        self.told: list[int] = []
        self.broken = False
        self.down = False

    async def ping(self, subscription: Subscription) -> Pong:
        assert subscription is SUBSCRIPTION
        self.begun += 1
        self.changed.set()
        await self.gate.wait()
        if self.broken:
            raise KeyError("a defect")
        return PONG

    async def post(self, ping: Ping, pong: Pong) -> None:
        assert pong is PONG
        if self.down:
            raise StorageUnavailableError("down")
        self.told.append(ping.number)
        self.changed.set()

    async def until(self, *, told: int) -> None:
        async with asyncio.timeout(60):
            while len(self.told) < told:
                self.changed.clear()
                await self.changed.wait()


async def known(desk: PingDesk, counter: Counter, *, told: int) -> None:
    """Let the desk work until so many were told."""
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(
            desk.run(lambda own_id: SUBSCRIPTION if own_id == "s-1" else None)
        )
        await counter.until(told=told)
        running.cancel()


@pytest.fixture
def counter() -> Counter:
    counter = Counter()
    counter.gate.set()
    return counter


@pytest.fixture
def desk(counter: Counter) -> PingDesk:
    return PingDesk("w1", counter, counter)


async def test_a_worker_sends_what_it_is_asked_for_and_nothing_else(
    desk: PingDesk, counter: Counter
) -> None:
    desk.receive("")
    desk.receive("garbage")
    desk.receive(PING._replace(worker="w2").text())
    desk.receive(PING._replace(subscription_id="gone").text())
    desk.receive(PING.text())
    await known(desk, counter, told=1)
    assert (counter.begun, counter.told) == (1, [7])


async def test_few_are_under_way_at_once_and_too_many_are_passed_over(
    desk: PingDesk, counter: Counter
) -> None:
    counter.gate.clear()
    for number in range(2 * WAITING_MAX):
        desk.receive(PING._replace(number=number).text())
    async with asyncio.TaskGroup() as tasks:
        working = tasks.create_task(known(desk, counter, told=WAITING_MAX))
        async with asyncio.timeout(60):
            while counter.begun < UNDER_WAY_MAX:
                counter.changed.clear()
                await counter.changed.wait()
        for _ in range(10):
            await asyncio.sleep(0)
        assert counter.begun == UNDER_WAY_MAX
        counter.gate.set()
        await working
    assert counter.told == list(range(WAITING_MAX))


@pytest.mark.parametrize("defect", ["broken", "down"])
async def test_a_ping_that_breaks_ends_no_worker(
    desk: PingDesk, counter: Counter, defect: str
) -> None:
    setattr(counter, defect, True)
    counter.gate.clear()
    desk.receive(PING.text())
    async with asyncio.TaskGroup() as tasks:
        working = tasks.create_task(known(desk, counter, told=1))
        async with asyncio.timeout(60):
            await counter.changed.wait()
        counter.gate.set()
        for _ in range(5):
            await asyncio.sleep(0)
        setattr(counter, defect, False)
        desk.receive(PING._replace(number=8).text())
        await working
    assert counter.told == [8]
