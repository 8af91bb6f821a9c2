"""The chunk cache of a partition: what it keeps, whom it wakes, when it pauses its tail."""

import pytest

from tests.fakes.reading import ORDERS, StandingReader, a_batch
from workers.reading.feed import AHEAD_BYTES_MAX, CACHE_BYTES_MAX, Feed

MIB = 1 << 20


def a_feed(position: int = 0, *readers: StandingReader) -> Feed:
    feed = Feed(ORDERS, position)
    feed.readers.update(readers)
    return feed


@pytest.mark.parametrize(
    ("offset", "index"), [(0, 0), (10, 0), (11, 1), (12, 1), (13, 1), (14, 2), (15, 3)]
)
def test_finds_the_first_message_at_or_above_an_offset(offset: int, index: int) -> None:
    batch = a_batch(10, 16, holes=[11, 12, 15])  # so there are 10, 13 and 14
    assert batch.index_of(offset) == index


@pytest.mark.parametrize(("position", "found"), [(0, 0), (9, 0), (10, 10), (19, 10)])
def test_finds_the_batch_that_covers_a_position(position: int, found: int) -> None:
    feed = a_feed(0, StandingReader(0))
    feed.put(a_batch(0, 10))
    feed.put(a_batch(10, 20))
    batch = feed.find(position)
    assert batch is not None
    assert batch.offset == found


def test_has_nothing_before_its_start_and_from_its_end_on() -> None:
    feed = a_feed(5)
    feed.put(a_batch(5, 10))
    assert feed.find(4) is None
    assert feed.find(10) is None


def test_wakes_each_who_waits_once_a_batch() -> None:
    waiting, elsewhere = StandingReader(0), StandingReader(0)
    feed = a_feed(0, waiting, elsewhere)
    feed.wait(waiting)
    feed.wait(waiting)
    feed.put(a_batch(0, 1))
    feed.put(a_batch(1, 2))
    assert (waiting.woken, elsewhere.woken) == (1, 0)


def test_does_not_wake_who_left() -> None:
    reader = StandingReader(0)
    feed = a_feed(0, reader)
    feed.wait(reader)
    feed.leave(reader)
    feed.put(a_batch(0, 1))
    assert reader.woken == 0


def test_wakes_who_waits_when_it_goes_on_elsewhere() -> None:
    reader = StandingReader(0)
    feed = a_feed(0, reader)
    feed.wait(reader)
    feed.restart(5_000)
    assert reader.woken == 1


def test_drops_what_every_reader_has_passed() -> None:
    slow, fast = StandingReader(0), StandingReader(0)
    feed = a_feed(0, slow, fast)
    feed.put(a_batch(0, 10))
    feed.put(a_batch(10, 20))
    assert feed.start == 0
    slow.position, fast.position = 10, 20
    feed.trim()
    assert feed.start == 10


def test_keeps_no_more_than_its_bound_for_one_that_is_behind() -> None:
    feed = a_feed(0, *map(StandingReader, range(10)))
    for number in range(10):
        feed.put(a_batch(number, number + 1, size=MIB))
    assert feed.end - feed.start == CACHE_BYTES_MAX // MIB


def test_a_reader_behind_the_cache_keeps_nothing_in_it() -> None:
    feed = a_feed(100, StandingReader(3), StandingReader(110))
    feed.put(a_batch(100, 110))
    feed.trim()
    assert feed.start == feed.end == 110


def test_pauses_when_enough_is_read_ahead_of_the_fastest_and_goes_on_when_it_needs_more() -> None:
    slow, fast = StandingReader(0), StandingReader(0)
    feed = a_feed(0, slow, fast)
    for number in range(AHEAD_BYTES_MAX // MIB):
        feed.put(a_batch(number, number + 1, size=MIB))
        assert not feed.held
    feed.put(a_batch(2, 3, size=MIB))
    assert feed.held
    fast.position = 2
    assert not feed.may_resume()
    fast.position = 3
    assert feed.may_resume()


def test_offsets_without_a_message_can_be_passed_in_the_feed() -> None:
    """Else each who reads it would have to read the log for them."""
    feed = a_feed(0, StandingReader(0))
    feed.put(a_batch(0, 2, holes=[0, 1]))
    for stop in range(3, 1_000):
        feed.put(a_batch(stop - 1, stop, holes=[stop - 1]))
    feed.put(a_batch(999, 1_001))
    for position in (0, 1, 2, 500, 998):
        batch = feed.find(position)
        assert batch is not None
        assert batch.messages == []
        assert batch.next_offset == 999
