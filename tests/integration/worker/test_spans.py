"""Attempts at messages of recorded traces, as an OTLP endpoint hears of them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from app.config import Settings
from app.domain.catalogue.topic import Topic
from app.domain.message import HEADER_ID, HEADER_PROPAGATED_PREFIX, NewRecord
from app.otlp.context import SpanContext, parsed
from app.otlp.exporter import Otlp, open_otlp
from app.otlp.spans import Span, SpanBuffer, SpanKind
from tests.fakes.egress import LOOPBACK
from tests.fakes.otlp import Collector, attributes
from tests.fakes.subscriber import Received, Reply, Subscriber
from tests.fakes.worker import World
from tests.integration.worker.batching import subscribed
from workers.delivery.sender import Sender
from workers.telemetry.export import Exported

SOON = timedelta(milliseconds=20)


@asynccontextmanager
async def exporting(collector: Collector, **settings: str) -> AsyncIterator[Otlp]:
    """An export that is in no hurry, but for tests."""
    given = Settings(**settings)  # type: ignore[arg-type]  # parsed there
    soon = {"spans_every": SOON, "metrics_every": SOON}
    async with open_otlp(collector.url, given, "w1", **soon) as otlp:
        yield otlp


@asynccontextmanager
async def a_world(otlp: Otlp) -> AsyncIterator[World]:
    async with Sender(egress=LOOPBACK, spans=otlp.spans) as sender:
        world = World(sender=sender)
        world.observers["w1"] = (Exported(otlp),)
        world.spans = otlp.spans
        yield world


def carrying(body: bytes, traceparent: bytes, message_id: bytes = b"m") -> NewRecord:
    return NewRecord(
        value=body,
        headers=((HEADER_ID, message_id), (HEADER_PROPAGATED_PREFIX + b"traceparent", traceparent)),
    )


def a_span() -> Span:
    return Span(name="x", kind=SpanKind.CLIENT, context=SpanContext.root(), start_ns=1, end_ns=2)


async def publish(world: World, topic: Topic, *records: NewRecord) -> None:
    await world.log.append(topic.name, records)


async def test_the_attempt_is_below_the_publication_and_above_the_subscriber() -> None:
    published = SpanContext.root()
    async with (
        Collector() as collector,
        Subscriber() as subscriber,
        exporting(collector) as otlp,
        a_world(otlp) as world,
    ):
        topic = await world.topic(partitions=1)
        subscription = await world.subscribe(topic, endpoint=subscriber.url)
        async with world.worker():
            await publish(world, topic, carrying(b"1", published.header(), b"id-1"))
            await collector.until(lambda: len(collector.spans()) == 2)
        (wait,), (attempt,) = (
            collector.spans(f"wait {topic.name}/s"),
            collector.spans(f"deliver {topic.name}/s"),
        )
        (received,) = subscriber.received
    assert {wait.trace_id, attempt.trace_id} == {published.trace_id}
    assert {wait.parent_span_id, attempt.parent_span_id} == {published.span_id}
    carried = parsed(received.headers["traceparent"].encode())
    assert carried == SpanContext(published.trace_id, attempt.span_id, sampled=True)
    said = attributes(attempt.attributes)
    assert said["messaging.message.id"] == "id-1"
    assert said["messaging.consumer.group.name"] == subscription.group
    assert said["http.response.status_code"] == 200
    assert wait.end_time_unix_nano == attempt.start_time_unix_nano
    assert 0 < attempt.start_time_unix_nano < attempt.end_time_unix_nano


async def test_each_attempt_has_a_span_with_its_answer() -> None:
    published = SpanContext.root()

    def reply(received: Received) -> Reply:
        return Reply(status=503 if received.retry_count == 0 else 200)

    async with (
        Collector() as collector,
        Subscriber(reply) as subscriber,
        exporting(collector) as otlp,
        a_world(otlp) as world,
    ):
        topic = await world.topic(partitions=1)
        await world.subscribe(topic, endpoint=subscriber.url, message_backoff=SOON)
        async with world.worker():
            await publish(world, topic, carrying(b"1", published.header()))
            await collector.until(lambda: len(collector.spans()) == 3)
        first, second = collector.spans(f"deliver {topic.name}/s")
        carried = [parsed(r.headers["traceparent"].encode()) for r in subscriber.received]
    assert [first.status.code, second.status.code] == [Status.StatusCode.STATUS_CODE_ERROR, 0]
    assert "503" in first.status.message
    assert [attributes(s.attributes)["http.request.resend_count"] for s in (first, second)] == [
        0,
        1,
    ]
    assert [c and c.span_id for c in carried] == [first.span_id, second.span_id]


@pytest.mark.parametrize(
    "traceparent",
    [SpanContext.root()._replace(sampled=False).header(), b"00-1", b""],
    ids=["not sampled", "malformed", "empty"],
)
async def test_what_is_not_recorded_goes_on_as_it_came(traceparent: bytes) -> None:
    spans = SpanBuffer()
    async with Subscriber() as subscriber, Sender(egress=LOOPBACK, spans=spans) as sender:
        world = World(sender=sender)
        topic = await world.topic(partitions=1)
        await world.subscribe(topic, endpoint=subscriber.url)
        async with world.worker():
            await publish(world, topic, carrying(b"1", traceparent))
            (received,) = await subscriber.wait_for(1)
    assert received.headers["traceparent"].encode() == traceparent
    assert len(spans) == 0


async def test_a_batch_is_linked_to_the_messages_in_it() -> None:
    published = [SpanContext.root() for _ in range(3)]
    async with (
        Collector() as collector,
        Subscriber() as subscriber,
        exporting(collector) as otlp,
        a_world(otlp) as world,
    ):
        topic = await world.topic(partitions=1)
        await subscribed(world, topic, endpoint=subscriber.url, batch_size=4)
        async with world.worker():
            records = [carrying(b"1", each.header()) for each in published]
            await publish(world, topic, *records, NewRecord(value=b"2"))
            await collector.until(lambda: len(collector.spans()) == 1)
        (span,), (received,) = collector.spans(), subscriber.received
    assert [link.span_id for link in span.links] == [each.span_id for each in published]
    carried = parsed(received.headers["traceparent"].encode())
    assert carried == SpanContext(span.trace_id, span.span_id, sampled=True)


async def test_spans_wait_while_the_endpoint_is_busy_and_those_it_refuses_are_counted() -> None:
    async with Collector(Reply(status=503)) as collector, exporting(collector) as otlp:
        world = World(sender=None)
        world.observers["w1"], world.spans = (Exported(otlp),), otlp.spans
        async with world.worker():
            otlp.spans.add(a_span())
            await collector.until(lambda: len(collector.spans()) >= 2)
            assert otlp.spans.stats == (0, 0)
            collector.reply = Reply(status=400)
            await collector.until(lambda: otlp.spans.stats.lost == 1)
            collector.reply = Reply()
            otlp.spans.add(a_span())
            await collector.until(lambda: otlp.spans.stats.exported == 1)


async def test_the_last_spans_are_sent_at_the_end() -> None:
    async with Collector() as collector:
        async with exporting(collector) as otlp:
            otlp.spans.add(a_span())
        assert [span.name for span in collector.spans()] == ["x"]


async def test_metrics_go_with_the_headers_that_are_set() -> None:
    async with (
        Collector() as collector,
        exporting(collector, otlp_headers="X-Key=secret,X-Team=shop") as otlp,
    ):
        world = World()
        world.observers["w1"], world.spans = (Exported(otlp),), otlp.spans
        topic = await world.topic(partitions=1)
        await world.subscribe(topic)
        async with world.worker():
            await world.publish(topic, b"1", b"2")
            await collector.until(lambda: delivered(collector) == 2)
        headers = collector.received[-1].headers
    assert (headers["x-key"], headers["x-team"]) == ("secret", "shop")
    assert headers["content-type"] == "application/x-protobuf"
    assert collector.services()[-1]["service.instance.id"] == "w1"


def delivered(collector: Collector) -> int:
    """As the endpoint was told last."""
    reports = collector.metrics("hermes_consumers_subscription_delivered")
    return reports[-1].sum.data_points[0].as_int if reports else 0
