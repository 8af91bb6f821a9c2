from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from app.domain.catalogue.subscription import DeliveryPolicy, Subscription
from app.domain.circuit import ErrorType
from app.domain.delivery import (
    Answered,
    Delivered,
    Discarded,
    Outcome,
    Retry,
    Unanswered,
    status_reason,
)
from workers.delivery.classification import classify

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


def a_subscription(**settings: Any) -> Subscription:  # noqa: ANN401 - fields of the value
    return Subscription(id="s-1", topic="g.t", name="s", endpoint="http://s.test/", **settings)


PLAIN = a_subscription()
RETRYING = a_subscription(policy=DeliveryPolicy(retry_client_errors=True))


def again(status: int, after_s: float | None = None) -> Retry:
    after = None if after_s is None else timedelta(seconds=after_s)
    return Retry(reason=status_reason(status), status=status, retry_after=after)


def never(status: int, *, suspension: str | None = None) -> Discarded:
    return Discarded(reason=status_reason(status), status=status, suspension=suspension)


@pytest.mark.parametrize(
    ("status", "headers", "outcome"),
    [
        (200, {}, Delivered(status=200)),
        (201, {}, Delivered(status=201)),
        (204, {}, Delivered(status=204)),
        (299, {}, Delivered(status=299)),
        (200, {"retry-after": "5"}, Delivered(status=200)),
        (300, {}, again(300)),
        (301, {"location": "http://elsewhere/"}, again(301)),
        (304, {}, again(304)),
        (308, {"retry-after": "5"}, again(308, 5)),
        (400, {}, never(400)),
        (404, {"retry-after": "5"}, never(404)),
        (408, {}, never(408)),
        (410, {}, never(410, suspension="The endpoint answered 410 Gone")),
        (499, {}, never(499)),
        (429, {}, again(429)),
        (429, {"retry-after": "5"}, again(429, 5)),
        (429, {"retry-after": "-5"}, again(429)),
        (429, {"retry-after": "later"}, again(429)),
        (500, {"retry-after": "5"}, again(500, 5)),
        (503, {}, again(503)),
        (503, {"retry-after": "0"}, again(503, 0)),
        (503, {"retry-after": "Sat, 21 Nov 2026 12:00:30 GMT"}, again(503, 30)),
        (503, {"retry-after": "1000000"}, again(503, 7201)),
        (503, httpx.Headers([("Retry-After", "3"), ("Retry-After", "4")]), again(503, 4)),
        (599, {}, again(599)),
        (999, {}, again(999)),
    ],
)
def test_the_answer_decides(status: int, headers: Mapping[str, str], outcome: Outcome) -> None:
    assert classify(Answered(status, headers), PLAIN, NOW) == outcome


@pytest.mark.parametrize("status", [400, 404, 499])
def test_client_errors_are_retried_when_the_policy_says_so(status: int) -> None:
    assert classify(Answered(status, {}), RETRYING, NOW) == again(status)


@pytest.mark.parametrize("subscription", [PLAIN, RETRYING])
def test_no_answer_is_retried_with_its_reason(subscription: Subscription) -> None:
    late = Unanswered(reason="no answer within 1000 ms", timed_out=True)
    assert classify(late, subscription, NOW) == Retry(
        reason="no answer within 1000 ms", error=ErrorType.TIMEOUT
    )
    cut = Unanswered(reason="connection reset")
    assert classify(cut, subscription, NOW) == Retry(
        reason="connection reset", error=ErrorType.CONNECTION
    )


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (409, again(409)),
        (425, again(425)),
        (404, never(404)),
        (503, again(503)),
        (200, Delivered(status=200)),
    ],
)
def test_listed_client_errors_are_retried_and_others_not(status: int, outcome: Outcome) -> None:
    listing = a_subscription(retryable_codes=frozenset({409, 425, 503}))
    assert classify(Answered(status, {}), listing, NOW) == outcome


@pytest.mark.parametrize(
    ("settings", "outcome"),
    [
        ({}, never(410)),
        ({"retryable_codes": frozenset({410})}, again(410)),
        ({"policy": DeliveryPolicy(retry_client_errors=True)}, again(410)),
    ],
)
def test_gone_is_a_client_error_like_others_when_it_does_not_suspend(
    settings: dict[str, Any], outcome: Outcome
) -> None:
    subscription = a_subscription(suspend_on_gone=False, **settings)
    assert classify(Answered(410, {}), subscription, NOW) == outcome


def test_gone_suspends_although_client_errors_are_retried() -> None:
    outcome = classify(Answered(410, {}), RETRYING, NOW)
    assert isinstance(outcome, Discarded)
    assert outcome.suspension is not None
