"""Writes the values of metrics in the text format of Prometheus, version 0.0.4."""

import asyncio
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate
from typing import Final

from app.metrics.catalogue import Metric
from app.metrics.readings import Distribution, Labels, Readings, Value

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
# The number of lines that are written in one turn of the event loop. This takes less than a
# millisecond.
LINES_PER_TURN: Final = 250

_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


async def exposition(readings: Readings) -> bytes:
    """Return all values of metrics as one text. While it is written, other tasks run."""
    parts: list[bytes] = []
    turn: list[str] = []
    for line in lines(readings):
        turn.append(line)
        if len(turn) == LINES_PER_TURN:
            parts.append("".join(turn).encode())
            turn = []
            await asyncio.sleep(0)
    return b"".join((*parts, "".join(turn).encode()))


def lines(readings: Readings) -> Iterator[str]:
    """Yield the lines of the text, each with its line end."""
    for metric, values in readings:
        yield f"# HELP {metric.name} {_help(metric)}\n# TYPE {metric.name} {metric.kind}\n"
        for labels, value in values:
            yield from _samples(metric, labels, value)


def _help(metric: Metric) -> str:
    return f"{metric.help} [{metric.unit}]"


def _samples(metric: Metric, labels: Labels, value: Value) -> Iterator[str]:
    pairs = _pairs(metric.labels, labels)
    if not isinstance(value, Distribution):
        yield f"{metric.name}{{{pairs}}} {value}\n" if pairs else f"{metric.name} {value}\n"
        return
    and_pairs = f"{pairs}," if pairs else ""
    counts = tuple(accumulate(value.counts))
    for bound, count in zip((*value.bounds, "+Inf"), counts, strict=True):
        yield f'{metric.name}_bucket{{{and_pairs}le="{bound}"}} {count}\n'
    yield f"{metric.name}_sum{{{pairs}}} {value.total}\n"
    yield f"{metric.name}_count{{{pairs}}} {counts[-1]}\n"


# The text of labels is cached, because all metrics of one topic or subscription are written one
# after another, with the same labels.
@lru_cache(maxsize=2_048)
def _pairs(names: Labels, values: Labels) -> str:
    return ",".join(
        f'{name}="{value.translate(_ESCAPES)}"' for name, value in zip(names, values, strict=True)
    )
