"""Metrics of a subscription from the reports of several workers."""

from datetime import UTC, datetime, timedelta

import pytest

from app.domain.status import AttemptCounts, Output, RateMode, SubscriptionLoad
from app.services.rates import summed_metrics

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
SOON = NOON + timedelta(seconds=2)


def down(next_probe_at: datetime | None) -> Output:
    return Output(mode=RateMode.HEARTBEAT, next_probe_at=next_probe_at)


def a_load(worker_id: str, output: Output) -> SubscriptionLoad:
    return SubscriptionLoad(
        subscription_id="s-1",
        worker_id=worker_id,
        window=timedelta(seconds=1),
        in_flight=0,
        waiting_retries=0,
        counts=AttemptCounts(),
        output=output,
    )


@pytest.mark.parametrize(
    ("outputs", "earliest"),
    [
        ([down(SOON), down(NOON)], NOON),
        ([Output(rate=5.0), down(SOON)], SOON),
        # The second is of a worker that does not report the time.
        ([down(SOON), down(None)], SOON),
        ([down(None)], None),
    ],
)
def test_the_earliest_probe_of_all_workers_counts(
    outputs: list[Output], earliest: datetime | None
) -> None:
    loads = [a_load(f"w-{number}", output) for number, output in enumerate(outputs)]
    output = summed_metrics([], loads, lag=0).output
    assert output is not None
    assert output.next_probe_at == earliest
