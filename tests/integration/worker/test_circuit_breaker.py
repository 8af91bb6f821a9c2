"""A whole worker on a log in memory: circuits that open, stop its clocks, and let one try."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from app.domain.catalogue.fetch import FetchMode, FetchPolicy
from app.domain.catalogue.subscription import Ordering, Subscription
from app.domain.catalogue.topic import Topic
from app.domain.circuit import CircuitBreaker, CircuitReading, CircuitState, TimeUnit
from app.domain.commit import Progress, parse_progress
from app.domain.delivery import TTL_ELAPSED, Delivered, Discarded, Outcome, Retry
from app.domain.message import Partition
from tests.fakes.worker import PATIENCE_S, Attempt, World, delivered

DOWN = Retry(reason="it is down", status=503)
OK = Delivered(status=200)
LATER = timedelta(minutes=10)
LATER_S = 599  # times are rounded
PREFETCH = FetchPolicy()
HOURLY = FetchPolicy(mode=FetchMode.POLLING, poll_size=1, polling_time=timedelta(hours=1))
TRIP_S = 0.3
SHORT = CircuitBreaker(
    errors_threshold=3, trip_timeout=300, trip_timeout_unit=TimeUnit.MILLISECONDS
)
LONG = replace(SHORT, trip_timeout=1, trip_timeout_unit=TimeUnit.HOURS)
MINUTES = replace(SHORT, trip_timeout=2, trip_timeout_unit=TimeUnit.MINUTES)


@pytest.fixture
def world() -> World:
    return World()


class Health:
    """Endpoints that are down until they are `up`."""

    def __init__(self, world: World, *endpoints: str) -> None:
        self.up = False
        for endpoint in endpoints:
            world.endpoints.replies[endpoint] = self.reply

    def reply(self, attempt: Attempt) -> Outcome:
        del attempt
        return OK if self.up else DOWN


async def subscribed(
    world: World,
    topic: Topic,
    breaker: CircuitBreaker | None,
    *,
    name: str = "s",
    **policy: Any,  # noqa: ANN401 - as DeliveryPolicy takes it
) -> Subscription:
    subscription = await world.subscribe(topic, name, **policy)
    return world.plane.put(replace(subscription, circuit_breaker=breaker))


def circuit_of(world: World, subscription: Subscription) -> CircuitReading | None:
    load = world.plane.loads.get(subscription.id)
    return load.output.circuit if load else None


def time_to_probe(world: World, subscription: Subscription) -> float:
    """The reported seconds from the opening of the circuit to the next message; 0 if none waits."""
    output = world.plane.loads[subscription.id].output
    assert output.circuit is not None
    if output.next_probe_at is None:
        return 0.0
    return (output.next_probe_at - output.circuit.since).total_seconds()


async def until_state(world: World, subscription: Subscription, state: CircuitState) -> None:
    def reached() -> bool:
        circuit = circuit_of(world, subscription)
        return circuit is not None and circuit.state is state

    await world.plane.until(reached)


async def a_while(seconds: float = 0.15) -> None:
    """Let `seconds` go by, in which something must not happen."""
    asyncio.get_running_loop().call_later(seconds, (passed := asyncio.Event()).set)
    await passed.wait()


async def committed(world: World, subscription: Subscription) -> Progress:
    partition = Partition(subscription.topic, 0)
    groups = await world.log.committed({subscription.group: [partition]})
    found = groups[subscription.group][partition]
    progress = parse_progress(subscription.id, found.offset, found.metadata)
    assert progress is not None
    return progress


async def until_committed(
    world: World, subscription: Subscription, fits: Callable[[Progress], bool]
) -> Progress:
    async with asyncio.timeout(PATIENCE_S):
        while not fits(progress := await committed(world, subscription)):
            await a_while(0.02)
    return progress


@asynccontextmanager
async def opened(
    world: World,
    breaker: CircuitBreaker = SHORT,
    messages: int = 20,
    **policy: Any,  # noqa: ANN401 - as DeliveryPolicy takes it
) -> AsyncIterator[tuple[Subscription, Health]]:
    """A subscription whose subscriber is down, and whose circuit has opened just now."""
    topic = await world.topic(partitions=1)
    health = Health(world, "http://s.test/")
    settings: dict[str, Any] = {"in_flight_max": 1, "message_backoff": timedelta(0), **policy}
    subscription = await subscribed(world, topic, breaker, **settings)
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *[b"%d" % number for number in range(messages)])
        await world.endpoints.until(
            lambda: len(world.endpoints.attempts) >= breaker.errors_threshold
        )
        await until_state(world, subscription, CircuitState.OPEN)
        yield subscription, health


async def time_to_probe_after(
    world: World,
    failure: Retry,
    *bodies: bytes,
    fetch: FetchPolicy = PREFETCH,
    **policy: Any,  # noqa: ANN401 - as DeliveryPolicy takes it
) -> float:
    """The reported seconds to the next message when the first has failed and opened the circuit."""
    topic = await world.topic(partitions=1)
    world.endpoints.replies["http://s.test/"] = lambda _: failure
    once = replace(MINUTES, errors_threshold=1)
    subscription = await subscribed(world, topic, once, in_flight_max=1, **policy)
    world.plane.put(replace(subscription, fetch=fetch))
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *bodies)
        await until_state(world, subscription, CircuitState.OPEN)
        return time_to_probe(world, subscription)


async def test_after_failures_in_a_row_nothing_is_sent_and_metrics_say_why(world: World) -> None:
    async with opened(world, MINUTES, message_backoff=LATER) as (subscription, _):
        await a_while()
        assert len(world.endpoints.attempts) == 3
        load = world.plane.loads[subscription.id]
    assert load.output.rate == 0
    assert load.output.circuit is not None
    assert load.output.circuit.reason == "3 failures in a row, the last: it is down"
    # A new message need not wait for retries. Both times are rounded.
    assert 118 < time_to_probe(world, subscription) < 150
    assert world.plane.undelivered == []


async def test_after_the_trip_timeout_one_message_tries_and_its_success_lets_all_go(
    world: World,
) -> None:
    async with opened(world, in_flight_max=10, messages=50) as (subscription, health):
        before = len(world.endpoints.attempts)
        world.endpoints.gate.clear()
        await world.endpoints.until(lambda: len(world.endpoints.attempts) > before)
        await a_while()
        # A new one: another message may arrive where one fails forever.
        [probe] = world.endpoints.attempts[before:]
        assert probe.retry_count == 0
        health.up = True
        world.endpoints.gate.set()
        await world.plane.until(lambda: delivered(world, subscription.id) == 50)
        await until_state(world, subscription, CircuitState.CLOSED)
    assert probe.at - world.endpoints.attempts[before - 1].at >= TRIP_S


async def test_a_listed_failure_of_the_one_message_opens_it_for_as_long_again(
    world: World,
) -> None:
    async with opened(world) as (subscription, health):
        await world.endpoints.until(lambda: len(world.endpoints.attempts) >= 6)
        health.up = True
        await world.plane.until(lambda: delivered(world, subscription.id) == 20)
    times = [attempt.at for attempt in world.endpoints.attempts[2:6]]
    assert all(after - before >= TRIP_S for before, after in pairwise(times))


async def test_a_message_that_is_wrong_closes_it_for_it_was_answered(world: World) -> None:
    async with opened(world) as (subscription, _):
        wrong = Discarded(reason="no such order", status=404)
        world.endpoints.replies["http://s.test/"] = lambda _: wrong
        await world.plane.until(lambda: len(world.plane.undelivered) == 20)
        await until_state(world, subscription, CircuitState.CLOSED)


async def test_what_cannot_be_sent_is_discarded_and_the_next_message_tries(world: World) -> None:
    async with opened(world, in_flight_max=5) as (subscription, _):
        peaks = list[int]()

        def two_malformed(attempt: Attempt) -> Outcome:
            del attempt
            peaks.append(world.endpoints.in_flight_peak)
            return Discarded(reason="malformed") if len(peaks) <= 2 else OK

        # Retries that began before the circuit opened may still be in flight.
        await world.endpoints.until(lambda: world.endpoints.in_flight == 0)
        world.endpoints.replies["http://s.test/"] = two_malformed
        world.endpoints.in_flight_peak = world.endpoints.in_flight
        await world.plane.until(lambda: delivered(world, subscription.id) == 18)
    # Each of these three was alone, the one that closes the circuit as well.
    assert peaks[:3] == [1, 1, 1]


async def test_other_failures_do_not_open_it(world: World) -> None:
    topic = await world.topic(partitions=1)
    world.endpoints.replies["http://s.test/"] = lambda _: Retry(reason="moved", status=302)
    await subscribed(world, topic, LONG, message_backoff=timedelta(0))
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, b"x")
        await world.endpoints.until(lambda: len(world.endpoints.attempts) >= 20)


async def test_times_to_live_stand_while_it_is_open(world: World) -> None:
    second = replace(SHORT, trip_timeout=1_500)
    async with opened(world, second, message_ttl=timedelta(seconds=1)) as (subscription, health):
        health.up = True
        await world.plane.until(lambda: delivered(world, subscription.id) == 20)
    assert world.plane.undelivered == []
    assert world.endpoints.attempts[3].at - world.endpoints.attempts[2].at >= 1.5


async def test_times_to_live_go_on_when_it_has_closed(world: World) -> None:
    def first_never(attempt: Attempt) -> Outcome:
        return DOWN if attempt.body == b"0" else OK

    quickly: dict[str, Any] = {
        "message_ttl": timedelta(seconds=2),
        "message_backoff": timedelta(0),
    }
    async with opened(world, **quickly) as (subscription, _):
        world.endpoints.replies["http://s.test/"] = first_never
        await world.plane.until(lambda: len(world.plane.undelivered) == 1)
        await world.plane.until(lambda: delivered(world, subscription.id) == 19)
    [discarded] = world.plane.undelivered
    assert (discarded.body, discarded.reason) == (b"0", TTL_ELAPSED)


async def test_a_time_to_live_that_stands_is_committed_as_such_and_goes_on_after_a_crash(
    world: World,
) -> None:
    topic = await world.topic(partitions=1)
    health = Health(world, "http://s.test/")
    ttl: dict[str, Any] = {"message_ttl": timedelta(seconds=2), "message_backoff": timedelta(0)}
    subscription = await subscribed(world, topic, LONG, **ttl)
    async with world.doomed_worker("w1"):
        await world.plane.until_applied()
        await world.publish(topic, b"x")
        await until_state(world, subscription, CircuitState.OPEN)
        stands = await until_committed(
            world, subscription, lambda progress: progress.oldest_elapsed_ms is not None
        )
        assert stands.oldest_opened_ms is None
        await a_while(2.2)
    health.up = True
    async with world.worker("w2"):
        await world.plane.until(lambda: delivered(world, subscription.id) == 1)
    assert world.plane.undelivered == []


async def test_when_it_has_closed_the_committed_time_to_live_runs_on_later(world: World) -> None:
    keep: dict[str, Any] = {
        "message_backoff": timedelta(seconds=60),
        "message_ttl": timedelta(seconds=120),
    }
    async with opened(world, messages=4, **keep) as (subscription, health):
        opened_at = await until_committed(
            world, subscription, lambda progress: progress.oldest_elapsed_ms is not None
        )
        health.up = True
        await until_state(world, subscription, CircuitState.CLOSED)
        runs = await until_committed(
            world, subscription, lambda progress: progress.oldest_opened_ms is not None
        )
    assert opened_at.offset == runs.offset == 0
    assert runs.finished == ((3, 4),)


async def test_results_of_what_was_in_the_air_when_it_opened_change_nothing(world: World) -> None:
    topic = await world.topic(partitions=1)
    slow = asyncio.Event()
    subscription = await subscribed(world, topic, LONG, in_flight_max=10)
    Health(world, "http://s.test/")
    async with world.worker():
        await world.plane.until_applied()
        world.endpoints.gate = slow
        await world.publish(topic, *[b"%d" % number for number in range(10)])
        await world.endpoints.until(lambda: world.endpoints.in_flight == 10)
        slow.set()
        await world.endpoints.until(lambda: world.endpoints.in_flight == 0)
        await until_state(world, subscription, CircuitState.OPEN)
        await a_while()
    assert len(world.endpoints.attempts) == 10
    circuit = circuit_of(world, subscription)
    assert circuit is not None
    assert circuit.reason.startswith("3 failures in a row")


async def test_subscriptions_with_one_name_share_a_circuit(world: World) -> None:
    topic = await world.topic(partitions=1)
    # It is not tried before both are known to have it open.
    shared = replace(LONG, circuit_name="orders")
    health = Health(world, "http://a.test/")
    failing = await subscribed(world, topic, shared, name="a", in_flight_max=1)
    other = await subscribed(world, topic, shared, name="b", in_flight_max=1)
    alone = await subscribed(world, topic, SHORT, name="c")
    async with world.worker():
        await world.plane.until_applied()
        world.suspend(other)
        await world.plane.until_applied()
        await world.publish(topic, *[b"%d" % number for number in range(10)])
        await until_state(world, failing, CircuitState.OPEN)
        world.resume(other)
        await until_state(world, other, CircuitState.OPEN)
        assert world.endpoints.bodies("http://b.test/") == []
        await world.plane.until(lambda: delivered(world, alone.id) == 10)
        # Either of them tries, and one at a time.
        health.up = True
        for each in (failing, other):
            world.plane.put(replace(each, circuit_breaker=replace(SHORT, circuit_name="orders")))
        await world.plane.until(lambda: delivered(world, failing.id) == 10)
        await world.plane.until(lambda: delivered(world, other.id) == 10)


async def test_a_shared_circuit_is_one_over_workers_and_one_of_them_tries(world: World) -> None:
    topic = await world.topic(partitions=2)
    shared = replace(SHORT, circuit_name="orders", trip_timeout=700)
    health = Health(world, "http://s.test/")
    subscription = await subscribed(world, topic, shared, in_flight_max=1)
    async with world.worker("w1"), world.worker("w2"):
        await world.plane.until(lambda: len(world.plane.beats) == 2)
        await world.plane.until_applied()
        for number in range(40):
            await world.publish(topic, b"%d" % number, key=b"%d" % number)
        await world.plane.until(lambda: "orders" in world.plane.circuits)
        await a_while(0.3)
        before = len(world.endpoints.attempts)
        world.endpoints.gate.clear()
        await world.endpoints.until(lambda: len(world.endpoints.attempts) > before)
        await a_while(0.3)
        assert len(world.endpoints.attempts) == before + 1
        health.up = True
        world.endpoints.gate.set()
        await world.plane.until(lambda: delivered(world, subscription.id) == 40)


async def test_while_the_database_is_down_each_worker_goes_on_with_what_it_knows(
    world: World,
) -> None:
    shared = replace(SHORT, circuit_name="orders")
    async with opened(world, shared) as (subscription, health):
        world.plane.down = True
        health.up = True
        await world.endpoints.until(lambda: len(world.endpoints.attempts) >= 23)
        world.plane.down = False
        await world.plane.until(lambda: delivered(world, subscription.id) == 20)
        await world.plane.until(lambda: not world.plane.circuits["orders"].circuit.open)


async def test_a_worker_that_starts_takes_over_how_a_shared_circuit_is(world: World) -> None:
    shared = replace(LONG, circuit_name="orders")
    async with opened(world, shared) as (subscription, _):
        await world.plane.until(lambda: "orders" in world.plane.circuits)
    sent = len(world.endpoints.attempts)
    world.plane.loads.clear()
    async with world.worker("w2"):
        await until_state(world, subscription, CircuitState.OPEN)
        await a_while()
    assert len(world.endpoints.attempts) == sent


async def test_without_its_breaker_a_subscription_goes_on_at_once(world: World) -> None:
    async with opened(world, LONG) as (subscription, health):
        health.up = True
        world.plane.put(replace(subscription, circuit_breaker=None))
        await world.plane.until(lambda: delivered(world, subscription.id) == 20)


async def test_without_its_breaker_times_to_live_run_again(world: World) -> None:
    async with opened(world, LONG, messages=5, message_ttl=timedelta(seconds=1)) as (given, _):
        world.plane.put(replace(given, circuit_breaker=None))
        await world.plane.until(lambda: len(world.plane.undelivered) == 5)
    assert {each.reason for each in world.plane.undelivered} == {TTL_ELAPSED}


async def test_with_a_shorter_trip_timeout_an_open_circuit_is_tried_sooner(world: World) -> None:
    async with opened(world, LONG) as (subscription, health):
        health.up = True
        world.plane.put(replace(subscription, circuit_breaker=SHORT))
        await world.plane.until(lambda: delivered(world, subscription.id) == 20)


async def test_suspended_and_resumed_it_is_still_open(world: World) -> None:
    async with opened(world, LONG) as (subscription, health):
        health.up = True
        world.suspend(subscription)
        await world.plane.until_applied()
        world.resume(subscription)
        await world.plane.until_applied()
        await a_while()
        assert len(world.endpoints.attempts) == 3
        await until_state(world, subscription, CircuitState.OPEN)


async def test_a_retry_after_that_is_longer_than_the_trip_timeout_is_obeyed(world: World) -> None:
    topic = await world.topic(partitions=1)
    quiet = Retry(reason="busy", status=503, retry_after=timedelta(seconds=1))
    replies = iter([quiet])
    world.endpoints.replies["http://s.test/"] = lambda _: next(replies, OK)
    once = replace(SHORT, errors_threshold=1)
    subscription = await subscribed(world, topic, once, in_flight_max=1)
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, b"0", b"1")
        await world.plane.until(lambda: delivered(world, subscription.id) == 2)
    first, second, _ = world.endpoints.attempts
    assert second.at - first.at >= 1


@pytest.mark.parametrize(
    ("failure", "settings"),
    [
        pytest.param(replace(DOWN, retry_after=LATER), {}, id="the subscriber asked for a pause"),
        pytest.param(DOWN, {"retry_buffer_max": 1}, id="a retry is next: the buffer is full"),
        pytest.param(DOWN, {"fetch": HOURLY}, id="a retry is next: the poll comes later"),
    ],
)
async def test_metrics_say_how_long_a_new_message_must_wait(
    world: World, failure: Retry, settings: dict[str, Any]
) -> None:
    settings = {"message_backoff": LATER, **settings}
    assert await time_to_probe_after(world, failure, b"0", b"1", **settings) >= LATER_S


async def test_no_time_is_told_if_nothing_waits(world: World) -> None:
    assert await time_to_probe_after(world, DOWN, b"0", max_retries=0) == 0


async def test_the_time_of_a_retry_is_told_if_there_is_nothing_new(world: World) -> None:
    assert await time_to_probe_after(world, DOWN, b"0", message_backoff=LATER) >= LATER_S


async def test_the_times_to_live_of_what_waits_behind_others_stand_too(world: World) -> None:
    topic = await world.topic(partitions=1)
    tries = Counter[bytes]()

    def second_fails_once(attempt: Attempt) -> Outcome:
        tries[attempt.body] += 1
        failing = tries[b"1"] <= 3 or (attempt.body == b"2" and tries[b"2"] == 1)
        return DOWN if failing else OK

    world.endpoints.replies["http://s.test/"] = second_fails_once
    second = replace(SHORT, trip_timeout=1_200)
    subscription = await world.subscribe(
        topic, message_ttl=timedelta(seconds=1), message_backoff=timedelta(0)
    )
    world.plane.put(replace(subscription, circuit_breaker=second, ordering=Ordering.KEY))
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, b"1", b"2", key=b"k")
        await world.plane.until(lambda: delivered(world, subscription.id) == 2)
    assert world.endpoints.bodies() == [b"1"] * 4 + [b"2"] * 2


async def test_order_is_kept_over_an_open_circuit(world: World) -> None:
    topic = await world.topic(partitions=1)
    health = Health(world, "http://s.test/")
    subscription = await subscribed(world, topic, SHORT, message_backoff=timedelta(0))
    world.plane.put(replace(subscription, circuit_breaker=SHORT, ordering=Ordering.PARTITION))
    bodies = [b"%d" % number for number in range(10)]
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *bodies)
        await until_state(world, subscription, CircuitState.OPEN)
        health.up = True
        await world.plane.until(lambda: delivered(world, subscription.id) == 10)
    assert [attempt.body for attempt in world.endpoints.attempts if attempt.retry_count == 0] == (
        bodies
    )
