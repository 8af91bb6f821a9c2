"""An OTLP endpoint that decodes what it receives with OpenTelemetry's own classes."""

from collections.abc import Callable, Iterable, Mapping

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.fakes.subscriber import PATIENCE_S, Subscriber


def attributes(given: Iterable[KeyValue]) -> dict[str, object]:
    """Return the values of attributes of any type, by name."""
    return {each.key: getattr(each.value, str(each.value.WhichOneof("value"))) for each in given}


class Collector(Subscriber):
    """A receiver of OTLP over HTTP: `async with Collector() as collector`."""

    def spans(self, name: str | None = None) -> list[Span]:
        """Return all received spans, or those with this name."""
        found: list[Span] = []
        for request in self._requests("/v1/traces"):
            for of_resource in ExportTraceServiceRequest.FromString(request).resource_spans:
                for of_scope in of_resource.scope_spans:
                    found += of_scope.spans
        return [span for span in found if name in {None, span.name}]

    def span(self, name: str, **ids: bytes) -> Span:
        """Return a received span with this name and these ids, for example `span_id`.

        Raises:
            StopIteration: There is none.
        """
        wanted = ids.items()
        return next(
            span
            for span in self.spans(name)
            if all(getattr(span, key) == value for key, value in wanted)
        )

    def services(self) -> list[Mapping[str, object]]:
        """Return the attributes of the sender for each received report of metrics."""
        return [
            attributes(of_resource.resource.attributes)
            for request in self._requests("/v1/metrics")
            for of_resource in ExportMetricsServiceRequest.FromString(request).resource_metrics
        ]

    def metrics(self, name: str) -> list[Metric]:
        """Return all received reports of a metric, oldest first."""
        return [
            metric
            for request in self._requests("/v1/metrics")
            for of_resource in ExportMetricsServiceRequest.FromString(request).resource_metrics
            for of_scope in of_resource.scope_metrics
            for metric in of_scope.metrics
            if metric.name == name
        ]

    async def until(self, predicate: Callable[[], bool], timeout_s: float = PATIENCE_S) -> None:
        """Wait until the predicate is true; it is checked after each received request."""
        await self.wait_until(predicate, timeout_s)

    def _requests(self, path: str) -> Iterable[bytes]:
        return (each.body for each in self.received if each.path == path)
