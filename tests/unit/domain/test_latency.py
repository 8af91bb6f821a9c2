"""What is said of the time that messages took."""

from datetime import UTC, datetime, timedelta

import pytest

from app.domain.errors import ValidationFailedError
from app.domain.job import JobScope
from app.domain.latency import SLO_MAX, SLO_MIN, SubscriptionLatency

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def of(delivered: int, discarded: int, unknown: int, *, within: int | None) -> SubscriptionLatency:
    return SubscriptionLatency(
        topic="shop.orders",
        subscription="billing",
        subscription_id="s-1",
        delivered=delivered,
        discarded=discarded,
        unknown=unknown,
        resent=9,
        attempts=9,
        within=within,
    )


@pytest.mark.parametrize(
    ("latency", "attained"),
    [
        (of(10, 0, 0, within=10), 1.0),
        (of(6, 4, 0, within=5), 0.5),
        (of(6, 4, 5, within=5), 1.0),
        (of(0, 4, 0, within=0), 0.0),
        (of(6, 4, 10, within=0), None),
        (of(0, 0, 0, within=0), None),
        (of(10, 0, 0, within=None), None),
    ],
)
def test_attained_is_the_share_of_what_is_known(
    latency: SubscriptionLatency, attained: float | None
) -> None:
    assert latency.attained == attained


def test_an_slo_is_between_a_millisecond_and_a_week() -> None:
    for slo in (SLO_MIN, SLO_MAX):
        assert JobScope(start=NOON, end=NOON + HOUR, slo=slo).slo == slo
    for slo in (SLO_MIN / 2, SLO_MAX + SLO_MIN, timedelta()):
        with pytest.raises(ValidationFailedError, match=r"sloSeconds must be 0.001 to 604800"):
            JobScope(start=NOON, end=NOON + HOUR, slo=slo)
