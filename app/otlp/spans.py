"""A bounded buffer of spans that wait to be exported. Adding a span never waits."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import islice
from typing import Final, NamedTuple

from app.otlp.context import SpanContext

# The maximum number of waiting spans, which take some megabytes. Further spans are lost, and
# counted as lost.
SPANS_MAX: Final = 4_096

Attribute = str | int | float | bool


class SpanKind(IntEnum):
    """The kind of a span. The values are the numbers of OTLP."""

    INTERNAL = 1
    CLIENT = 3
    PRODUCER = 4
    CONSUMER = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """An operation from `start_ns` to `end_ns` (nanoseconds since the epoch).

    `error` is why the operation failed; empty if it did not.
    """

    name: str
    kind: SpanKind
    context: SpanContext
    parent: SpanContext | None = None
    links: tuple[SpanContext, ...] = ()
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    error: str = ""


class SpanStats(NamedTuple):
    """The numbers of exported and lost spans since the process started."""

    exported: int
    lost: int


class SpanBuffer:
    """Spans that wait to be exported, the oldest first."""

    def __init__(self, spans_max: int = SPANS_MAX) -> None:
        self._spans_max = spans_max
        self._waiting: deque[Span] = deque()
        self._exported = 0
        self._lost = 0

    @property
    def stats(self) -> SpanStats:
        """How many spans were exported, and how many were lost."""
        return SpanStats(self._exported, self._lost)

    def __len__(self) -> int:
        """The number of waiting spans."""
        return len(self._waiting)

    def add(self, span: Span) -> None:
        """Add a span, if there is space; otherwise count it as lost."""
        if len(self._waiting) < self._spans_max:
            self._waiting.append(span)
        else:
            self._lost += 1

    def first(self, count: int) -> list[Span]:
        """Return the first waiting spans. They stay in the buffer until `done` is called."""
        return list(islice(self._waiting, count))

    def done(self, count: int, *, exported: bool) -> None:
        """Remove the first `count` spans. Count them as exported or as lost."""
        for _ in range(count):
            self._waiting.popleft()
        if exported:
            self._exported += count
        else:
            self._lost += count
