"""Metrics of a subscription from the reports of several workers."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from app.domain.status import AttemptCounts, Output, RateMode, SubscriptionLoad
from app.services.rates import summed_metrics

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
SOON = NOON + timedelta(seconds=2)
LOAD = SubscriptionLoad(
    subscription_id="s-1",
    worker_id="w-1",
    window=timedelta(seconds=1),
    in_flight=0,
    waiting_retries=0,
    counts=AttemptCounts(),
)


def down(next_probe_at: datetime | None) -> Output:
    return Output(mode=RateMode.HEARTBEAT, next_probe_at=next_probe_at)


@pytest.mark.parametrize(
    ("outputs", "earliest"),
    [
        ([down(SOON), down(NOON)], NOON),
        ([Output(rate=5.0), down(SOON)], SOON),
        # The second is of a worker for which no message waits.
        ([down(SOON), down(None)], SOON),
        ([down(None)], None),
    ],
)
def test_the_earliest_probe_of_all_workers_counts(
    outputs: list[Output], earliest: datetime | None
) -> None:
    loads = [replace(LOAD, output=output) for output in outputs]
    output = summed_metrics([], loads, lag=0).output
    assert output is not None
    assert output.next_probe_at == earliest
