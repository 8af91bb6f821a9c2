from datetime import timedelta

import pytest

from app.domain.health.indicators import Indicator, Signs, Thresholds, problems, signs_of
from app.domain.status import AttemptCounts, Output, RateMode, SubscriptionLoad

DEFAULTS = Thresholds()


def codes(signs: Signs, thresholds: Thresholds = DEFAULTS) -> list[Indicator]:
    return [problem.code for problem in problems(signs, thresholds)]


@pytest.mark.parametrize(
    ("signs", "found"),
    [
        (Signs(), []),
        (Signs(lag=timedelta(seconds=600)), []),
        (Signs(lag=timedelta(seconds=601)), [Indicator.LAGGING]),
        (Signs(rate=10, other_errors=5), []),
        (Signs(rate=10, other_errors=5.1), [Indicator.UNREACHABLE]),
        (Signs(rate=10, timeouts=1.1), [Indicator.TIMING_OUT]),
        (Signs(rate=10, codes_5xx=1.1), [Indicator.MALFUNCTIONING]),
        (Signs(rate=10, codes_4xx=9), []),
        (
            Signs(rate=10, codes_4xx=9, client_errors_matter=True),
            [Indicator.RECEIVING_MALFORMED_MESSAGES],
        ),
        # So few attempts say nothing, unless so few are made because it is down.
        (Signs(rate=1.9, other_errors=1.9), []),
        (Signs(rate=0.1, other_errors=0.1, is_down=True), [Indicator.UNREACHABLE]),
        (Signs(rate=0.0, is_down=True), []),
        (
            Signs(lag=timedelta(hours=1), rate=10, timeouts=5, codes_5xx=4),
            [Indicator.LAGGING, Indicator.TIMING_OUT, Indicator.MALFUNCTIONING],
        ),
    ],
)
def test_an_indicator_is_on_beyond_its_threshold(signs: Signs, found: list[Indicator]) -> None:
    assert codes(signs) == found


def test_thresholds_can_be_moved() -> None:
    signs = Signs(lag=timedelta(seconds=31), rate=1, timeouts=0.4)
    strict = Thresholds(lag=timedelta(seconds=30), timing_out=0.3, rate_min=0.5)
    assert codes(signs, strict) == [Indicator.LAGGING, Indicator.TIMING_OUT]


def test_a_problem_says_what_was_seen() -> None:
    (problem,) = problems(Signs(rate=20, timeouts=12.5), DEFAULTS)
    assert problem.description == "12.5 of 20 attempts a second time out"


def test_a_worker_that_could_not_apply_the_settings_is_a_problem() -> None:
    loads = [
        SubscriptionLoad(
            subscription_id="s-1",
            worker_id=worker,
            window=timedelta(),
            in_flight=0,
            waiting_retries=0,
            counts=AttemptCounts(),
            output=output,
        )
        for worker, output in (
            ("w1", Output(rate=3, reason="At its limit")),
            ("w2", Output(reason="Its settings are broken", unapplied=True)),
        )
    ]
    signs = signs_of(loads, lag=timedelta(), client_errors=False)
    (problem,) = problems(signs, DEFAULTS)
    assert problem.code is Indicator.LAGGING
    assert problem.description == "Nothing is sent: Its settings are broken"


def test_the_reports_of_all_workers_are_summed_up() -> None:
    loads = [
        SubscriptionLoad(
            subscription_id="s-1",
            worker_id=worker,
            window=timedelta(seconds=10),
            in_flight=0,
            waiting_retries=0,
            counts=AttemptCounts(codes_2xx=10, codes_5xx=20, timeouts=5, codes_other=5),
            output=Output(mode=mode),
        )
        for worker, mode in (("w1", RateMode.NORMAL), ("w2", RateMode.HEARTBEAT))
    ]
    signs = signs_of(loads, lag=timedelta(seconds=3), client_errors=True)
    assert signs == Signs(
        lag=timedelta(seconds=3),
        rate=8,
        timeouts=1,
        codes_5xx=4,
        is_down=True,
        client_errors_matter=True,
    )
