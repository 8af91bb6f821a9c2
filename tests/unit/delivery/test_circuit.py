"""When a circuit opens and closes, and which message may try: what happens at which second."""

from dataclasses import replace

import pytest

from app.domain.circuit import CircuitBreaker, CircuitState, ErrorType, TimeUnit
from app.domain.delivery import Delivered, Discarded, Outcome, Retry
from app.domain.errors import ValidationFailedError
from workers.delivery.circuit import LEAVE_S, UNKNOWN_S, Circuit, CircuitVerdict, verdict

OK = Delivered(status=200)
BROKEN = Retry(reason="it is broken", status=500)
LATE = Retry(reason="it is late", error=ErrorType.TIMEOUT)
MOVED = Retry(reason="it has moved", status=302)
WRONG = Discarded(reason="the message is wrong", status=400)
MALFORMED = Discarded(reason="not sent at all")
RULE = CircuitBreaker(errors_threshold=3, trip_timeout=10)
CLOSED, OPEN, HALF_OPEN = CircuitState.CLOSED, CircuitState.OPEN, CircuitState.HALF_OPEN


def reported(circuit: Circuit, outcome: Outcome, at: float, *, rule: CircuitBreaker = RULE) -> bool:
    """Send a message at that second, which is over at once."""
    assert circuit.wait(at) == 0
    circuit.sent(at)
    return circuit.report(outcome, rule, sent_at=at, now=at)


def a_circuit(*outcomes: Outcome, shared: bool = False) -> Circuit:
    """One through which messages were sent, one each second from 1 on, with these outcomes."""
    circuit = Circuit(0, shared=shared)
    circuit.adopt_closed(0)
    for second, outcome in enumerate(outcomes, start=1):
        reported(circuit, outcome, second)
    return circuit


def an_open_circuit(*, shared: bool = False) -> Circuit:
    """One that was opened at 3 for 10 seconds."""
    return a_circuit(BROKEN, BROKEN, BROKEN, shared=shared)


def wants(circuit: Circuit) -> bool:
    return circuit.wanted


@pytest.mark.parametrize(
    ("outcome", "listed", "said"),
    [
        (OK, "TIMEOUT", CircuitVerdict.SUCCESS),
        (WRONG, "TIMEOUT", CircuitVerdict.SUCCESS),
        (MALFORMED, "TIMEOUT", CircuitVerdict.UNSENT),
        (LATE, "TIMEOUT", CircuitVerdict.FAILURE),
        (LATE, "CONNECTION", CircuitVerdict.OTHER),
        (Retry(reason="", error=ErrorType.CONNECTION), "CONNECTION", CircuitVerdict.FAILURE),
        (
            Retry(reason="", status=200, error=ErrorType.EXPRESSION),
            "EXPRESSION",
            CircuitVerdict.FAILURE,
        ),
        (Retry(reason="", status=500), "HTTP_5XX", CircuitVerdict.FAILURE),
        (Retry(reason="", status=500), "HTTP_503", CircuitVerdict.OTHER),
        (Retry(reason="", status=503), "HTTP_503", CircuitVerdict.FAILURE),
        (Retry(reason="", status=503), "HTTP_5XX", CircuitVerdict.FAILURE),
        (Retry(reason="", status=599), "HTTP_5XX", CircuitVerdict.FAILURE),
        (Retry(reason="", status=429), "HTTP_429", CircuitVerdict.FAILURE),
        (Retry(reason="", status=429), "HTTP_5XX", CircuitVerdict.OTHER),
        (MOVED, "HTTP_5XX", CircuitVerdict.OTHER),
        (Retry(reason="a defect of ours"), "CONNECTION", CircuitVerdict.UNSENT),
    ],
)
def test_what_an_outcome_says_depends_on_what_is_listed(
    outcome: Outcome, listed: str, said: CircuitVerdict
) -> None:
    assert verdict(outcome, {ErrorType(listed)}) is said


@pytest.mark.parametrize(
    ("outcomes", "state"),
    [
        ([BROKEN, BROKEN], CLOSED),
        ([BROKEN, LATE, BROKEN], OPEN),
        ([BROKEN, BROKEN, OK, BROKEN, BROKEN], CLOSED),
        ([BROKEN, BROKEN, WRONG, BROKEN, BROKEN], CLOSED),
        ([BROKEN, BROKEN, MOVED, MALFORMED, BROKEN], OPEN),
    ],
)
def test_so_many_failures_in_a_row_open_it(outcomes: list[Outcome], state: CircuitState) -> None:
    assert a_circuit(*outcomes).state(len(outcomes)) is state


def test_the_reason_says_how_many_failed_and_of_what() -> None:
    circuit = an_open_circuit()
    assert (circuit.since, circuit.reason) == (3, "3 failures in a row, the last: it is broken")


def test_nothing_is_sent_before_the_trip_timeout_is_over() -> None:
    circuit = an_open_circuit()
    assert [circuit.wait(now) for now in (3, 8, 12.5)] == [10, 5, 0.5]
    assert circuit.state(12.9) is OPEN


def test_half_open_one_message_is_sent_and_no_other() -> None:
    circuit = an_open_circuit()
    assert (circuit.state(13), circuit.wait(13)) == (HALF_OPEN, 0)
    circuit.sent(13)
    assert circuit.wait(13) > 0
    assert circuit.wait(200) > 0


@pytest.mark.parametrize("outcome", [OK, WRONG, MOVED])
def test_it_closes_when_its_one_message_does_not_fail_of_what_is_listed(outcome: Outcome) -> None:
    circuit = an_open_circuit()
    assert reported(circuit, outcome, 13)
    assert (circuit.state(13), circuit.wait(13), circuit.since) == (CLOSED, 0, 13)


def test_it_opens_again_when_its_one_message_fails() -> None:
    circuit = an_open_circuit()
    assert reported(circuit, LATE, 15)
    assert (circuit.state(24), circuit.wait(24)) == (OPEN, 1)
    assert circuit.state(25) is HALF_OPEN
    # It has not been closed since it was opened first.
    assert circuit.since == 3
    assert circuit.reason == "the message that tried failed: it is late"


def test_a_message_that_is_not_sent_at_all_says_nothing_and_the_next_one_tries() -> None:
    circuit = an_open_circuit()
    assert not reported(circuit, MALFORMED, 13)
    assert (circuit.state(13), circuit.wait(13)) == (HALF_OPEN, 0)


def test_when_it_has_closed_failures_are_counted_anew() -> None:
    circuit = an_open_circuit()
    reported(circuit, OK, 13)
    assert not reported(circuit, BROKEN, 14)
    assert not reported(circuit, BROKEN, 15)
    assert reported(circuit, BROKEN, 16)


def test_results_of_what_was_sent_before_it_opened_say_nothing() -> None:
    circuit = an_open_circuit()
    assert not circuit.report(OK, RULE, sent_at=2.9, now=5)
    assert circuit.state(5) is OPEN
    circuit.sent(13)
    assert not circuit.report(OK, RULE, sent_at=2.9, now=13.5)
    assert not circuit.report(LATE, RULE, sent_at=2.9, now=13.5)
    assert circuit.wait(13.5) > 0
    assert circuit.report(OK, RULE, sent_at=13, now=14)
    for _ in range(3):
        assert not circuit.report(LATE, RULE, sent_at=2.9, now=15)
    assert circuit.state(15) is CLOSED


def test_each_failure_counts_by_the_settings_of_who_had_it() -> None:
    circuit = a_circuit(BROKEN)
    patient = replace(RULE, errors_threshold=5, trip_timeout=60)
    assert not reported(circuit, BROKEN, 2, rule=patient)
    assert not reported(circuit, BROKEN, 3, rule=patient)
    assert reported(circuit, BROKEN, 4)
    assert circuit.wait(4) == 10


@pytest.mark.parametrize(("seconds", "state"), [(5, HALF_OPEN), (60, OPEN)])
def test_another_trip_timeout_counts_from_the_last_failure(
    seconds: int, state: CircuitState
) -> None:
    circuit = an_open_circuit()
    assert circuit.retime(replace(RULE, trip_timeout=seconds))
    assert circuit.state(9) is state
    assert circuit.state(3 + seconds) is HALF_OPEN
    assert not a_circuit().retime(RULE)


def test_a_shared_one_sends_nothing_before_it_was_heard_how_it_is() -> None:
    circuit = Circuit(0, shared=True)
    assert circuit.wait(0.5) > 0
    assert circuit.wait(UNKNOWN_S) == 0
    assert circuit.adopt_closed(0.5)
    assert circuit.wait(0.5) == 0
    assert not circuit.adopt_closed(1)


def test_a_shared_one_needs_leave_for_its_one_message() -> None:
    circuit = an_open_circuit(shared=True)
    assert not wants(circuit)
    assert circuit.wait(13) > 0
    assert wants(circuit)
    circuit.deny()
    assert circuit.wait(14) > 0
    assert wants(circuit)
    circuit.grant(14)
    assert (circuit.wait(14), wants(circuit)) == (0, False)
    circuit.sent(14)
    assert not circuit.has_leave(14)
    assert circuit.wait(14) > 0
    assert not wants(circuit)


def test_leave_that_is_not_used_soon_is_gone() -> None:
    circuit = an_open_circuit(shared=True)
    circuit.grant(13)
    assert circuit.wait(13 + LEAVE_S) > 0
    assert wants(circuit)


def test_what_others_say_of_a_shared_one_counts() -> None:
    circuit = a_circuit(shared=True)
    circuit.adopt_open(since=-5, opens_at=20, reason="theirs", now=10)
    assert (circuit.state(19), circuit.wait(19)) == (OPEN, 1)
    assert (circuit.since, circuit.reason) == (-5, "theirs")
    assert circuit.adopt_closed(19)
    assert (circuit.state(19), circuit.reason) == (CLOSED, "")


def test_others_may_open_it_again_while_its_one_message_is_in_the_air() -> None:
    circuit = an_open_circuit(shared=True)
    circuit.grant(13)
    circuit.sent(13)
    circuit.adopt_open(since=3, opens_at=30, reason="theirs", now=14)
    assert not circuit.report(OK, RULE, sent_at=13, now=15)
    assert circuit.state(29) is OPEN


@pytest.mark.parametrize(
    ("settings", "path", "problem"),
    [
        ({"error_types": frozenset()}, "errorTypes", "must be one or more of TIMEOUT, "),
        ({"errors_threshold": 0}, "errorsThreshold", "must be 1 to 10000"),
        ({"errors_threshold": 10_001}, "errorsThreshold", "must be 1 to 10000"),
        ({"trip_timeout": 0}, "tripTimeout", "must be 1 to 86400 SECONDS"),
        ({"trip_timeout": 86_401}, "tripTimeout", "must be 1 to 86400 SECONDS"),
        (
            {"trip_timeout": 99, "trip_timeout_unit": TimeUnit.MILLISECONDS},
            "tripTimeout",
            "must be 100 to 86400000 MILLISECONDS",
        ),
        (
            {"trip_timeout": 25, "trip_timeout_unit": TimeUnit.HOURS},
            "tripTimeout",
            "must be 1 to 24 HOURS",
        ),
        ({"circuit_name": ""}, "circuitName", "must be 1 to 100 letters, digits, "),
        ({"circuit_name": "a b"}, "circuitName", "must be 1 to 100 letters, digits, "),
        ({"circuit_name": "a" * 101}, "circuitName", "must be 1 to 100 letters, digits, "),
    ],
)
def test_settings_out_of_range_are_refused_with_field_and_range(
    settings: dict[str, object], path: str, problem: str
) -> None:
    with pytest.raises(ValidationFailedError) as raised:
        CircuitBreaker(**settings)  # type: ignore[arg-type]  # as given
    [refused] = raised.value.details
    assert refused.path == f"circuitBreaker.{path}"
    assert refused.message.startswith(problem)


@pytest.mark.parametrize(
    ("unit", "seconds"), [("MILLISECONDS", 0.5), ("SECONDS", 500), ("MINUTES", 30_000)]
)
def test_the_trip_timeout_is_in_its_unit(unit: str, seconds: float) -> None:
    breaker = CircuitBreaker(trip_timeout=500, trip_timeout_unit=TimeUnit(unit))
    assert breaker.open_for.total_seconds() == seconds
