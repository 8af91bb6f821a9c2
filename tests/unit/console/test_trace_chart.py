"""A trace as a picture."""

from typing import Any

from app.console.trace_chart import BARS_MAX, lanes_of, trace_chart


def entry(at: int, status: str = "SUCCESS", **more: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return {"timestamp": at, "status": status, **more}


def test_an_entry_ends_at_its_time_after_the_wait_and_the_time_in_the_log() -> None:
    published, billing = lanes_of(
        [
            entry(1000, took=5.0),
            entry(
                1100,
                "FAILED",
                subscription="billing",
                attempt=1,
                statusCode=503,
                queued=20.0,
                waited=30.0,
                took=40.0,
            ),
            entry(2000, subscription="billing", attempt=2, waited=800.0, took=10.0),
        ]
    )
    assert (published.name, billing.name) == ("publication", "billing")
    assert [(bar.start, bar.end, bar.tone) for bar in billing.bars] == [
        (1010, 1030, "rail"),
        (1030, 1060, "wait"),
        (1060, 1100, "warn"),
        (1190, 1990, "wait"),
        (1990, 2000, "good"),
    ]
    assert billing.bars[2].title == "attempt 1: failed, answered 503, took 40 ms"


def test_names_of_others_do_no_harm() -> None:
    drawn = trace_chart([entry(1), entry(9, subscription='<script x="">\u202e')])
    assert "<script" not in drawn
    assert "\u202e" not in drawn
    assert "2 lanes over 8 ms" in drawn


def test_nothing_is_drawn_of_a_single_moment_or_of_too_much() -> None:
    assert trace_chart([]) == ""
    assert trace_chart([entry(5)]) == ""
    assert trace_chart([entry(at) for at in range(BARS_MAX + 1)]) == ""
