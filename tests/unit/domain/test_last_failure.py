import pytest

from app.domain.delivery import (
    LAST_FAILURE_MAX,
    LastFailure,
    Retry,
    failed_reason,
    last_failure,
    status_reason,
)

LATE = "No complete answer within 1000 ms"


@pytest.mark.parametrize(
    ("failed", "kept"),
    [
        (Retry(reason=LATE), LastFailure(LATE)),
        (Retry(reason=status_reason(503), status=503), LastFailure()),
        (
            Retry(reason=status_reason(503), status=503, answer="no disk"),
            LastFailure(answer="no disk"),
        ),
        # The status alone does not say these.
        (Retry(reason=failed_reason(200), status=200), LastFailure(failed_reason(200))),
        (
            Retry(reason=f"{status_reason(503)} (at ::1)", status=503),
            LastFailure(f"{status_reason(503)} (at ::1)"),
        ),
        (Retry(reason="x" * LAST_FAILURE_MAX), LastFailure("x" * LAST_FAILURE_MAX)),
        (Retry(reason="x" * (LAST_FAILURE_MAX + 1)), LastFailure("x" * LAST_FAILURE_MAX)),
    ],
)
def test_the_reason_is_kept_if_the_status_does_not_say_it(failed: Retry, kept: LastFailure) -> None:
    assert last_failure(failed) == kept


def test_equal_failures_of_waiting_messages_take_memory_once() -> None:
    first, second = (Retry(reason=f"No answer in {ms} ms") for ms in (1_000, 1_000))
    assert last_failure(first) is last_failure(second)
