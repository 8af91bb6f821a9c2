"""Encodes spans and metrics for OTLP (opentelemetry-proto 1.x, protobuf)."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    HistogramDataPoint,
    NumberDataPoint,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric as OtlpMetric
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from app.metrics.catalogue import Metric, MetricKind
from app.metrics.readings import Distribution, Labels, Readings, Value
from app.otlp.spans import Attribute, Span

SCOPE: Final = "angelia"
# The number of values that are encoded in one turn of the event loop. This takes about a
# millisecond.
POINTS_PER_TURN: Final = 100

_CUMULATIVE: Final = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
_UNITS: Final = {"bytes": "By", "seconds": "s", "boolean": "1", "constant": "1"}

Resource = Mapping[str, Attribute]


def encoded_spans(spans: Iterable[Span], resource: Resource) -> bytes:
    """Return the request that exports these spans."""
    request = ExportTraceServiceRequest()
    of_resource = request.resource_spans.add()
    of_resource.resource.attributes.extend(_attributes(resource))
    of_scope = of_resource.scope_spans.add()
    of_scope.scope.name = SCOPE
    of_scope.spans.extend(_span(each) for each in spans)
    return request.SerializeToString()


async def encoded_metrics(
    readings: Readings, resource: Resource, *, start_ns: int, now_ns: int
) -> bytes:
    """Return the request that exports these values of metrics, which were read at `now_ns`.

    Counters count since `start_ns`. Both times are in nanoseconds since the epoch.
    """
    request = ExportMetricsServiceRequest()
    of_resource = request.resource_metrics.add()
    of_resource.resource.attributes.extend(_attributes(resource))
    of_scope = of_resource.scope_metrics.add()
    of_scope.scope.name = SCOPE
    for metric, values in readings:
        encoding = _Encoding(metric, of_scope.metrics.add(), (start_ns, now_ns))
        for first in range(0, len(values), POINTS_PER_TURN):
            encoding.add(values[first : first + POINTS_PER_TURN])
            await asyncio.sleep(0)
    return request.SerializeToString()


class _Encoding:
    """Encodes one metric. Its values are added one by one, as data points."""

    def __init__(self, metric: Metric, made: OtlpMetric, times: tuple[int, int]) -> None:
        self._metric = metric
        self._made = made
        self._start_ns, self._now_ns = times
        # Remove the suffix `_total` from the metric's name, because Prometheus adds this suffix
        # again.
        made.name = metric.name.removesuffix("_total")
        made.description = metric.help
        made.unit = _UNITS.get(metric.unit, f"{{{metric.unit}}}")

    def add(self, values: Sequence[tuple[Labels, Value]]) -> None:
        match self._metric.kind:
            case MetricKind.COUNTER:
                self._made.sum.aggregation_temporality = _CUMULATIVE
                self._made.sum.is_monotonic = True
                self._made.sum.data_points.extend(self._number(*each) for each in values)
            case MetricKind.GAUGE:
                self._made.gauge.data_points.extend(self._number(*each) for each in values)
            case MetricKind.HISTOGRAM:
                self._made.histogram.aggregation_temporality = _CUMULATIVE
                self._made.histogram.data_points.extend(
                    self._distribution(*each) for each in values
                )

    def _number(self, labels: Labels, value: Value) -> NumberDataPoint:
        point = NumberDataPoint(
            attributes=self._labels(labels),
            start_time_unix_nano=self._start_ns if self._metric.kind is MetricKind.COUNTER else 0,
            time_unix_nano=self._now_ns,
        )
        if isinstance(value, int):
            point.as_int = value
        elif isinstance(value, float):
            point.as_double = value
        return point

    def _distribution(self, labels: Labels, value: Value) -> HistogramDataPoint:
        if not isinstance(value, Distribution):
            raise TypeError(f"{self._metric.name} is a histogram")
        return HistogramDataPoint(
            attributes=self._labels(labels),
            start_time_unix_nano=self._start_ns,
            time_unix_nano=self._now_ns,
            count=sum(value.counts),
            sum=value.total,
            bucket_counts=value.counts,
            explicit_bounds=value.bounds,
        )

    def _labels(self, labels: Labels) -> list[KeyValue]:
        return _attributes(dict(zip(self._metric.labels, labels, strict=True)))


def _span(span: Span) -> OtlpSpan:
    made = OtlpSpan(
        trace_id=span.context.trace_id,
        span_id=span.context.span_id,
        trace_state=span.context.state,
        parent_span_id=span.parent.span_id if span.parent else b"",
        name=span.name,
        kind=OtlpSpan.SpanKind.ValueType(span.kind),
        start_time_unix_nano=span.start_ns,
        end_time_unix_nano=span.end_ns,
        attributes=_attributes(span.attributes),
    )
    for linked in span.links:
        made.links.add(trace_id=linked.trace_id, span_id=linked.span_id, trace_state=linked.state)
    if span.error:
        made.status.code = Status.StatusCode.STATUS_CODE_ERROR
        made.status.message = span.error
    return made


def _attributes(attributes: Mapping[str, Attribute]) -> list[KeyValue]:
    return [KeyValue(key=key, value=_value(value)) for key, value in attributes.items()]


def _value(value: Attribute) -> AnyValue:
    match value:
        case bool():
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case str():
            return AnyValue(string_value=value)
