"""Spans that wait: bounded, and accounted for."""

from app.otlp.context import SpanContext
from app.otlp.spans import Span, SpanBuffer, SpanKind, SpanStats


def a_span(name: str) -> Span:
    return Span(name=name, kind=SpanKind.CLIENT, context=SpanContext.root(), start_ns=1, end_ns=2)


def test_what_finds_no_room_is_counted_as_lost() -> None:
    buffer = SpanBuffer(spans_max=2)
    for name in "abc":
        buffer.add(a_span(name))
    assert [span.name for span in buffer.first(9)] == ["a", "b"]
    assert buffer.stats == SpanStats(exported=0, lost=1)


def test_spans_wait_until_they_are_done() -> None:
    buffer = SpanBuffer()
    for name in "abc":
        buffer.add(a_span(name))
    assert buffer.first(2) == buffer.first(2)
    buffer.done(2, exported=True)
    buffer.done(1, exported=False)
    assert (len(buffer), buffer.stats) == (0, SpanStats(exported=2, lost=1))
