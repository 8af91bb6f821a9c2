"""Draws charts as SVG on the server (pure).

The style sheet sets the colours of a chart by CSS class, so each chart has a light and a dark form.
The attribute `style` is not used, because the content security policy of the pages forbids it.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

from markupsafe import Markup

from app.console import words

# The width and height of a chart, in units of half a pixel. So coordinates can be rounded to whole
# numbers.
WIDTH: Final = 960
HEIGHT: Final = 300
_LEFT: Final = 104
_RIGHT: Final = 16
_TOP: Final = 20
_BOTTOM: Final = 44
_TICKS: Final = 4
# The maximum number of points in a line. On a screen, more points would not be visible.
POINTS_MAX: Final = 240

_STEPS_S: Final = (60, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 604_800)


class ChartPoint(NamedTuple):
    """A value at the time `at` (seconds since the epoch). The value None is a gap in the line."""

    at: float
    value: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartLine:
    """A line of a chart. `kind` is its CSS class: good, bad, warn, calm or limit."""

    name: str
    kind: str
    points: Sequence[ChartPoint]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    """The first and the last time of a chart, and its highest value (`top`)."""

    start: float
    end: float
    top: float

    def x(self, at: float) -> float:
        return _LEFT + (at - self.start) / (self.end - self.start) * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        height = HEIGHT - _TOP - _BOTTOM
        return _TOP + height - min(1.0, max(0.0, value / self.top)) * height


def line_chart(title: str, lines: Sequence[ChartLine], *, unit: str = "number") -> Markup:
    """Return a chart of lines over time, with axes and a legend.

    If there are no values, return a sentence instead. `unit` says how the values are written:
    number, rate, size or span.
    """
    drawn = [each for each in lines if any(point.value is not None for point in each.points)]
    times = [point.at for each in drawn for point in each.points]
    if not times or min(times) == max(times):
        return Markup('<p class="quiet">{}: nothing to draw yet.</p>').format(title)
    highest = max(point.value for each in drawn for point in each.points if point.value is not None)
    frame = _Frame(start=min(times), end=max(times), top=nice_top(highest))
    parts = [
        Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">').format(
            WIDTH, HEIGHT, _spoken(title, drawn, unit)
        ),
        *_value_axis(frame, unit),
        *_time_axis(frame),
        *(_path(frame, each) for each in drawn),
        Markup("</svg>"),
    ]
    legend = (
        Markup('<li class="key {}">{} <b>{}</b></li>').format(
            each.kind, each.name, _written(_last(each), unit)
        )
        for each in drawn
    )
    return Markup(
        '<figure class="graph"><figcaption><span>{}</span><ul>{}</ul></figcaption>{}</figure>'
    ).format(title, Markup("").join(legend), Markup("").join(parts))


def meter(value: float, limit: float, kind: str = "good") -> Markup:
    """Return a bar that shows `value` as a part of `limit`."""
    part = 0.0 if limit <= 0 else min(1.0, max(0.0, value / limit))
    return Markup(
        '<svg class="meter" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="rail" width="100" height="6" rx="3"/>'
        '<rect class="{}" width="{:.1f}" height="6" rx="3"/></svg>'
    ).format(kind, part * 100)


def stacked_bar(parts: Sequence[tuple[str, str, float]], limit: float) -> Markup:
    """Return a bar that consists of several parts, one after another.

    Each of `parts` has a CSS class, a title, and a value. A part with the value `limit` would fill
    the whole bar.
    """
    start, drawn = 0.0, []
    for kind, title, value in parts:
        width = 0.0 if limit <= 0 else min(100 - start, max(0.0, value / limit * 100))
        drawn.append(
            Markup(
                '<rect class="{}" x="{:.1f}" width="{:.1f}" height="6"><title>{}</title></rect>'
            ).format(kind, start, width, title)
        )
        start += width
    label = ", ".join(title for _, title, _ in parts)
    return Markup(
        '<svg class="meter" viewBox="0 0 100 6" preserveAspectRatio="none" role="img"'
        ' aria-label="{}"><rect class="rail" width="100" height="6"/>{}</svg>'
    ).format(label, Markup("").join(drawn))


def nice_top(highest: float) -> float:
    """Return the value at the top of an axis. It is not lower than `highest`.

    The result is 1, 2, 2.5 or 5 times a power of 10.
    """
    if highest <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(highest))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= highest * 0.999)


def time_step(seconds: float) -> int:
    """Return the time in seconds between two marks of a time axis.

    `seconds` is the length of the axis, which has about six marks.
    """
    return next((each for each in _STEPS_S if seconds / each <= 6), _STEPS_S[-1])  # noqa: PLR2004 - six marks fit


def thinned(points: Sequence[ChartPoint]) -> Sequence[ChartPoint]:
    """Return at most `POINTS_MAX` points.

    If there are more, neighbouring points form groups, and the highest point of each group is
    returned.
    """
    group = math.ceil(len(points) / POINTS_MAX)
    if group <= 1:
        return points
    return [
        max(points[at : at + group], key=lambda each: -1.0 if each.value is None else each.value)
        for at in range(0, len(points), group)
    ]


def _value_axis(frame: _Frame, unit: str) -> Iterator[Markup]:
    for tick in range(_TICKS + 1):
        value = frame.top * tick / _TICKS
        y = frame.y(value)
        yield Markup('<line class="grid" x1="{}" x2="{}" y1="{:.0f}" y2="{:.0f}"/>').format(
            _LEFT, WIDTH - _RIGHT, y, y
        )
        if tick % 2 == 0:
            yield Markup('<text class="tick" x="{}" y="{:.0f}" text-anchor="end">{}</text>').format(
                _LEFT - 12, y + 8, _written(value, unit)
            )


def _time_axis(frame: _Frame) -> Iterator[Markup]:
    step = time_step(frame.end - frame.start)
    at = math.ceil(frame.start / step) * step
    while at <= frame.end:
        x = frame.x(at)
        yield Markup('<line class="grid" x1="{:.0f}" x2="{:.0f}" y1="{}" y2="{}"/>').format(
            x, x, _TOP, HEIGHT - _BOTTOM
        )
        yield Markup(
            '<text class="tick" x="{:.0f}" y="{}" text-anchor="middle" data-at="{}">{}</text>'
        ).format(x, HEIGHT - 12, int(at), f"{datetime.fromtimestamp(at, UTC):%H:%M}")
        at += step


def _path(frame: _Frame, line: ChartLine) -> Markup:
    commands, pen_down = [], False
    for point in thinned(line.points):
        if point.value is None:
            pen_down = False
            continue
        command = "L" if pen_down else "M"
        commands.append(f"{command}{frame.x(point.at):.0f} {frame.y(point.value):.0f}")
        pen_down = True
    return Markup('<path class="line {}" d="{}"/>').format(line.kind, "".join(commands))


def _spoken(title: str, lines: Sequence[ChartLine], unit: str) -> str:
    now = ", ".join(f"{each.name} {_written(_last(each), unit)}" for each in lines)
    return f"{title}. At the end: {now}"


def _last(line: ChartLine) -> float | None:
    return next((each.value for each in reversed(line.points) if each.value is not None), None)


def _written(value: float | None, unit: str) -> str:
    match unit:
        case "rate":
            return words.rate(value)
        case "size":
            return words.size(value)
        case "span":
            return words.span(value)
        case _:
            return words.number(value)
