from datetime import timedelta

import pytest

from angelia_client import NO_RETRIES, ClientError, Retries, UnreachableError
from angelia_client.errors import refusal


def delays(error: ClientError, retries: Retries | None = None) -> list[float | None]:
    policy = retries or Retries()
    asked = [policy.delay_after(error, attempt=number) for number in (1, 2, 3, 4)]
    return [None if each is None else each / timedelta(milliseconds=1) for each in asked]


@pytest.mark.parametrize(
    "error", [UnreachableError("gone"), *(refusal(status, {}) for status in (408, 500, 503))]
)
def test_what_may_pass_is_tried_three_times_again_as_by_hermes_client(error: ClientError) -> None:
    assert delays(error) == [100, 200, 300, None]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 429])
def test_what_the_service_has_decided_is_not_asked_again(status: int) -> None:
    assert delays(refusal(status, {})) == [None] * 4


def test_a_later_time_that_the_service_asks_for_counts_up_to_a_limit() -> None:
    assert delays(refusal(503, {}, retry_after=timedelta(seconds=1)))[0] == 1000
    assert delays(refusal(503, {}, retry_after=timedelta(hours=1)))[0] == 5000


def test_many_retries_wait_no_longer_than_the_limit() -> None:
    patient = Retries(count=10_000, delay_max=timedelta(seconds=2))
    error = UnreachableError("gone")
    assert patient.delay_after(error, attempt=9_999) == timedelta(seconds=2)


def test_without_retries_an_error_is_the_end() -> None:
    assert delays(UnreachableError("gone"), NO_RETRIES) == [None] * 4


def test_a_count_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="count"):
        Retries(count=-1)
