"""What an endpoint is sent, as OpenTelemetry's own messages read it."""

from collections.abc import Mapping

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from app.metrics import catalogue
from app.metrics.readings import Distribution, Readings
from app.otlp.context import SpanContext
from app.otlp.encoding import encoded_metrics, encoded_spans
from app.otlp.spans import Span, SpanKind
from tests.fakes.otlp import attributes

RESOURCE = {"service.name": "angelia", "service.instance.id": "w1"}


def decoded(spans: list[Span]) -> list[OtlpSpan]:
    request = ExportTraceServiceRequest.FromString(encoded_spans(spans, RESOURCE))
    (of_resource,) = request.resource_spans
    assert attributes(of_resource.resource.attributes) == RESOURCE
    (of_scope,) = of_resource.scope_spans
    return list(of_scope.spans)


async def shown(readings: Readings) -> Mapping[str, Metric]:
    request = ExportMetricsServiceRequest.FromString(
        await encoded_metrics(readings, RESOURCE, start_ns=5, now_ns=9)
    )
    return {m.name: m for m in request.resource_metrics[0].scope_metrics[0].metrics}


def test_a_span_says_where_it_belongs_what_it_was_and_how_it_ended() -> None:
    parent = SpanContext.root()
    links = (SpanContext.root()._replace(state="vendor=2"), SpanContext.root())
    given = Span(
        name="deliver a.b/s",
        kind=SpanKind.CLIENT,
        context=parent.child(),
        parent=parent,
        links=links,
        start_ns=10,
        end_ns=30,
        attributes={"text": "x", "number": 7, "share": 0.5, "yes": True},
        error="it was busy",
    )
    (span,) = decoded([given])
    assert (span.trace_id, span.span_id) == (parent.trace_id, given.context.span_id)
    assert span.parent_span_id == parent.span_id
    assert [link.span_id for link in span.links] == [link.span_id for link in links]
    assert [link.trace_state for link in span.links] == ["vendor=2", ""]
    assert (span.name, span.kind) == ("deliver a.b/s", OtlpSpan.SpanKind.SPAN_KIND_CLIENT)
    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (10, 30)
    assert attributes(span.attributes) == given.attributes
    assert span.status.code == Status.StatusCode.STATUS_CODE_ERROR
    assert span.status.message == "it was busy"


def test_a_root_that_went_well_has_neither_parent_nor_error() -> None:
    context = SpanContext.root()
    (span,) = decoded(
        [Span(name="send a.b", kind=SpanKind.PRODUCER, context=context, start_ns=1, end_ns=2)]
    )
    assert (span.parent_span_id, span.status.code) == (b"", 0)
    assert span.kind == OtlpSpan.SpanKind.SPAN_KIND_PRODUCER


async def test_metrics_are_what_the_readings_say() -> None:
    readings = Readings()
    readings.add(catalogue.DELIVERED, 2**60, ("shop", "orders", "billing"))
    readings.add(catalogue.OUTPUT_RATE, 1.5, ("shop", "orders", "billing"))
    took = Distribution((0.5, 1.0), (2, 1, 4), 9.5)
    readings.add(catalogue.ACK_ALL_LATENCY, took, ("shop", "orders"))
    metrics = await shown(readings)
    counter = metrics["hermes_consumers_subscription_delivered"].sum
    assert counter.is_monotonic
    assert counter.aggregation_temporality == (
        AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    )
    (point,) = counter.data_points
    assert (point.as_int, point.start_time_unix_nano, point.time_unix_nano) == (2**60, 5, 9)
    assert attributes(point.attributes) == {
        "group": "shop",
        "topic": "orders",
        "subscription": "billing",
    }
    assert metrics["angelia_subscription_output_rate"].gauge.data_points[0].as_double == 1.5
    (latency,) = metrics["hermes_frontend_topic_ack_all_latency_seconds"].histogram.data_points
    assert (latency.count, latency.sum) == (7, 9.5)
    assert (list(latency.bucket_counts), list(latency.explicit_bounds)) == ([2, 1, 4], [0.5, 1.0])


async def test_many_series_are_all_there() -> None:
    readings = Readings()
    for number in range(1_000):
        readings.add(catalogue.DELIVERED, number, ("shop", "orders", str(number)))
    (metric,) = (await shown(readings)).values()
    assert [point.as_int for point in metric.sum.data_points] == list(range(1_000))
