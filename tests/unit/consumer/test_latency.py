"""How long requests took, by its bounds."""

import pytest

from app.domain.metrics.samples import DURATION_BOUNDS as BOUNDS
from workers.consumer.outcome.latency import Latency


def test_each_request_is_in_one_place_and_all_are_added_up() -> None:
    latency = Latency()
    for seconds in (0.0, 0.005, 0.006, 2.0, 10.0, 11.0):
        latency.add(seconds)
    *within, beyond = latency.within
    assert dict(zip(BOUNDS, within, strict=True)) == {
        **dict.fromkeys(BOUNDS, 0),
        0.005: 2,
        0.01: 1,
        2.5: 1,
        10.0: 1,
    }
    assert beyond == 1
    assert latency.seconds == pytest.approx(23.011)
