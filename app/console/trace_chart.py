"""Draws a trace as a picture (pure).

The picture has a row (a lane) for the publication, and one for each subscription.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from markupsafe import Markup

from app.console import words

WIDTH: Final = 960
_LEFT: Final = 190
_RIGHT: Final = 20
_LANE: Final = 26
_TOP: Final = 8
_AXIS: Final = 22
# The width of the narrowest bar. A narrower bar could not be seen.
_BAR_MIN: Final = 2.0
# The maximum numbers of lanes and of bars in a picture. The list below the picture has all entries
# of the trace.
LANES_MAX: Final = 30
BARS_MAX: Final = 400
_NAME_MAX: Final = 24
_TICKS: Final = 4
_TONES: Final = {"SUCCESS": "good", "FAILED": "warn", "DISCARDED": "bad", "ERROR": "bad"}


class TraceBar(NamedTuple):
    """A bar in a lane. `start` and `end` are times in milliseconds since the epoch.

    `tone` is a class of the style sheet.
    """

    start: float
    end: float
    tone: str
    title: str


class TraceLane(NamedTuple):
    """A row of the picture. It shows the publication, or the deliveries to one subscription."""

    name: str
    bars: Sequence[TraceBar]


def lanes_of(entries: Sequence[Mapping[str, Any]]) -> list[TraceLane]:
    """Return the lanes of a trace. The lane with the earliest entry is first.

    The time of an entry is the end of an attempt. The bars before this time show how long the
    attempt took, and how long the message waited before the attempt. Before the first attempt, a
    bar also shows how long the message was in the log.
    """
    found: dict[str, list[TraceBar]] = {}
    for entry in entries:
        found.setdefault(entry.get("subscription", ""), []).extend(_bars(entry))
    return [TraceLane(name or "publication", bars) for name, bars in found.items()]


def trace_chart(entries: Sequence[Mapping[str, Any]]) -> Markup:
    """Return the picture of a trace.

    The result is empty if the picture would not be readable: all entries have the same time, or
    there are more than `BARS_MAX` bars.
    """
    lanes = lanes_of(entries)[:LANES_MAX]
    bars = [bar for lane in lanes for bar in lane.bars]
    if not bars or len(bars) > BARS_MAX:
        return Markup()
    start, end = min(bar.start for bar in bars), max(bar.end for bar in bars)
    if start == end:
        return Markup()
    height = _TOP + _LANE * len(lanes) + _AXIS
    scale = _Scale(start, end)
    drawn = [_axis(scale, height), *(_lane(each, at, scale) for at, each in enumerate(lanes))]
    label = f"{len(lanes)} lanes over {words.span((end - start) / 1000)}"
    return Markup(
        '<svg class="chart lanes" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>'
    ).format(WIDTH, height, label, Markup("").join(drawn))


class _Scale(NamedTuple):
    start: float
    end: float

    def x(self, at: float) -> float:
        part = (at - self.start) / (self.end - self.start)
        return _LEFT + part * (WIDTH - _LEFT - _RIGHT)


def _bars(entry: Mapping[str, Any]) -> list[TraceBar]:
    end = float(entry["timestamp"])
    sent = end - entry.get("took", 0.0)
    taken = sent - entry.get("waited", 0.0)
    status = entry["status"]
    number = f"attempt {entry['attempt']}: " if entry.get("attempt") else ""
    answer = f", answered {entry['statusCode']}" if entry.get("statusCode") else ""
    title = f"{number}{status.lower()}{answer}, took {words.span((end - sent) / 1000)}"
    bars = [TraceBar(sent, end, _TONES.get(status, "calm"), title)]
    if entry.get("waited"):
        waited = words.span(entry["waited"] / 1000)
        bars.insert(0, TraceBar(taken, sent, "wait", f"waited {waited}"))
    if entry.get("queued"):
        queued = words.span(entry["queued"] / 1000)
        bars.insert(0, TraceBar(taken - entry["queued"], taken, "rail", f"in the log {queued}"))
    return bars


def _lane(lane: TraceLane, at: int, scale: _Scale) -> Markup:
    y = _TOP + at * _LANE
    name = words.plain(lane.name)
    short = name if len(name) <= _NAME_MAX else f"{name[: _NAME_MAX - 1]}…"
    bars = (
        Markup(
            '<rect class="{}" x="{:.1f}" y="{}" width="{:.1f}" height="{}"><title>{}</title></rect>'
        ).format(
            bar.tone,
            scale.x(bar.start),
            y + 5,
            max(_BAR_MIN, scale.x(bar.end) - scale.x(bar.start)),
            _LANE - 10,
            bar.title,
        )
        for bar in lane.bars
    )
    return Markup('<text class="tick" x="4" y="{}">{}<title>{}</title></text>{}').format(
        y + 17, short, name, Markup("").join(bars)
    )


def _axis(scale: _Scale, height: int) -> Markup:
    marks = []
    for number in range(_TICKS + 1):
        at = scale.start + (scale.end - scale.start) * number / _TICKS
        x = scale.x(at)
        text = words.span((at - scale.start) / 1000) if number else "0"
        anchor = "end" if number == _TICKS else "middle"
        marks.append(
            Markup(
                '<line class="grid" x1="{0:.1f}" x2="{0:.1f}" y1="0" y2="{1}"/>'
                '<text class="tick" x="{0:.1f}" y="{2}" text-anchor="{3}">{4}</text>'
            ).format(x, height - _AXIS + 4, height - 6, anchor, text)
        )
    return Markup("").join(marks)
