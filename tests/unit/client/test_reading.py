from datetime import UTC, datetime
from typing import Any

import pytest

from angelia_client import Job, NotUnderstoodError, SubscriptionMetrics, Undelivered

DISCARD: dict[str, Any] = {
    "messageId": "m1",
    "timestamp": 1_767_225_600_250,
    "subscription": "billing",
    "topicName": "shop.orders",
    "reason": "400 Bad Request",
    "message": "{}",
    "partition": 1,
    "offset": 42,
    "attempts": 3,
    "somethingNew": [1],
}
JOB: dict[str, Any] = {
    "id": "4f1c",
    "kind": "UNDELIVERED_ANALYTICS",
    "scope": {"from": "2026-01-31T00:00:00+00:00", "to": "2026-02-01T00:00:00+00:00"},
    "state": "RUNNING",
    "cancelling": False,
    "progress": 0.5,
    "requestedAt": "2026-02-01T00:00:01+00:00",
    "attempts": 1,
    "counts": {},
    "log": ["one", "two"],
}


def test_names_times_and_what_is_absent_are_read() -> None:
    found = Undelivered.of(DISCARD)
    assert (found.message_id, found.topic, found.status_code) == ("m1", "shop.orders", None)
    assert (found.answer, Undelivered.of({**DISCARD, "answer": "no"}).answer) == (None, "no")
    late = Undelivered.of({**DISCARD, "lastFailure": "late"})
    assert (found.last_failure, late.last_failure) == (None, "late")
    assert found.discarded_at == datetime(2026, 1, 1, 0, 0, 0, 250_000, UTC)


def test_what_this_client_does_not_know_is_kept() -> None:
    assert Undelivered.of(DISCARD).raw["somethingNew"] == [1]


def test_a_body_that_is_no_text_comes_back_as_it_was() -> None:
    assert Undelivered.of(DISCARD).body == b"{}"
    assert Undelivered.of({**DISCARD, "messageBase64": "/w=="}).body == b"\xff"


def test_values_within_values_are_read() -> None:
    job = Job.of(JOB)
    assert job.scope.start == datetime(2026, 1, 31, tzinfo=UTC)
    assert job.log == ("one", "two")
    assert not job.ended


@pytest.mark.parametrize("state", ["DONE", "CANCELLED", "FAILED"])
def test_a_job_has_ended_in_these_states(state: str) -> None:
    assert Job.of({**JOB, "state": state}).ended


def test_names_that_are_not_regular_are_read() -> None:
    names = {"delivered", "discarded", "filtered", "volume", "inflight", "lag", "rate"}
    more = {"throughput", "timeouts", "otherErrors", "codes4xx", "codes5xx", "retries"}
    figures = SubscriptionMetrics.of({**dict.fromkeys(names | more, 0), "codes2xx": 2.5})
    assert (figures.codes_2xx, figures.mode) == (2.5, None)


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [DISCARD],
        {},
        {**DISCARD, "timestamp": "yesterday"},
        {**DISCARD, "timestamp": 1e300},
    ],
)
def test_what_is_not_as_it_should_be_is_not_understood(answer: object) -> None:
    with pytest.raises(NotUnderstoodError, match="Undelivered"):
        Undelivered.of(answer)


@pytest.mark.parametrize("scope", [None, {}, {"from": "x", "to": "y"}])
def test_nor_is_what_is_wrong_within(scope: object) -> None:
    with pytest.raises(NotUnderstoodError):
        Job.of({**JOB, "scope": scope})
