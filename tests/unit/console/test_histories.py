from typing import Any

from app.console.histories import SPANS, span_of, subscription_charts, topic_charts

FAILED = {"codes4xx": 0, "codes5xx": 30, "codesOther": 0, "timeouts": 0, "otherErrors": 0}


def a_point(time: str, **more: object) -> dict[str, Any]:
    counts = {"delivered": 120, "discarded": 6, "published": 60, "lag": 9, "rate": 2.5}
    return {"time": time, "failed": FAILED, **counts, **more}


def a_history(*points: dict[str, Any]) -> dict[str, Any]:
    return {
        "from": "2026-05-01T12:00:00+00:00",
        "to": "2026-05-01T12:03:00+00:00",
        "step": "minute",
        "points": list(points),
    }


def values(history: dict[str, Any], chart: int, line: int) -> list[float | None]:
    return [point.value for point in subscription_charts(history)[chart].lines[line].points]


def test_counts_of_a_step_are_shown_a_second_and_steps_without_any_are_zero() -> None:
    history = a_history(a_point("2026-05-01T12:01:00+00:00"))
    assert values(history, 0, 0) == [0.0, 2.0, 0.0]
    assert values(history, 2, 1) == [0.0, 0.5, 0.0]
    assert values(history, 3, 0) == [0.0, 9, 0.0]


def test_what_nobody_measured_is_a_gap() -> None:
    latency = {"p50": 0.01, "p95": 0.2, "p99": 1.0}
    history = a_history(
        a_point("2026-05-01T12:00:00+00:00"),
        a_point("2026-05-01T12:01:00+00:00", latency=latency, outputRate=40.0),
    )
    assert values(history, 1, 0) == [None, 40.0, None]
    assert values(history, 4, 2) == [None, 1.0, None]


def test_a_topic_has_what_was_published() -> None:
    charts = topic_charts(a_history(a_point("2026-05-01T12:02:00+00:00")))
    assert [point.value for point in charts[0].lines[0].points] == [0.0, 0.0, 1.0]


def test_the_span_of_a_wrong_name_is_a_day() -> None:
    assert span_of("century") is SPANS[0]
    assert span_of("week").since == "-7d"


def test_a_day_of_minutes_is_drawn_in_few_points_and_keeps_its_peaks() -> None:
    minutes = [f"2026-05-01T{at // 60:02}:{at % 60:02}:00+00:00" for at in range(1440)]
    points = [a_point(each, lag=500 if at == 777 else 1) for at, each in enumerate(minutes)]
    history = {**a_history(*points), "from": minutes[0], "to": "2026-05-02T00:00:00+00:00"}
    lag = values(history, 3, 0)
    assert len(lag) == 240
    assert lag[777 // 6] == 500
    assert lag.count(1) == 239
