"""What a worker finished for a subscription, over cursors that come and go."""

from dataclasses import dataclass

from app.domain.commit import Progress
from app.domain.delivery import Delivered, Retry
from workers.consumer.commit.offsets import OffsetTracker
from workers.consumer.commit.tally import Finished, Tally
from workers.consumer.outcome.attempt_counts import RecentCounts


@dataclass(slots=True)
class FakeCursor:
    delivered: int = 0
    in_flight: int = 0

    def finished(self) -> Finished:
        return Finished(delivered=self.delivered, volume=10 * self.delivered)


def test_what_is_open_and_what_left_count_together() -> None:
    tally = Tally()
    tally.leave(FakeCursor(2))
    assert tally.total([FakeCursor(3), FakeCursor(4)]) == Finished(delivered=9, volume=90)


def test_what_lands_after_its_cursor_left_counts_too() -> None:
    tally, cursor = Tally(), FakeCursor(2, in_flight=1)
    tally.leave(cursor)
    assert tally.total([]).delivered == 2
    cursor.delivered, cursor.in_flight = 3, 0
    assert tally.total([]).delivered == 3
    assert tally.total([]).delivered == 3


def test_counts_of_whoever_had_the_partition_before_are_not_ours() -> None:
    before = Progress(
        subscription_id="s", offset=7, delivered=5, discarded=1, filtered=2, volume=50
    )
    tracker = OffsetTracker(before)
    assert tracker.finished_here() == Finished()
    tracker.delivered += 2
    tracker.volume += 20
    tracker.discarded += 1
    tracker.filtered += 3
    assert tracker.finished_here() == Finished(2, 1, 3, 20)


def test_attempts_are_counted_for_ever_when_the_last_minute_forgot_them() -> None:
    counts = RecentCounts(0.0)
    counts.delivered(7)
    counts.add(Retry(reason="no", status=503), size=1, retried=True)
    counts.roll(1.0)
    counts.roll(100.0)
    assert counts.totals().codes_2xx == 0
    counts.delivered(7)
    counts.add(Delivered(status=200), size=7, retried=True)
    ever = counts.ever()
    assert (ever.codes_2xx, ever.codes_5xx, ever.retries, ever.bytes) == (3, 1, 2, 21)
