"""The offset tracker: what may be committed, and what a restart makes of it."""

from hypothesis import given
from hypothesis import strategies as st

from app.domain.commit import METADATA_BYTES_MAX, Progress, parse_progress
from workers.consumer.commit.offsets import OffsetTracker


def a_tracker(offset: int = 0, **progress: object) -> OffsetTracker:
    return OffsetTracker(Progress(subscription_id="s1", offset=offset, **progress))  # type: ignore[arg-type]


def opened(tracker: OffsetTracker, *offsets: int) -> OffsetTracker:
    for offset in offsets:
        tracker.open(offset, 1_000 + offset)
    return tracker


def restarted(tracker: OffsetTracker) -> OffsetTracker:
    progress = tracker.committable()
    parsed = parse_progress("s1", progress.offset, progress.metadata())
    assert parsed == progress
    return OffsetTracker(parsed)


def test_a_fresh_tracker_commits_where_it_starts() -> None:
    assert a_tracker(7).committable().offset == 7


def test_never_commits_past_an_unfinished_message() -> None:
    tracker = opened(a_tracker(), 0, 1, 2, 3)
    tracker.close(1)
    tracker.close(3)
    progress = tracker.committable()
    assert progress.offset == 0
    assert progress.finished == ((1, 2), (3, 4))


def test_commits_past_everything_that_is_finished() -> None:
    tracker = opened(a_tracker(), 0, 1, 2)
    for offset in (2, 0, 1):
        tracker.close(offset)
    assert tracker.committable().offset == 3


def test_offsets_without_a_message_count_as_finished() -> None:
    tracker = opened(a_tracker(), 5)
    tracker.close(5)
    tracker.pass_over(9)
    assert tracker.committable().offset == 9


def test_a_restart_skips_what_was_finished_and_nothing_else() -> None:
    tracker = opened(a_tracker(), 0, 1, 2, 3, 4)
    for offset in (1, 3):
        tracker.close(offset)
    again = restarted(tracker)
    assert [offset for offset in range(5) if not again.is_finished(offset)] == [0, 2, 4]


def test_a_commit_soon_after_a_restart_keeps_what_is_finished_further_on() -> None:
    tracker = opened(a_tracker(), 0, 1, 2, 3)
    tracker.close(3)
    again = opened(restarted(tracker), 0, 1)
    again.close(0)
    assert again.committable().finished == ((3, 4),)


def test_the_oldest_unfinished_message_keeps_its_clock_over_a_restart() -> None:
    tracker = opened(a_tracker(), 4)
    again = restarted(tracker)
    assert again.open(4, 99_000) == 1_004
    assert again.open(5, 99_000) == 99_000


def test_lifetime_counts_survive_a_restart() -> None:
    tracker = a_tracker()
    tracker.delivered, tracker.discarded, tracker.volume = 3, 2, 4096
    again = restarted(tracker)
    assert (again.delivered, again.discarded, again.volume) == (3, 2, 4096)


def test_opens_no_more_than_a_commit_can_describe() -> None:
    tracker = a_tracker()
    offset = 0
    while tracker.may_open():
        tracker.open(offset, 0)
        if offset % 2:
            tracker.close(offset)
        offset += 1
    assert tracker.open_count > 200
    assert len(tracker.committable().metadata()) <= METADATA_BYTES_MAX
    for unfinished in range(0, offset, 2):
        tracker.close(unfinished)
    assert tracker.may_open()


def test_a_long_run_of_unfinished_messages_does_not_stop_it() -> None:
    tracker = a_tracker()
    for offset in range(10_000):
        assert tracker.may_open()
        tracker.open(offset, 0)


def test_after_a_restart_with_a_full_commit_it_goes_on_to_the_end() -> None:
    tracker = opened(a_tracker(), *range(4_000))
    for offset in range(301, 4_000, 2):
        tracker.close(offset)
    tracker = restarted(tracker)
    for offset in range(4_000):
        assert tracker.may_open()
        tracker.open(offset, 0)
        tracker.close(offset)
    assert tracker.committable().offset == 4_000


def test_what_is_finished_always_fits_into_a_commit() -> None:
    """Many may be opened in a row; how they will be finished nobody knows."""
    tracker = opened(a_tracker(), *range(10_000))
    for offset in range(1, 10_000, 2):
        tracker.close(offset)
    progress = tracker.committable()
    assert len(progress.metadata()) <= METADATA_BYTES_MAX
    again = restarted(tracker)
    assert again.position == 0
    assert all(again.is_finished(offset) for offset in range(1, 2_000, 2))
    assert not any(again.is_finished(offset) for offset in range(0, 10_000, 2))


def test_what_lands_from_before_a_rewind_finishes_nothing_that_was_opened_after_it() -> None:
    tracker = opened(a_tracker(), 0, 1)
    tracker.rewind(0)
    opened(tracker, 0, 1)
    tracker.close(1)
    tracker.close(0)
    assert tracker.committable().offset == 0
    assert tracker.committable().finished == ()
    tracker.close(0)
    assert tracker.committable().offset == 1
    tracker.close(1)
    assert tracker.committable().offset == 2


@given(st.data())
def test_after_any_restart_exactly_the_unfinished_are_sent_again(data: st.DataObject) -> None:
    tracker, finished, read_to = a_tracker(), set[int](), 0
    for _ in range(data.draw(st.integers(1, 4), label="restarts")):
        stop = tracker.position + data.draw(st.integers(0, 12), label="messages")
        sent = []
        for offset in range(tracker.position, stop):
            assert tracker.is_finished(offset) is (offset in finished)
            if offset in finished:
                tracker.pass_over(offset + 1)
            else:
                tracker.open(offset, 0)
                sent.append(offset)
        for offset in data.draw(st.permutations(sent), label="order")[: len(sent) // 2]:
            tracker.close(offset)
            finished.add(offset)
        read_to = max(read_to, stop)
        unfinished = set(range(read_to)) - finished
        assert tracker.committable().offset <= min(unfinished, default=read_to)
        tracker = restarted(tracker)
        again = set(range(tracker.position, read_to)) - finished
        assert again == unfinished


def test_a_clock_that_stands_is_committed_as_what_has_run() -> None:
    tracker = opened(a_tracker(), 0, 1)
    tracker.pause_ttls(5_000)
    progress = tracker.committable()
    assert (progress.oldest_opened_ms, progress.oldest_elapsed_ms) == (None, 4_000)


def test_a_clock_goes_on_as_if_its_message_had_been_opened_later() -> None:
    tracker = opened(a_tracker(), 0, 1)
    tracker.pause_ttls(5_000)
    tracker.resume_ttls(65_000)
    progress = tracker.committable()
    assert (progress.oldest_opened_ms, progress.oldest_elapsed_ms) == (61_000, None)


def test_a_clock_that_was_told_twice_to_stand_stands_since_the_first_time() -> None:
    tracker = opened(a_tracker(), 0)
    tracker.pause_ttls(5_000)
    tracker.pause_ttls(9_000)
    assert tracker.committable().oldest_elapsed_ms == 4_000


def test_a_time_to_live_has_run_for_as_long_as_it_did_not_stand() -> None:
    tracker = opened(a_tracker(), 0)
    assert tracker.ran_ms(0, 3_000) == 2_000
    tracker.pause_ttls(5_000)
    tracker.open(1, 6_000)
    assert [tracker.ran_ms(offset, 9_000) for offset in (0, 1)] == [4_000, 0]
    tracker.resume_ttls(65_000)
    assert [tracker.ran_ms(offset, 66_000) for offset in (0, 1)] == [5_000, 1_000]
    tracker.close(0)
    assert tracker.ran_ms(0, 66_000) is None


def test_what_is_opened_while_clocks_stand_begins_when_they_go_on() -> None:
    tracker = opened(a_tracker(), 0)
    tracker.pause_ttls(5_000)
    tracker.open(1, 30_000)
    tracker.close(0)
    assert tracker.committable().oldest_elapsed_ms == 0
    tracker.resume_ttls(65_000)
    assert tracker.committable().oldest_opened_ms == 65_000


def test_a_clock_that_stood_goes_on_where_it_was_after_a_restart() -> None:
    tracker = opened(a_tracker(), 0)
    tracker.pause_ttls(5_000)
    again = restarted(tracker)
    assert again.open(0, 1_000_000) == 996_000
    assert again.committable().oldest_opened_ms == 996_000


def test_a_clock_that_stood_stands_on_where_it_was_after_a_restart() -> None:
    tracker = opened(a_tracker(), 0)
    tracker.pause_ttls(5_000)
    again = restarted(tracker)
    again.pause_ttls(1_000_000)
    assert again.committable().oldest_elapsed_ms == 4_000
    assert again.open(0, 1_500_000) == 1_496_000
    assert again.committable().oldest_elapsed_ms == 4_000
    again.resume_ttls(2_000_000)
    assert again.committable().oldest_opened_ms == 1_996_000


def test_a_clock_that_ran_is_stopped_before_its_message_is_opened_again() -> None:
    again = restarted(opened(a_tracker(), 0))
    again.pause_ttls(5_000)
    assert again.committable().oldest_elapsed_ms == 4_000
    assert again.open(0, 9_000) == 5_000
    assert again.committable().oldest_elapsed_ms == 4_000


def test_a_clock_is_not_forgotten_before_its_message_is_opened_again() -> None:
    again = restarted(opened(a_tracker(), 0))
    assert again.committable().oldest_opened_ms == 1_000
    assert again.has_clock
    assert not a_tracker().has_clock


def test_a_clock_that_stood_before_its_message_is_opened_again_goes_on_later() -> None:
    again = restarted(opened(a_tracker(), 0))
    again.pause_ttls(5_000)
    again.resume_ttls(8_000)
    assert again.committable().oldest_opened_ms == 4_000
    assert again.open(0, 9_000) == 4_000


def test_a_message_whose_turn_comes_late_begins_its_time_to_live_then() -> None:
    tracker = a_tracker()
    tracker.open(0, 1_000)
    tracker.open(1, 1_000)
    assert tracker.begin(1, 9_000) == 9_000
    tracker.close(0)
    assert (tracker.ran_ms(1, 10_000), tracker.committable().oldest_opened_ms) == (1_000, 9_000)


def test_a_clock_that_ran_before_a_restart_does_not_begin_anew() -> None:
    tracker = a_tracker(oldest_opened_ms=1_000)
    tracker.open(0, 5_000)
    assert tracker.begin(0, 9_000) is None
    assert tracker.ran_ms(0, 9_000) == 8_000


def test_what_is_not_open_has_no_clock_to_begin() -> None:
    assert a_tracker().begin(0, 9_000) is None


def test_attempts_go_with_their_message_and_over_restarts() -> None:
    tracker = opened(a_tracker(), 0, 1, 2)
    for offset in (0, 1, 2):
        assert tracker.tried(offset, offset + 1)
    tracker.close(1)
    again = restarted(tracker)
    assert again.attempts == {0: 1, 2: 3}
    # Until they are finished, also before they are opened again.
    assert restarted(again).attempts == {0: 1, 2: 3}
    opened(again, 0, 2).close(0)
    assert restarted(again).attempts == {2: 3}


def test_attempts_of_what_is_not_open_are_not_kept() -> None:
    tracker = a_tracker()
    assert not tracker.tried(0, 1)
    tracker.open(0, 1_000)
    tracker.tried(0, 1)
    tracker.rewind(0)
    assert tracker.committable().attempts == ()


def test_the_finished_set_and_attempts_fit_into_a_commit_together() -> None:
    tracker = a_tracker(oldest_opened_ms=1 << 42, delivered=1 << 50, discarded=1 << 50)
    while tracker.may_open():
        tracker.open(tracker.position, 1_000)
        if tracker.position % 2:
            tracker.tried(tracker.position - 1, 7)
        else:
            tracker.close(tracker.position - 1)
    progress = tracker.committable()
    text = progress.metadata()
    assert len(text) <= METADATA_BYTES_MAX
    parsed = parse_progress("s1", progress.offset, text)
    assert parsed is not None
    assert parsed.finished == progress.finished
    assert len(parsed.attempts) >= 100
