"""When a message may be sent, when it is too old, and since when its time to live runs."""

from datetime import timedelta

import pytest

from app.domain.catalogue.subscription import DeliveryPolicy
from app.domain.message import Message, Record
from tests.fakes.reading import ORDERS
from workers.consumer.source.message_times import delay_left_ms, is_stale, ttl_starts_ms

DELAYED = DeliveryPolicy(sending_delay=timedelta(seconds=5))
PUBLISHED_MS = 1_000_000


def a_message() -> Message:
    return Message(Record(0, PUBLISHED_MS, None, b"", []), ORDERS)


@pytest.mark.parametrize(
    ("since_published_ms", "left_ms"),
    [(0, 5_000), (1_000, 4_000), (5_000, 0), (60_000, 0), (-60_000, 5_000)],
)
def test_the_delay_runs_from_publication_and_is_never_longer_than_set(
    since_published_ms: int, left_ms: int
) -> None:
    now_ms = PUBLISHED_MS + since_published_ms
    assert delay_left_ms(a_message(), DELAYED, now_ms=now_ms) == left_ms
    assert delay_left_ms(a_message(), DeliveryPolicy(), now_ms=now_ms) == 0


@pytest.mark.parametrize(
    ("opened_after_ms", "starts_after_ms"), [(0, 5_000), (1_000, 5_000), (7_000, 7_000)]
)
def test_the_time_to_live_starts_when_a_message_may_be_sent_whoever_opened_it(
    opened_after_ms: int, starts_after_ms: int
) -> None:
    opened_ms = PUBLISHED_MS + opened_after_ms
    starts_ms = ttl_starts_ms(a_message(), DELAYED, opened_ms=opened_ms)
    assert starts_ms == PUBLISHED_MS + starts_after_ms
    assert ttl_starts_ms(a_message(), DeliveryPolicy(), opened_ms=opened_ms) == opened_ms


def test_a_message_is_too_old_after_the_publish_ttl_and_not_at_it() -> None:
    policy = DeliveryPolicy(publish_ttl=timedelta(seconds=60))
    at_ms = PUBLISHED_MS + 60_000
    assert not is_stale(a_message(), policy, now_ms=at_ms)
    assert is_stale(a_message(), policy, now_ms=at_ms + 1)
    assert not is_stale(a_message(), DeliveryPolicy(), now_ms=at_ms + 1)
