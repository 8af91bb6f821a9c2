"""Real payloads with mixed outcomes: what is shown to collectors is what the receiver saw."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import httpx

from app.otlp.context import SpanContext, parsed
from tests.e2e.accounts import Mixed, agree
from tests.e2e.events import some_events
from tests.e2e.service import Service, eventually, has_all, running
from tests.fakes.otlp import Collector
from tests.fakes.scraping import Scrape, scraped
from tests.fakes.subscriber import Subscriber
from tests.servers.ports import free_port
from tests.servers.service import ONE_LOG

TOPIC = "github.events"
LIFE = "angelia_subscription_"
OF_WORKER = "hermes_consumers_subscription_"
PARTS = ((0, 50), (50, 140), (140, None))


@asynccontextmanager
async def a_service(
    configuration: Mapping[str, str], logs: Path, collector: Collector
) -> AsyncIterator[tuple[Service, httpx.AsyncClient]]:
    """A service that is collected from, and a client of its worker's page."""
    address = f"127.0.0.1:{free_port()}"
    telling = {"ANGELIA_WORKER_ADDRESS": address, "ANGELIA_OTLP_ENDPOINT": collector.url}
    async with (
        running({**configuration, **telling}, logs) as service,
        httpx.AsyncClient(base_url=f"http://{address}", timeout=30, trust_env=False) as page,
    ):
        await until_ready(page)
        yield service, page


async def until_ready(page: httpx.AsyncClient) -> None:
    async def is_ready() -> bool:
        try:
            return (await page.get("/status/ready")).is_success
        except httpx.TransportError:
            return False

    await eventually(is_ready)


def life(read: Scrape) -> tuple[float, float, float]:
    """Messages delivered and discarded, and bytes delivered, since the subscription began."""
    names = ("delivered_total", "discarded_total", "delivered_bytes_total")
    delivered, discarded, size = (read.value(LIFE + name) for name in names)
    return delivered, discarded, size


async def scraped_when(service: Service, lived: tuple[float, float, float]) -> Scrape:
    """What is shown once that is, and that nothing waits."""
    found: list[Scrape] = []

    async def is_shown() -> bool:
        found[:] = [await scraped(service.http)]
        return life(found[0]) == lived and found[0].value(f"{LIFE}lag_messages") == 0

    await eventually(is_shown)
    return found[0]


async def has_counted(service: Service) -> bool:
    """Return whether a delivery is committed and shown."""
    return life(await scraped(service.http))[0] > 0


@ONE_LOG
async def test_counters_metrics_undelivered_and_receiver_agree(
    configuration: Mapping[str, str], logs: Path
) -> None:
    events = some_events()
    mixed = Mixed(events.refused)
    async with (
        Collector() as collector,
        Subscriber(mixed) as receiver,
        a_service(configuration, logs, collector) as (service, page),
    ):
        await service.topic(TOPIC, partitions=4)
        path = await service.subscribe(TOPIC, "all", receiver.url, messageBackoff=50)
        messages = await service.publish_all(TOPIC, events.bodies)
        refused = [each for each, body in messages.items() if body in events.refused]
        good = {each: body for each, body in messages.items() if body not in events.refused}
        await agree(service, path, delivered=len(good), refused=refused)
        size = sum(map(len, good.values()))
        # What it shows may be a second old.
        read = await scraped_when(service, (len(good), len(refused), size))
        of_worker = await scraped(page)
    answers = [status for each in mixed.answers.values() for _, status in each]
    assert read.value("angelia_topic_published_total") == len(messages)
    assert read.value("hermes_frontend_topic_published_total") == len(messages)
    assert read.value("angelia_workers") == 1
    for each in (read, of_worker):
        assert each.value("angelia_event_loop_tasks") > 0
        assert each.value("angelia_event_loop_lag_seconds") > 0
    names = ("delivered", "discarded", "throughput_bytes", "retries")
    shown = [of_worker.value(f"{OF_WORKER}{name}_total") for name in names]
    assert shown == [len(good), len(refused), size, len(answers) - len(messages)]
    assert of_worker.value(f"{OF_WORKER}latency_seconds_count") == len(answers)
    assert of_worker.by(f"{OF_WORKER}http_status_codes_total", "status_code") == {
        f"{kind}xx": sum(status // 100 == kind for status in answers) for kind in (2, 4, 5)
    }


@ONE_LOG
async def test_each_message_counts_once_whatever_dies(
    configuration: Mapping[str, str], logs: Path
) -> None:
    events = some_events()
    mixed = Mixed(events.refused, delay=0.01)
    async with (
        Collector() as collector,
        Subscriber(mixed) as receiver,
        a_service(configuration, logs, collector) as (service, page),
    ):
        await service.topic(TOPIC, partitions=4)
        path = await service.subscribe(TOPIC, "all", receiver.url, messageBackoff=50, inFlightMax=4)
        # Some are counted by the first worker, some are on their way when it is killed, and some
        # are left for the second one, however late this process is.
        counted, on_their_way, left = (events.bodies[i:j] for i, j in PARTS)
        messages = await service.publish_all(TOPIC, counted)
        await eventually(partial(has_counted, service))
        messages |= await service.publish_all(TOPIC, on_their_way)
        await service.processes[-1].kill()
        await service.worker()
        await until_ready(page)
        messages |= await service.publish_all(TOPIC, left)
        await has_all(receiver, messages)
        refused = [each for each, body in messages.items() if body in events.refused]
        good = {each: body for each, body in messages.items() if body not in events.refused}
        await agree(service, path, delivered=len(good), refused=refused)
        await scraped_when(service, (len(good), len(refused), sum(map(len, good.values()))))
        of_worker = await scraped(page)
    assert 0 < of_worker.value(f"{OF_WORKER}delivered_total") < len(good)


async def test_a_trace_goes_on_from_the_publisher_to_the_subscriber(
    on_embedded_log: Mapping[str, str], logs: Path
) -> None:
    publisher = SpanContext.root()
    async with (
        Collector() as collector,
        Subscriber() as receiver,
        a_service(on_embedded_log, logs, collector) as (service, _),
    ):
        await service.topic(TOPIC)
        path = await service.subscribe(TOPIC, "all", receiver.url)
        header = publisher.header().decode()
        message_id = await service.publish(TOPIC, b"{}", traceparent=header)
        await service.accounted(path, 1)
        # A collector that stands still for longer than a process takes to end hears no more.
        await collector.until(lambda: len(collector.spans()) >= 3)
        for process in service.processes:
            assert await process.stop() == 0
    # On a busy machine, a message may be sent again, and a span reported again. So follow the spans
    # of one request back from what it carried.
    received = receiver.received[0]
    carried = parsed(received.headers["traceparent"].encode())
    assert carried is not None
    assert carried.sampled
    deliver = collector.span(f"deliver {TOPIC}/all", span_id=carried.span_id)
    send = collector.span(f"send {TOPIC}", span_id=deliver.parent_span_id)
    wait = collector.span(f"wait {TOPIC}/all", parent_span_id=send.span_id)
    trace_ids = {carried.trace_id, *(each.trace_id for each in (send, wait, deliver))}
    assert trace_ids == {publisher.trace_id}
    assert send.parent_span_id == publisher.span_id
    assert received.message_id == message_id
