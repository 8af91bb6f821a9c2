"""What a subscription might be, and for how long that is tried."""

from datetime import UTC, datetime, timedelta

import pytest

from app.domain.errors import ValidationFailedError
from app.domain.insight.simulation import WINDOW_MAX, Proposal, SimulationRequest

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("rate", "in_flight_max", "request_time", "capacity"),
    [
        (100, 1, None, 100.0),
        (100, 10, SECOND, 10.0),
        (100, 200, SECOND, 100.0),
        (100, 1, timedelta(minutes=1), 1 / 60),
    ],
)
def test_capacity_is_the_rate_or_what_fits_into_the_requests_at_a_time(
    rate: int, in_flight_max: int, request_time: timedelta | None, capacity: float
) -> None:
    proposal = Proposal(
        filters=(), rate=rate, in_flight_max=in_flight_max, request_time=request_time
    )
    assert proposal.capacity == pytest.approx(capacity)


@pytest.mark.parametrize("length", [timedelta(), -SECOND, WINDOW_MAX + SECOND])
def test_a_time_has_a_length_and_that_is_a_week_at_most(length: timedelta) -> None:
    proposal = Proposal(filters=(), rate=1, in_flight_max=1)
    SimulationRequest(since=NOON, until=NOON + WINDOW_MAX, spans=(), proposal=proposal)
    with pytest.raises(ValidationFailedError, match="from"):
        SimulationRequest(since=NOON, until=NOON + length, spans=(), proposal=proposal)
