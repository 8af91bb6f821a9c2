"""The trace context of requests: `traceparent` and `tracestate` (W3C Trace Context, level 1)."""

import re
import secrets
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

TRACEPARENT: Final = b"traceparent"
TRACESTATE: Final = b"tracestate"
# The longest accepted `tracestate`. The standard allows to drop a longer one.
_STATE_LENGTH_MAX: Final = 512

_SAMPLED: Final = 1
# The form of `traceparent`. Future versions may add fields after the flags; version ff is not
# valid.
_FORM: Final = re.compile(
    rb"(?!ff)(?P<version>[0-9a-f]{2})-(?P<trace>(?!0{32})[0-9a-f]{32})"
    rb"-(?P<span>(?!0{16})[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})(?P<rest>-.*)?"
)


class SpanContext(NamedTuple):
    """The ids of a span (an operation) and of its trace, and whether the trace is recorded.

    `state` is the value of `tracestate`, which tracing systems use.
    """

    trace_id: bytes
    span_id: bytes
    sampled: bool
    state: str = ""

    @classmethod
    def root(cls) -> "SpanContext":
        """Return a new span without a parent, in a new trace that is recorded."""
        return cls(secrets.token_bytes(16), secrets.token_bytes(8), sampled=True)

    def child(self) -> "SpanContext":
        """Return a new child span of this span."""
        return self._replace(span_id=secrets.token_bytes(8))

    def header(self) -> bytes:
        """Return the value of a `traceparent` header that names this span as the parent."""
        trace, span = self.trace_id.hex().encode(), self.span_id.hex().encode()
        return b"00-%b-%b-%02x" % (trace, span, int(self.sampled))


def parsed(value: bytes) -> SpanContext | None:
    """Return the context in a `traceparent`; None if it does not follow the standard."""
    found = _FORM.fullmatch(value)
    if found is None or (found["version"] == b"00" and found["rest"]):
        return None
    sampled = bool(int(found["flags"], 16) & _SAMPLED)
    return SpanContext(
        bytes.fromhex(found["trace"].decode()),
        bytes.fromhex(found["span"].decode()),
        sampled=sampled,
    )


def context_in(headers: Iterable[tuple[bytes, bytes]]) -> SpanContext | None:
    """Return the context in the headers: the first `traceparent`, and all `tracestate`."""
    parents: list[bytes] = []
    states: list[bytes] = []
    for name, value in headers:
        lowered = name.lower()
        if lowered == TRACEPARENT:
            parents.append(value)
        elif lowered == TRACESTATE:
            states.append(value)
    context = parsed(parents[0]) if parents else None
    if context is None or not states:
        return context
    return context._replace(state=_state(states))


def _state(values: Sequence[bytes]) -> str:
    """Return the values of repeated `tracestate` headers as one list.

    The result is empty if the list is too long, or has characters that are not allowed in headers.
    """
    joined = b",".join(values).strip()
    if len(joined) > _STATE_LENGTH_MAX or not joined.isascii():
        return ""
    text = joined.decode("ascii")
    return text if text.isprintable() else ""


def with_context(
    headers: Iterable[tuple[bytes, bytes]], context: SpanContext
) -> list[tuple[bytes, bytes]]:
    """Return the headers with the `traceparent` of `context` instead of any other one."""
    others = [(name, value) for name, value in headers if name.lower() != TRACEPARENT]
    return [*others, (TRACEPARENT, context.header())]
