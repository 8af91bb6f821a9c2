"""`traceparent`, as W3C Trace Context has it."""

import pytest

from app.otlp.context import SpanContext, context_in, parsed, with_context

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.parametrize(
    ("value", "sampled"),
    [
        (f"00-{TRACE}-{SPAN}-01", True),
        (f"00-{TRACE}-{SPAN}-00", False),
        (f"00-{TRACE}-{SPAN}-03", True),
        (f"cc-{TRACE}-{SPAN}-01", True),
        (f"cc-{TRACE}-{SPAN}-01-what-comes-later", True),
    ],
)
def test_says_the_trace_the_span_and_whether_it_is_recorded(value: str, sampled: bool) -> None:  # noqa: FBT001 - a case
    found = parsed(value.encode())
    assert found == SpanContext(bytes.fromhex(TRACE), bytes.fromhex(SPAN), sampled)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "00-1",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}-01 ",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff-{TRACE}-{SPAN}-01",
    ],
)
def test_what_the_standard_does_not_allow_says_nothing(value: str) -> None:
    assert parsed(value.encode()) is None


def test_what_is_written_is_read_again() -> None:
    context = SpanContext.root()
    assert parsed(context.header()) == context
    unsampled = context._replace(sampled=False)
    assert parsed(unsampled.header()) == unsampled


def test_a_child_is_another_span_of_the_same_trace() -> None:
    context = SpanContext.root()
    child = context.child()
    assert (child.trace_id, child.sampled) == (context.trace_id, True)
    assert child.span_id != context.span_id
    assert SpanContext.root().trace_id != context.trace_id


def test_a_context_takes_the_place_of_any_other() -> None:
    first, second = SpanContext.root(), SpanContext.root()
    headers = with_context([(b"a", b"1"), (b"Traceparent", first.header())], second)
    assert headers == [(b"a", b"1"), (b"traceparent", second.header())]
    assert context_in(headers) == second
    assert context_in([(b"a", b"1")]) is None


def test_what_tracers_say_to_each_other_goes_with_their_trace() -> None:
    context = SpanContext.root()
    headers = [
        (b"TraceState", b"vendor=1"),
        (b"traceparent", context.header()),
        (b"tracestate", b"other=2"),
    ]
    found = context_in(headers)
    assert found is not None
    assert found.state == "vendor=1,other=2"
    assert found.child().state == "vendor=1,other=2"
    assert context_in([(b"tracestate", b"vendor=1")]) is None


@pytest.mark.parametrize("state", [b"x" * 513, b"a=\xff", b"a=1\r\nb: 2"])
def test_what_may_not_be_passed_on_is_left_out(state: bytes) -> None:
    context = SpanContext.root()
    assert context_in([(b"traceparent", context.header()), (b"tracestate", state)]) == context
