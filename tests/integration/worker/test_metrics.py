"""What a worker shows of its deliveries, beside what its subscribers saw."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from http import HTTPStatus
from itertools import cycle

import httpx
import pytest

from app.domain.catalogue.filters import Filter, FilterType
from app.domain.catalogue.subscription import Subscription
from app.domain.circuit import ErrorType
from app.domain.delivery import Delivered, Discarded, Outcome, Retry
from app.domain.errors import TopicNotFoundError
from app.domain.streams import UNDELIVERED
from app.log.interface import LogTopic, Throttling
from app.metrics.name_cap import OTHER
from tests.fakes.egress import LOOPBACK
from tests.fakes.memory_log import MemoryLog
from tests.fakes.scraping import Scrape, scraped
from tests.fakes.subscriber import Subscriber
from tests.fakes.worker import PATIENCE_S, Attempt, World, delivered, until
from tests.integration.worker.batching import subscribed
from workers.delivery.sender import Sender
from workers.telemetry.status_address import Address
from workers.telemetry.status_page import StatusPage, served

OF = "hermes_consumers_subscription_"
SOON = timedelta(milliseconds=1)
AT_LEAST = timedelta(milliseconds=30)


@asynccontextmanager
async def watched(world: World, name: str = "w1") -> AsyncIterator[httpx.AsyncClient]:
    """A client of the page of that worker, whether it runs or not."""
    page = StatusPage()
    world.observers[name] = (page,)
    async with served(page, Address("127.0.0.1", 0)) as address:
        url = f"http://{address.host}:{address.port}"
        async with httpx.AsyncClient(base_url=url, timeout=30, trust_env=False) as http:
            yield http


def of_all_kinds() -> Iterator[Outcome]:
    return cycle(
        (
            Delivered(status=200),
            Retry(reason="busy", status=503),
            Delivered(status=204),
            Retry(reason="slow", error=ErrorType.TIMEOUT),
            Discarded(reason="no", status=400),
            Retry(reason="refused"),
            Delivered(status=202),
        )
    )


def finished(world: World, subscription: Subscription) -> int:
    of_it = [s for (i, _), s in world.plane.statuses.items() if i == subscription.id]
    return sum(s.delivered + s.discarded + s.filtered for s in of_it)


async def until_finished(world: World, subscription: Subscription, count: int) -> None:
    await world.plane.until(lambda: finished(world, subscription) >= count)


def counts(read: Scrape, *names: str) -> list[float]:
    return [read.value(f"{OF}{name}_total", topic="orders") for name in names]


async def test_counts_are_those_of_the_subscriber_and_of_the_reports() -> None:
    world = World()
    topic = await world.topic()
    subscription = await world.subscribe(topic, message_backoff=SOON, in_flight_max=3)
    outcomes, said = of_all_kinds(), list[Outcome]()

    def reply(_attempt: Attempt) -> Outcome:
        said.append(next(outcomes))
        return said[-1]

    world.endpoints.replies[subscription.endpoint] = reply
    async with watched(world) as http, world.worker():
        await world.publish(topic, *(b"%03d" % n for n in range(100)))
        await until_finished(world, subscription, 100)
        read = await scraped(http)
        lists = world.plane.undelivered
        await world.plane.until(lambda: len(lists) == counts(read, "discarded")[0])
    good = sum(isinstance(each, Delivered) for each in said)
    assert counts(read, "delivered", "throughput_bytes") == [good, 3 * good]
    assert good == delivered(world, subscription.id)
    assert read.value(f"{OF}discarded_total") == 100 - good
    assert read.by(f"{OF}http_status_codes_total", "status_code") == {
        "2xx": good,
        "4xx": sum(each.status == HTTPStatus.BAD_REQUEST for each in said),
        "5xx": sum(each.status == HTTPStatus.SERVICE_UNAVAILABLE for each in said),
    }
    assert counts(read, "timeouts", "other_errors") == [
        sum(isinstance(each, Retry) and each.timed_out for each in said),
        sum(each == Retry(reason="refused") for each in said),
    ]
    assert counts(read, "retries", "failures") == [len(said) - 100, len(said) - good]
    assert read.value(f"{OF}latency_seconds_count") == len(said)
    assert (
        read.samples[
            f"{OF}inflight",
            frozenset({("group", "shop"), ("topic", "orders"), ("subscription", "s")}),
        ]
        == 0
    )


async def test_requests_are_shown_by_how_long_they_took() -> None:
    world = World()
    topic = await world.topic()
    subscription = await world.subscribe(topic)
    world.endpoints.gate.clear()
    async with watched(world) as http, world.worker():
        assert (await scraped(http)).named(f"{OF}latency_seconds_count") == []
        await world.publish(topic, b"1", b"2")
        await world.endpoints.until(lambda: world.endpoints.in_flight == 2)
        began = time.monotonic()
        while time.monotonic() < began + AT_LEAST.total_seconds():
            await scraped(http)
        world.endpoints.gate.set()
        await until_finished(world, subscription, 2)
        read = await scraped(http)
    assert read.named(f"{OF}latency_seconds_bucket", le="0.025") == [0]
    assert read.named(f"{OF}latency_seconds_bucket", le="10.0") == [2]
    assert read.value(f"{OF}latency_seconds_sum") >= 2 * AT_LEAST.total_seconds()


async def test_what_filters_leave_out_is_counted_apart() -> None:
    world = World()
    topic = await world.topic()
    made = await world.subscribe(topic)
    even = Filter(type=FilterType.JSONPATH, path="$.n", matcher="[02468]")
    subscription = world.plane.put(replace(made, filters=(even,)))
    async with watched(world) as http, world.worker():
        await world.publish(topic, *(b'{"n":%d}' % n for n in range(10)), b"not json")
        await until_finished(world, subscription, 11)
        read = await scraped(http)
    assert counts(read, "delivered", "filtered_out", "unjudged") == [5, 6, 1]
    assert counts(read, "internal_errors") == [0]


async def test_messages_and_batches_are_counted_apart() -> None:
    world = World()
    topic = await world.topic(partitions=1)
    subscription = await subscribed(world, topic, batch_size=5)
    async with watched(world) as http, world.worker():
        await world.publish(topic, *(b"%d" % n for n in range(20)))
        await until_finished(world, subscription, 20)
        read = await scraped(http)
    assert counts(read, "delivered", "batches") == [20, len(world.endpoints.attempts)]
    assert len(world.endpoints.attempts) < 20


async def test_nothing_is_counted_twice_when_partitions_change_hands() -> None:
    world = World()
    topic = await world.topic(partitions=8)
    subscription = await world.subscribe(topic)
    async with watched(world, "w1") as first, watched(world, "w2") as second, world.worker("w1"):
        await world.publish(topic, *(b"%d" % n for n in range(50)))
        await until_finished(world, subscription, 50)
        async with world.worker("w2"):
            await world.plane.until(lambda: {"w1", "w2"} <= world.plane.beats.keys())
            await world.publish(topic, *(b"%d" % n for n in range(50, 100)))
            await until_finished(world, subscription, 100)
            both = [await scraped(http) for http in (first, second)]
        last = await scraped(first)
    assert sum(counts(read, "delivered")[0] for read in both) == len(world.endpoints.attempts)
    assert counts(last, "delivered") == counts(both[0], "delivered")


async def test_counts_go_on_where_they_were_after_a_suspension() -> None:
    world = World()
    topic = await world.topic()
    subscription = await world.subscribe(topic)
    async with watched(world) as http, world.worker():
        await world.publish(topic, b"1", b"2")
        await until_finished(world, subscription, 2)
        world.suspend(subscription)
        await world.plane.until_applied()
        assert counts(await scraped(http), "delivered") == [2]
        world.resume(subscription)
        await world.publish(topic, b"3")
        await until_finished(world, subscription, 3)
        assert counts(await scraped(http), "delivered") == [3]


async def test_a_name_that_was_another_subscription_s_is_one_series() -> None:
    world = World()
    topic = await world.topic()
    first = await world.subscribe(topic)
    async with watched(world) as http, world.worker():
        await world.publish(topic, b"1")
        await until_finished(world, first, 1)
        world.plane.delete(first)
        await world.plane.until_applied()
        second = await world.subscribe(topic)
        await world.plane.until_applied()
        await world.publish(topic, b"2", b"3")
        await until_finished(world, second, 2)
        assert counts(await scraped(http), "delivered") == [3]


async def test_of_many_subscriptions_the_first_are_named_and_the_others_summed_up() -> None:
    world = World()
    topic = await world.topic(partitions=1)
    subscriptions = [await world.subscribe(topic, f"s{n:02}") for n in range(30)]
    world.metrics_names_max = 3
    async with watched(world) as http, world.worker():
        await world.publish(topic, b"1", b"2")
        for subscription in subscriptions:
            await until_finished(world, subscription, 2)
        read = await scraped(http)
    named = read.by(f"{OF}delivered_total", "subscription")
    assert len(named) == 4
    assert (named.pop(OTHER), *named.values()) == (54, 2, 2, 2)


async def test_what_is_under_way_is_shown_with_the_parts_of_the_worker() -> None:
    world = World()
    topic = await world.topic(partitions=2)
    await world.subscribe(topic)
    world.endpoints.gate.clear()
    async with watched(world) as http, world.worker():
        await world.publish(topic, b"1", b"2", b"3")
        await world.endpoints.until(lambda: world.endpoints.in_flight == 3)
        read = await scraped(http)
        world.endpoints.gate.set()
    assert read.value(f"{OF}inflight") == 3
    assert read.value("angelia_worker_subscriptions") == 1
    assert read.value("angelia_worker_partitions") >= 2
    assert read.value("angelia_build_info") == 1


async def test_connections_are_those_of_the_sender() -> None:
    async with (
        Subscriber() as subscriber,
        Sender(egress=LOOPBACK) as sender,
    ):
        world = World(sender=sender)
        world.connections = sender.transport
        topic = await world.topic()
        subscription = await world.subscribe(topic, endpoint=subscriber.url)
        async with watched(world) as http, world.worker():
            await world.publish(topic, b"1")
            await until_finished(world, subscription, 1)
            read = await scraped(http)
        assert read.by("angelia_worker_connections", "state") == {"idle": 1}
        assert counts(read, "delivered") == [len(subscriber.received)]


async def said_as_text(http: httpx.AsyncClient) -> tuple[int, str]:
    """As the API answers, and Hermes."""
    answer = await http.get("/status/ready", headers={"Accept": "text/plain"})
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    both = await http.get("/status/ready", headers={"Accept": "application/json, text/plain"})
    assert both.json()["status"] == answer.text
    return answer.status_code, answer.text


async def test_health_says_which_brokers_throttle_the_worker() -> None:
    world = World()
    asked = {"Accept": "application/json"}
    async with watched(world) as http:
        assert (await http.get("/status/health", headers=asked)).json()["throttled"] == []
        async with world.worker():
            await world.plane.until_applied()
            world.memory.stats.throttles[3] = Throttling(2.5, time.monotonic())
            (line,) = (await http.get("/status/health", headers=asked)).json()["throttled"]
    assert line.startswith("broker 3 throttles this process: a quota of Kafka is used up")


async def test_a_worker_is_ready_once_it_knows_what_to_deliver_and_while_the_log_answers() -> None:
    world = World()
    await world.topic()
    async with watched(world) as http:
        assert (await http.get("/status/ready")).status_code == 503
        assert (await http.get("/metrics")).status_code == 503
        assert (await http.get("/status/health")).text == "UP"
        async with world.worker():
            await world.plane.until_applied()
            ready = await http.get("/status/ready")
            assert (ready.status_code, ready.json()["status"]) == (200, "READY")
            assert await said_as_text(http) == (200, "READY")
            world.memory.go_down()
            assert await said_as_text(http) == (503, "NOT_READY")
            unready = await http.get("/status/ready")
            assert unready.status_code == 503
            parts = {"subscriptions": True, "streams": True, "log": False}
            assert unready.json()["parts"] == parts
            assert unready.json()["waitingFor"] == {"log": "the log in memory is down"}
            world.memory.come_back()
        await until(world.plane.changed, lambda: True)
        assert (await http.get("/status/ready")).status_code == 503


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/", 404), ("GET", "/metrics/x", 404), ("POST", "/metrics", 405)],
)
async def test_nothing_else_is_answered(method: str, path: str, status: int) -> None:
    async with watched(World()) as http:
        assert (await http.request(method, path)).status_code == status


async def test_several_collectors_at_once_see_the_same() -> None:
    world = World()
    topic = await world.topic()
    subscription = await world.subscribe(topic)
    async with watched(world) as http, world.worker():
        await world.publish(topic, b"1", b"2")
        await until_finished(world, subscription, 2)
        reads = await asyncio.gather(*(scraped(http) for _ in range(5)))
    assert [counts(read, "delivered") for read in reads] == [[2]] * 5


async def test_an_address_that_is_taken_is_an_error_at_the_start() -> None:
    page = StatusPage()
    async with served(page, Address("127.0.0.1", 0)) as taken:
        with pytest.raises(OSError, match="in use"):
            async with served(page, taken):
                raise AssertionError(taken)


class UnknownStreams(MemoryLog):
    """A log that says of streams that were just made that there are none, until `heard`."""

    heard = False

    async def create_topic(self, topic: LogTopic) -> None:
        if topic.name == UNDELIVERED and not self.heard:
            raise TopicNotFoundError("nobody knows it yet")
        await super().create_topic(topic)


async def test_a_worker_lives_and_says_what_it_waits_for_while_its_streams_are_not_known() -> None:
    log = UnknownStreams()
    world = World(log=log)
    topic = await world.topic()
    subscription = await world.subscribe(topic)
    async with watched(world) as http, world.worker():
        await world.publish(topic, b"1")
        await world.endpoints.until(lambda: bool(world.endpoints.attempts))
        unready = await http.get("/status/ready")
        assert (unready.status_code, unready.json()["parts"]["streams"]) == (503, False)
        assert unready.json()["waitingFor"] == {"streams": f"{UNDELIVERED}: nobody knows it yet"}
        log.heard = True
        async with asyncio.timeout(PATIENCE_S):
            while (await http.get("/status/ready")).status_code != 200:
                pass
        await until_finished(world, subscription, 1)
