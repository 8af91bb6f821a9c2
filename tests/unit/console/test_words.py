from collections.abc import Mapping

import pytest

from app.console import words
from app.domain.health.forecast import LossCause

POLICY = {"rate": 400, "heartbeatMax": 60}
IDLE = {"outputRate": 400.0, "codes2xx": 0.0, "lag": 0}
NOW = 1_777_636_800.0
OPEN = {"circuit": "OPEN", "circuitReason": "10 errors"}
DOWN = {"mode": "HEARTBEAT", "outputRate": 0.1}


def pace(metrics: Mapping[str, object], state: str = "ACTIVE") -> str:
    return words.pace(metrics, POLICY, state, now=NOW)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "\u2013"),
        (0, "0"),
        (7, "7"),
        (12.34, "12.3"),
        (0.5, "0.50"),
        (999, "999"),
        (1234, "1.2 k"),
        (20_000, "20 k"),
        (123_456, "123 k"),
        (5_000_000_000, "5 G"),
    ],
)
def test_numbers_have_about_three_digits(value: float | None, said: str) -> None:
    assert words.number(value) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.0, "0/s"), (0.001, "<0.01/s"), (41.0, "41/s"), (1500.0, "1.5k/s"), (None, "\u2013")],
)
def test_a_rate_that_is_not_zero_is_not_called_zero(value: float | None, said: str) -> None:
    assert words.rate(value) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.0, "0 %"), (0.001, "<1 %"), (0.12, "12 %"), (0.999, "99 %"), (1.0, "100 %")],
)
def test_a_part_is_never_none_or_all(value: float, said: str) -> None:
    assert words.share(value) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, "\u2013"),
        (0.25, "250 ms"),
        (2.0, "2.0 s"),
        (45.0, "45 s"),
        (75.0, "1 min 15 s"),
        (7500.0, "2 h 5 min"),
        (86_400.0, "1 d"),
        (90_000.0, "1 d 1 h"),
        (3600.0, "1 h"),
    ],
)
def test_a_span_has_at_most_two_units(seconds: float | None, said: str) -> None:
    assert words.span(seconds) == said


def test_times_of_the_api_are_read_in_each_of_their_forms() -> None:
    forms = (1_777_636_800, 1_777_636_800_000, "2026-05-01T14:00:00+02:00")
    assert {words.utc(each) for each in forms} == {"2026-05-01 12:00:00 UTC"}


def test_what_cannot_be_seen_is_spelled_out() -> None:
    assert words.plain("a\u202eb\u2066c\u0000d\u200be\x7f") == (
        "a\\u202eb\\u2066c\\u0000d\\u200be\\u007f"
    )
    assert (
        words.plain("\u05e9\u05dc\u05d5\u05dd\n\tand more")
        == "\u05e9\u05dc\u05d5\u05dd\n\tand more"
    )


def test_the_pace_says_why_a_failing_endpoint_gets_less() -> None:
    metrics = {**IDLE, "codes2xx": 41.0, "codes5xx": 5.6, "lag": 9, "outputRate": 44.0}
    said = pace(metrics)
    assert said == "Delivers 41/s of 400/s: the endpoint answers 5xx to 12 %."


@pytest.mark.parametrize(
    ("metrics", "said"),
    [
        ({"circuit": "OPEN", "circuitReason": "10 errors"}, "nothing is sent (10 errors)"),
        ({"circuit": "HALF_OPEN"}, "half open"),
        ({"mode": "HEARTBEAT", "modeReason": "all failed"}, "considered down (all failed)"),
        ({"mode": "SLOW", "modeReason": ""}, "coming back"),
        ({"timeouts": 1.0}, "does not answer in time to 100 %"),
        ({"lag": 5, "codes2xx": 399.0}, "own rate is the limit"),
        ({"lag": 0}, "nothing waits"),
    ],
)
def test_the_pace_has_the_reason(metrics: dict[str, object], said: str) -> None:
    assert said in pace({**IDLE, **metrics})


@pytest.mark.parametrize(
    ("metrics", "seconds", "said"),
    [
        (OPEN, 2.0, "; next probe in 2 s."),
        (OPEN, 0.1, "; next probe in 1 s."),
        (DOWN, 44.5, "; next probe in 45 s."),
        ({**DOWN, "codes5xx": 1.0}, 75.0, "5xx to 100 %; next probe in 1 min 15 s."),
        (OPEN, 0.0, "; the next message is tried now."),
        (DOWN, -3.0, "; the next message is tried now."),
        ({"circuit": "HALF_OPEN"}, 60.0, "one message tries; next probe in 1 min."),
        ({"circuit": "HALF_OPEN"}, -3.0, "one message tries."),
    ],
)
def test_the_pace_ends_with_the_time_until_the_next_probe(
    metrics: dict[str, object], seconds: float, said: str
) -> None:
    assert pace({**IDLE, **metrics, "nextProbeAt": NOW + seconds}).endswith(said)


@pytest.mark.parametrize("metrics", [OPEN, DOWN])
def test_without_a_time_no_probe_is_promised(metrics: dict[str, object]) -> None:
    said = pace({**IDLE, **metrics})
    assert "next" not in said


@pytest.mark.parametrize("state", ["SUSPENDED", "PENDING"])
def test_the_pace_of_a_resting_subscription_is_its_state(state: str) -> None:
    assert "Delivers" not in pace(IDLE, state)


def test_without_a_report_nothing_is_claimed() -> None:
    assert "No worker" in pace({"lag": 3})


def test_a_subscription_with_nothing_to_do_is_not_called_neglected() -> None:
    assert pace({"lag": 0}) == "Nothing waits, so nothing is sent now."


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"status": "SUCCESS"}, "stored"),
        ({"status": "SUCCESS", "subscription": "billing"}, "delivered"),
        ({"status": "INFLIGHT"}, "received"),
        ({"status": "INFLIGHT", "subscription": "billing"}, "sent"),
        ({"status": "DISCARDED", "subscription": "billing"}, "discarded"),
        ({"status": "NEW"}, "new"),
    ],
)
def test_entries_of_a_trace_say_what_happened(entry: dict[str, str], said: str) -> None:
    assert words.happened(entry) == said


def test_each_cause_of_a_loss_has_words() -> None:
    assert words.loss(LossCause.MESSAGE_TTL) == "their time to live ends"
    said = {words.loss(each) for each in LossCause}
    assert len(said) == len(LossCause)
    assert said.isdisjoint(each.replace("_", " ").lower() for each in LossCause)
    assert words.loss("NEW_LIMIT") == "new limit"
