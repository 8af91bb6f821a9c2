"""Makes the charts of the history of a topic or subscription (pure)."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, NamedTuple

from app.console import words
from app.console.charts import POINTS_MAX, ChartLine, ChartPoint

_STEPS: Final[Mapping[str, timedelta]] = {
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
}


class ChartSpan(NamedTuple):
    """A time span that charts can show.

    Attributes:
        name: The name of the span in the URL of the page.
        title: The title of the span on the page.
        since: The start of the span, as the API request for the history has it.
        step: The time between two points, as the API request for the history has it.
    """

    name: str
    title: str
    since: str
    step: str


# The first time span is shown, unless the reader has chosen another one.
SPANS: Final[Sequence[ChartSpan]] = (
    ChartSpan("day", "a day", "-1d", "minute"),
    ChartSpan("hour", "an hour", "-1h", "minute"),
    ChartSpan("week", "a week", "-7d", "hour"),
    ChartSpan("month", "30 days", "-30d", "hour"),
    ChartSpan("quarter", "90 days", "-90d", "day"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryChart:
    """A chart with its title, its lines, and the unit of its values (see `charts.line_chart`)."""

    title: str
    lines: Sequence[ChartLine]
    unit: str


def span_of(name: str) -> ChartSpan:
    """Return the span with the name `name`. If there is none, return the first span."""
    return next((each for each in SPANS if each.name == name), SPANS[0])


def subscription_charts(history: Mapping[str, Any]) -> Sequence[HistoryChart]:
    """Return the charts of a subscription's history."""
    line = _Lines(history)
    return (
        HistoryChart(
            title="Messages",
            unit="rate",
            lines=(
                line.rate("delivered", "good", "delivered"),
                line.rate("discarded", "bad", "discarded"),
            ),
        ),
        HistoryChart(
            title="Requests, allowed and used",
            unit="rate",
            lines=(
                line.value("may leave", "limit", "outputRate"),
                line.value("sent", "calm", "rate", nothing=0.0),
            ),
        ),
        _failed(line),
        HistoryChart(
            title="Lag", unit="number", lines=(line.value("messages", "warn", "lag", nothing=0.0),)
        ),
        _latency(line),
    )


def topic_charts(history: Mapping[str, Any]) -> Sequence[HistoryChart]:
    """Return the charts of a topic's history, over all its subscriptions."""
    line = _Lines(history)
    return (
        HistoryChart(
            title="Messages",
            unit="rate",
            lines=(
                line.rate("published", "calm", "published"),
                line.rate("delivered", "good", "delivered"),
                line.rate("discarded", "bad", "discarded"),
            ),
        ),
        _failed(line),
    )


def _failed(line: "_Lines") -> HistoryChart:
    return HistoryChart(
        title="Failed requests",
        unit="rate",
        lines=(
            line.failed("4xx", "warn", "codes4xx"),
            line.failed("5xx", "bad", "codes5xx"),
            line.failed("timeouts", "calm", "timeouts"),
            line.failed("no connection", "limit", "otherErrors"),
        ),
    )


def _latency(line: "_Lines") -> HistoryChart:
    return HistoryChart(
        title="Time until the answer",
        unit="span",
        lines=(
            line.latency("half within", "good", "p50"),
            line.latency("95 %", "warn", "p95"),
            line.latency("99 %", "bad", "p99"),
        ),
    )


class _Lines:
    """Makes the lines of a chart from a history.

    The history has a step for each minute, hour or day. Neighbouring steps form a group, and each
    group is one point of a line. The point has the highest value of the group, so that a short peak
    is visible.
    """

    def __init__(self, history: Mapping[str, Any]) -> None:
        self._step_s = step_s = _STEPS[history["step"]].total_seconds()
        start = words.moment(history["from"]).timestamp()
        steps = round((words.moment(history["to"]).timestamp() - start) / step_s)
        group = max(1, math.ceil(steps / POINTS_MAX))
        self._times = [start + step_s * number for number in range(0, steps, group)]
        # For each group of steps, the number of steps that are missing in the history, because
        # nothing happened then.
        full = [min(group, steps - number) for number in range(0, steps, group)]
        self._steps: list[tuple[int, Mapping[str, Any]]] = []
        for each in history["points"]:
            at = round((words.moment(each["time"]).timestamp() - start) / step_s) // group
            if 0 <= at < len(full):
                self._steps.append((at, each))
                full[at] -= 1
        self._has_empty = [left > 0 for left in full]

    def rate(self, name: str, kind: str, count: str) -> ChartLine:
        """Return the line of a count. Its values are messages per second."""
        return self._line(name, kind, lambda step: step[count] / self._step_s, nothing=0.0)

    def failed(self, name: str, kind: str, count: str) -> ChartLine:
        """Return the line of one kind of failure. Its values are requests per second."""
        return self._line(
            name, kind, lambda step: step["failed"][count] / self._step_s, nothing=0.0
        )

    def value(self, name: str, kind: str, key: str, *, nothing: float | None = None) -> ChartLine:
        """Return the line of the field `key`.

        A step in which nothing happened has the value `nothing`.
        """
        return self._line(name, kind, lambda step: step.get(key), nothing=nothing)

    def latency(self, name: str, kind: str, share: str) -> ChartLine:
        """Return the line of the percentile `share` of the latency, in seconds.

        The line has gaps where nothing was sent.
        """
        return self._line(name, kind, lambda step: step.get("latency", {}).get(share), nothing=None)

    def _line(
        self,
        name: str,
        kind: str,
        read: Callable[[Mapping[str, Any]], float | None],
        *,
        nothing: float | None,
    ) -> ChartLine:
        values = [nothing if empty else None for empty in self._has_empty]
        for at, step in self._steps:
            value, highest = read(step), values[at]
            if value is not None and (highest is None or value > highest):
                values[at] = value
        points = [ChartPoint(at, value) for at, value in zip(self._times, values, strict=True)]
        return ChartLine(name=name, kind=kind, points=points)
