"""What people are told of brokers that throttle this process."""

from app.log.interface import LogStats, Throttling
from app.log.throttling import SHOWN_FOR_S, throttled


def test_each_broker_is_named_until_a_minute_after_it() -> None:
    stats = LogStats(throttles={2: Throttling(3.25, 100.0), 1: Throttling(0.5, 101.0)})
    assert throttled(stats, 100.0) == [
        "broker 1 throttles this process: a quota of Kafka is used up, for 0.5 s at last",
        "broker 2 throttles this process: a quota of Kafka is used up, for 3.2 s at last",
    ]
    assert len(throttled(stats, 100.0 + SHOWN_FOR_S)) == 1
    assert throttled(stats, 101.0 + SHOWN_FOR_S) == []
