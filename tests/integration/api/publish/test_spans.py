"""Publishing, as an OTLP endpoint hears of it, and what messages carry on."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Status
from pydantic import SecretStr

from app.config import Settings
from app.main import create_app
from app.otlp.context import SpanContext, parsed
from tests.fakes.memory_log import MemoryLog
from tests.fakes.otlp import Collector, attributes
from tests.integration.api.server import given, serving

TOPIC = "shop.orders"


@asynccontextmanager
async def an_api(
    postgres_url: str, log: MemoryLog, collector: Collector | None, *, sample: float = 0
) -> AsyncIterator[httpx.AsyncClient]:
    """With a topic; the last spans have been sent when the block is left."""
    endpoint = None if collector is None else SecretStr(collector.url)
    settings = Settings(otlp_endpoint=endpoint, otlp_sample=sample)
    async with serving(create_app(settings, database_url=postgres_url, log=given(log))) as api:
        (await api.post("/topics", json={"name": TOPIC})).raise_for_status()
        yield api


def carried(log: MemoryLog) -> list[SpanContext | None]:
    """What the messages in the log say of their traces."""
    found = [record.header(b"h-traceparent") for record in log.records(TOPIC)]
    return [parsed(value) if value else None for value in found]


async def test_a_publication_continues_the_trace_of_its_publisher(
    postgres_url: str, log: MemoryLog
) -> None:
    publisher = SpanContext.root()
    headers = {"traceparent": publisher.header().decode()}
    async with Collector() as collector:
        async with an_api(postgres_url, log, collector) as api:
            answer = await api.post(f"/topics/{TOPIC}", content=b"1", headers=headers)
        (span,) = collector.spans(f"send {TOPIC}")
    assert (span.trace_id, span.parent_span_id) == (publisher.trace_id, publisher.span_id)
    assert carried(log) == [SpanContext(publisher.trace_id, span.span_id, sampled=True)]
    assert attributes(span.attributes) == {
        "messaging.system": "angelia",
        "messaging.operation.type": "send",
        "messaging.destination.name": TOPIC,
        "messaging.message.id": answer.headers["Hermes-Message-Id"],
        "http.response.status_code": 201,
    }
    assert 0 < span.start_time_unix_nano < span.end_time_unix_nano


async def test_what_other_systems_say_of_the_trace_goes_along(
    postgres_url: str, log: MemoryLog
) -> None:
    headers = {"traceparent": SpanContext.root().header().decode(), "tracestate": "a=1,b=2"}
    async with an_api(postgres_url, log, None) as api:
        await api.post(f"/topics/{TOPIC}", content=b"1", headers=headers)
    (record,) = log.records(TOPIC)
    assert record.header(b"h-tracestate") == b"a=1,b=2"


async def test_all_messages_of_a_batch_are_below_its_span(
    postgres_url: str, log: MemoryLog
) -> None:
    headers = {"traceparent": SpanContext.root().header().decode()}
    async with Collector() as collector:
        async with an_api(postgres_url, log, collector) as api:
            await api.post(f"/topics/{TOPIC}/batch", json=[1, 2], headers=headers)
        (span,) = collector.spans(f"send {TOPIC}")
    assert [each and each.span_id for each in carried(log)] == [span.span_id] * 2


@pytest.mark.parametrize(("share", "spans"), [(1.0, 3), (0.0, 0)])
async def test_of_messages_without_a_trace_a_share_gets_one(
    postgres_url: str, log: MemoryLog, share: float, spans: int
) -> None:
    async with Collector() as collector:
        async with an_api(postgres_url, log, collector, sample=share) as api:
            for _ in range(3):
                await api.post(f"/topics/{TOPIC}", content=b"1")
        assert len({span.trace_id for span in collector.spans()}) == spans
        assert all(not span.parent_span_id for span in collector.spans())
    assert len([each for each in carried(log) if each]) == spans


async def test_who_began_a_trace_decides_that_it_is_not_recorded(
    postgres_url: str, log: MemoryLog
) -> None:
    publisher = SpanContext.root()._replace(sampled=False)
    headers = {"traceparent": publisher.header().decode()}
    async with Collector() as collector:
        async with an_api(postgres_url, log, collector, sample=1.0) as api:
            await api.post(f"/topics/{TOPIC}", content=b"1", headers=headers)
        assert collector.spans() == []
    assert carried(log) == [publisher]


async def test_what_could_not_be_stored_is_an_error_in_its_span(
    postgres_url: str, log: MemoryLog
) -> None:
    async with Collector() as collector:
        async with an_api(postgres_url, log, collector, sample=1.0) as api:
            log.go_down()
            await api.post(f"/topics/{TOPIC}", content=b"1")
        (span,) = collector.spans()
    assert span.status.code == Status.StatusCode.STATUS_CODE_ERROR
    assert attributes(span.attributes)["http.response.status_code"] == 503


async def test_without_an_endpoint_the_trace_of_the_publisher_goes_on_as_it_came(
    postgres_url: str, log: MemoryLog
) -> None:
    publisher = SpanContext.root()
    headers = {"traceparent": publisher.header().decode()}
    async with an_api(postgres_url, log, None, sample=1.0) as api:
        await api.post(f"/topics/{TOPIC}", content=b"1", headers=headers)
        await api.post(f"/topics/{TOPIC}", content=b"2")
    assert carried(log) == [publisher, None]


async def test_an_endpoint_that_is_gone_holds_up_neither_publishing_nor_the_end(
    postgres_url: str, log: MemoryLog, unused_port: int
) -> None:
    gone = Collector(port=unused_port)
    async with an_api(postgres_url, log, gone, sample=1.0) as api:
        answer = await api.post(f"/topics/{TOPIC}", content=b"1")
    assert answer.status_code == 201
