import asyncio
from collections.abc import Callable
from datetime import timedelta

from app.domain.catalogue.fetch import FetchPolicy
from app.domain.message import Partition
from tests.fakes.reading import StandingReader, a_batch
from workers.consumer.source.fetches import Fetches
from workers.reading.catchup import BatchListener
from workers.reading.feed import Batch, Feed, TailReader

SOON = timedelta(milliseconds=100)
LATE = timedelta(seconds=60)


class Asked:
    """A reader that only remembers what it was asked for."""

    def __init__(self) -> None:
        self.wanted: dict[int, BatchListener] = {}
        self.pauses: list[timedelta] = []
        self.left: list[int] = []
        self.changed = asyncio.Event()

    def fetch(self, feed: Feed, offset: int, on_batch: BatchListener, *, pause: timedelta) -> None:
        del offset
        self.wanted[feed.partition.index] = on_batch
        self.pauses.append(pause)
        self.changed.set()

    def resume(self, feed: Feed) -> None:
        del feed

    def leave(self, partition: Partition, reader: TailReader) -> None:
        del reader
        self.left.append(partition.index)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                await self.changed.wait()
                self.changed.clear()


def nobody(batch: Batch, gap: bool, /) -> None:  # noqa: FBT001 - a callback's shape
    del batch, gap


def a_feed(index: int) -> Feed:
    return Feed(Partition("shop.orders", index), 10)


def asked_for(partitions: int, timeout: timedelta = LATE) -> tuple[Fetches, Asked]:
    reader = Asked()
    fetches = Fetches(reader, FetchPolicy(fetch_timeout=timeout, frequency=timedelta(seconds=7)))
    for index in range(partitions):
        fetches.fetch(a_feed(index), 0, nobody)
    return fetches, reader


async def test_three_are_read_at_once_and_the_others_in_their_turn() -> None:
    _, reader = asked_for(6)
    assert list(reader.wanted) == [0, 1, 2]
    reader.wanted[1](a_batch(0, 3), False)  # noqa: FBT003 - a callback's shape
    assert list(reader.wanted) == [0, 1, 2, 3]
    reader.wanted[1](a_batch(0, 3), False)  # noqa: FBT003 - the same again
    assert list(reader.wanted) == [0, 1, 2, 3]
    assert set(reader.pauses) == {timedelta(seconds=7)}


async def test_what_was_read_goes_to_whom_it_is_for() -> None:
    fetches, reader = asked_for(0)
    got: list[tuple[int, bool]] = []
    fetches.fetch(a_feed(0), 0, lambda batch, gap: got.append((batch.next_offset, gap)))
    assert fetches.busy
    reader.wanted[0](a_batch(0, 3), True)  # noqa: FBT003 - a callback's shape
    assert got == [(3, True)]
    assert not fetches.busy


async def test_a_read_that_takes_too_long_makes_room() -> None:
    fetches, reader = asked_for(4, SOON)
    fetches.fetch(a_feed(4), 0, nobody)
    await reader.until(lambda: len(reader.wanted) == 5)
    assert list(reader.wanted) == [0, 1, 2, 3, 4]


async def test_who_leaves_makes_room_and_is_not_read_for() -> None:
    fetches, reader = asked_for(6)
    for index in (4, 0):
        partition = Partition("shop.orders", index)
        fetches.leave(partition, StandingReader(0))
    assert reader.left == [4, 0]
    assert list(reader.wanted) == [0, 1, 2, 3]
    reader.wanted[0](a_batch(0, 3), False)  # noqa: FBT003 - it comes late, and counts for nothing
    assert list(reader.wanted) == [0, 1, 2, 3]
    reader.wanted[1](a_batch(0, 3), False)  # noqa: FBT003 - a callback's shape
    assert list(reader.wanted) == [0, 1, 2, 3, 5]


async def test_the_frequency_is_that_of_the_settings_when_a_read_begins() -> None:
    fetches, reader = asked_for(0)
    fetches.configure(FetchPolicy(frequency=timedelta(seconds=30)))
    fetches.fetch(a_feed(0), 0, nobody)
    assert reader.pauses == [timedelta(seconds=30)]
