"""Workers that share circuits through a real database."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from app.domain.circuit import CircuitBreaker, CircuitState, TimeUnit
from app.domain.delivery import Delivered, Retry
from app.storage.database import Database, open_database
from app.storage.notices import CIRCUITS, listen
from app.storage.runtime.circuits import CircuitRepository
from tests.fakes.worker import World, delivered
from tests.servers.postgres import PostgresServer
from workers.assignment.circuits import CircuitSharing
from workers.assignment.stores import DatabaseCircuits
from workers.delivery.circuit import Circuit
from workers.delivery.circuits import Circuits, LiveCircuit

NAME = "invoices"
DOWN = Retry(reason="it is down", status=503)
UP = Delivered(status=200)
RULE = CircuitBreaker(errors_threshold=1, trip_timeout=300, trip_timeout_unit=TimeUnit.MILLISECONDS)
LONG = replace(RULE, trip_timeout=3_600_000)
LEASE = timedelta(seconds=1)
PATIENCE_S = 60.0


class OneWorker:
    """What a worker knows of a circuit, and who sends through it there."""

    def __init__(self, circuits: Circuits) -> None:
        self.changed = asyncio.Event()
        self.live: LiveCircuit = circuits.join(NAME, self, by="shop.orders_billing")

    @property
    def circuit(self) -> Circuit:
        return self.live.circuit

    def on_change(self, circuit: Circuit) -> None:
        del circuit
        self.changed.set()

    def has_new(self) -> bool:
        return True

    def send(self, outcome: Delivered | Retry, rule: CircuitBreaker = RULE) -> None:
        now = time.monotonic()
        self.circuit.sent(now)
        self.live.report(outcome, rule, sent_at=now, now=now, by="shop.orders_billing")

    def may_send(self) -> bool:
        return self.live.wait(time.monotonic()) == 0

    async def until(self, condition: Callable[[], bool], seconds: float = PATIENCE_S) -> None:
        async with asyncio.timeout(seconds):
            while not condition():
                self.changed.clear()
                await _at_most(self.changed, 0.02)

    async def until_state(self, state: CircuitState, seconds: float = PATIENCE_S) -> None:
        await self.until(lambda: self.circuit.state(time.monotonic()) is state, seconds)


async def _at_most(event: asyncio.Event, seconds: float) -> None:
    asyncio.get_running_loop().call_later(seconds, event.set)
    await event.wait()


@asynccontextmanager
async def a_worker(
    database: Database,
    url: str,
    name: str,
    *,
    channels: tuple[str, ...] = (CIRCUITS,),
    lease: timedelta = LEASE,
) -> AsyncIterator[OneWorker]:
    """A worker that is gone at the end, without a word."""
    circuits = Circuits()
    async with AsyncExitStack() as stack:
        notices = await stack.enter_async_context(listen(url, channels, at_once=False))
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        store = DatabaseCircuits(database, notices, name)
        sharing = CircuitSharing(circuits, store, lease=lease)
        running = [tasks.create_task(sharing.run()), tasks.create_task(sharing.listen())]
        worker = OneWorker(circuits)
        try:
            # It is not known before the database has been asked.
            await worker.until(lambda: worker.live.wait(time.monotonic()) != 2)
            await worker.until(lambda: not worker.circuit.closed or worker.may_send())
            yield worker
        finally:
            for each in running:
                each.cancel()


async def test_a_circuit_opened_and_closed_by_one_is_so_for_all(
    database: Database, postgres_url: str
) -> None:
    async with (
        a_worker(database, postgres_url, "w1") as first,
        a_worker(database, postgres_url, "w2") as second,
    ):
        # For a busy machine it is open for some seconds. The other may hear of it later.
        first.send(DOWN, replace(RULE, trip_timeout=3_000))
        assert not first.may_send()
        await second.until(lambda: not second.circuit.closed)
        assert second.circuit.reason == (
            "shop.orders_billing: 1 failure in a row, the last: it is down"
        )
        assert second.circuit.since == pytest.approx(first.circuit.since, abs=PATIENCE_S)
        await first.until(first.may_send)
        first.send(UP)
        await second.until_state(CircuitState.CLOSED)
        assert second.may_send()


async def test_without_notifications_it_is_heard_of_too(
    database: Database, postgres_url: str
) -> None:
    async with (
        a_worker(database, postgres_url, "w1") as first,
        a_worker(database, postgres_url, "w2", channels=("others",)) as second,
    ):
        first.send(DOWN, LONG)
        await second.until_state(CircuitState.OPEN)


async def test_one_of_them_may_send_the_one_message(database: Database, postgres_url: str) -> None:
    lease = timedelta(seconds=5)
    async with (
        a_worker(database, postgres_url, "w1", lease=lease) as first,
        a_worker(database, postgres_url, "w2", lease=lease) as second,
    ):
        first.send(DOWN)
        await second.until_state(CircuitState.HALF_OPEN)
        await first.until(first.may_send)
        first.circuit.sent(time.monotonic())
        # It keeps its leave while its message is in flight.
        asked_until = time.monotonic() + 1.5 * lease.total_seconds()
        await second.until(lambda: second.may_send() or time.monotonic() > asked_until)
        assert not second.may_send()


async def test_leave_of_a_worker_that_died_goes_to_another(
    database: Database, postgres_url: str
) -> None:
    async with a_worker(database, postgres_url, "w2") as second:
        async with a_worker(database, postgres_url, "w1") as first:
            first.send(DOWN)
            await first.until(first.may_send)
            first.circuit.sent(time.monotonic())
        await second.until(second.may_send)


async def test_leave_that_is_not_used_is_given_back(database: Database, postgres_url: str) -> None:
    async with (
        a_worker(database, postgres_url, "w1", lease=timedelta(minutes=1)) as first,
        a_worker(database, postgres_url, "w2") as second,
    ):
        first.send(DOWN)
        await first.until(first.may_send)
        await second.until(second.may_send)
        assert not first.circuit.has_leave(time.monotonic())


async def test_a_worker_that_starts_finds_it_as_it_is(
    database: Database, postgres_url: str
) -> None:
    async with a_worker(database, postgres_url, "w1") as first:
        first.send(DOWN, LONG)
        await first.until(lambda: not first.live.unpublished)
    async with a_worker(database, postgres_url, "w2") as second:
        assert second.circuit.state(time.monotonic()) is CircuitState.OPEN


async def test_one_that_was_dropped_is_told_again_by_who_still_has_it_open(
    database: Database, postgres_url: str
) -> None:
    async with a_worker(database, postgres_url, "w1") as first:
        first.send(DOWN)
        await first.until(lambda: not first.live.unpublished)
        async with database.transaction() as session:
            await CircuitRepository(session).prune(timedelta(days=-1))
        await first.until(first.may_send)
        async with database.transaction() as session:
            [found] = await CircuitRepository(session).read([NAME])
        assert found.open


async def test_while_the_database_is_down_what_is_known_stays_in_force_and_is_told_later(
    postgres_server: PostgresServer,
) -> None:
    url = postgres_server.url
    async with (
        open_database(url) as database,
        a_worker(database, url, "w1") as first,
        a_worker(database, url, "w2") as second,
    ):
        postgres_server.stop()
        first.send(DOWN)
        assert not first.may_send()
        assert second.may_send()
        # There is nobody to ask.
        await first.until(first.may_send)
        first.send(DOWN, LONG)
        postgres_server.start()
        await second.until_state(CircuitState.OPEN)


async def test_two_workers_deliver_through_one_circuit(
    database: Database, postgres_url: str
) -> None:
    async with AsyncExitStack() as stack:
        stores = {
            name: DatabaseCircuits(
                database,
                await stack.enter_async_context(listen(postgres_url, [CIRCUITS], at_once=False)),
                name,
            )
            for name in ("w1", "w2")
        }
        world = World(circuits=stores.__getitem__)
        down, up = [True], asyncio.Event()
        world.endpoints.replies["http://s.test/"] = lambda _: DOWN if down[0] else UP
        topic = await world.topic(partitions=4)
        shared = replace(RULE, errors_threshold=3, trip_timeout=1_000, circuit_name=NAME)
        subscription = await world.subscribe(topic, message_backoff=timedelta(0), in_flight_max=3)
        world.plane.put(replace(subscription, circuit_breaker=shared))
        async with world.worker("w1"), world.worker("w2"):
            await world.plane.until(lambda: len(world.plane.beats) == 2)
            await world.plane.until_applied()
            for number in range(100):
                await world.publish(topic, b"%d" % number, key=b"%d" % number)
            await _at_most(up, 0.8)
            # Each may have had as many as fit into the air before it heard of it.
            sent = len(world.endpoints.attempts)
            assert sent <= 12
            await world.endpoints.until(lambda: len(world.endpoints.attempts) >= sent + 3)
            # One message a second, not one of each worker.
            tries = [each.at for each in world.endpoints.attempts[sent : sent + 3]]
            assert tries[-1] - tries[0] > 1.5
            down[0] = False
            await world.plane.until(lambda: delivered(world, subscription.id) == 100)
