"""All reading of a worker: who follows the tail where, and what becomes of gaps."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.log.interface import Chunk
from tests.fakes.reading import (
    ORDERS,
    ScriptedFetches,
    ScriptedTail,
    StandingReader,
    a_chunk,
    a_gap,
)
from tests.fakes.supervised import until
from workers.reading.feed import AHEAD_BYTES_MAX, Batch
from workers.reading.reader import TOGETHER_OFFSETS, Reader

FAR = TOGETHER_OFFSETS + 1


class Reading:
    """A reader on a tail that brings what it is told to."""

    def __init__(self) -> None:
        self.tail = ScriptedTail()
        self.log = ScriptedFetches()
        self.reader = Reader(self.log, self.tail)  # type: ignore[arg-type]

    def joined(self, *positions: int) -> list[StandingReader]:
        readers = [StandingReader(position) for position in positions]
        self.feed = self.reader.join(ORDERS, readers)
        return readers

    async def bring(self, *chunks: Chunk) -> None:
        """Let them be taken, in order."""
        self.tail.bring(*chunks)
        for _ in range(10 * len(chunks)):
            await asyncio.sleep(0)

    def end(self) -> int:
        """As far as the partition was read for those who joined last."""
        return self.feed.end

    def followed(self) -> int | None:
        return self.tail.followed.get(ORDERS)


@asynccontextmanager
async def reading() -> AsyncIterator[Reading]:
    parts = Reading()
    running = asyncio.get_running_loop().create_task(parts.reader.run())
    try:
        yield parts
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_partition_is_followed_while_it_has_readers() -> None:
    async with reading() as parts:
        first, second = parts.joined(7, 7)
        assert parts.followed() == 7
        parts.reader.leave(ORDERS, first)
        assert parts.followed() == 7
        parts.reader.leave(ORDERS, second)
        assert parts.followed() is None
        parts.reader.leave(ORDERS, second)


async def test_cursors_close_together_start_at_the_hindmost_of_them() -> None:
    async with reading() as parts:
        parts.joined(3, 5_000, 5_000 + TOGETHER_OFFSETS)
        assert parts.followed() == 5_000


async def test_a_newcomer_a_little_ahead_waits_for_the_tail() -> None:
    async with reading() as parts:
        parts.joined(0)
        parts.joined(TOGETHER_OFFSETS)
        assert parts.followed() == 0


async def test_who_waits_at_the_tail_is_woken_when_a_newcomer_far_ahead_moves_it() -> None:
    """Otherwise it would wait for the next message, with those before it unread."""
    async with reading() as parts:
        feed = parts.reader.join(ORDERS, [behind := StandingReader(0)])
        feed.wait(behind)
        parts.joined(FAR)
        assert parts.followed() == FAR
        assert behind.woken == 1


async def test_chunks_extend_the_feed_and_repeats_do_not() -> None:
    async with reading() as parts:
        parts.joined(0)
        await parts.bring(a_chunk(0, 5), a_chunk(0, 5), a_chunk(3, 8))
        assert parts.end() == 8


async def test_a_chunk_from_further_on_asks_again_for_what_is_missing() -> None:
    async with reading() as parts:
        parts.joined(0)
        parts.tail.unfollow(ORDERS)
        await parts.bring(a_chunk(5, 8))
        assert (parts.end(), parts.followed()) == (0, 0)


async def test_a_chunk_for_a_partition_that_was_left_is_forgotten() -> None:
    async with reading() as parts:
        (reader,) = parts.joined(0)
        parts.reader.leave(ORDERS, reader)
        await parts.bring(a_chunk(0, 5))
        assert parts.end() == 0


async def test_the_tail_pauses_and_goes_on_with_its_fastest_reader() -> None:
    async with reading() as parts:
        feed = parts.reader.join(ORDERS, [reader := StandingReader(0)])
        await parts.bring(a_chunk(0, 5, size=AHEAD_BYTES_MAX + 1))
        assert parts.followed() is None
        parts.reader.resume(feed)
        assert parts.followed() is None
        reader.position = 5
        parts.reader.resume(feed)
        assert parts.followed() == 5


async def test_what_retention_took_is_crossed_and_who_is_further_on_stays_there() -> None:
    async with reading() as parts:
        behind, ahead = parts.joined(100, 1_000)
        await parts.bring(a_gap(100, 600))
        assert (parts.end(), parts.followed()) == (600, 600)
        assert behind.woken == 1
        assert (behind.rewound_to, ahead.rewound_to) == (None, None)


async def test_who_is_beyond_the_end_of_a_log_made_anew_goes_back() -> None:
    async with reading() as parts:
        behind, ahead = parts.joined(100, 1_000)
        await parts.bring(a_gap(100, 0))
        assert (parts.end(), parts.followed()) == (0, 0)
        assert (behind.rewound_to, ahead.rewound_to) == (0, 0)
        assert ahead.woken == 1


async def test_who_is_not_beyond_the_end_stays_where_it_is() -> None:
    async with reading() as parts:
        behind, ahead = parts.joined(20, 1_000)
        await parts.bring(a_gap(20, 0, log_end=40))
        assert (behind.rewound_to, ahead.rewound_to) == (None, 0)
        assert (parts.end(), parts.followed()) == (20, 20)


async def test_a_newcomer_beyond_the_end_is_found_although_it_waits_for_the_tail() -> None:
    async with reading() as parts:
        (behind,) = parts.joined(8)
        parts.log.end = 8
        (ahead,) = parts.joined(20)
        await until(lambda: parts.followed() == 20)
        await parts.bring(a_gap(20, 0, log_end=8))
        assert (behind.rewound_to, ahead.rewound_to) == (None, 0)
        assert (parts.end(), parts.followed()) == (8, 8)


async def test_of_two_that_begin_together_the_one_beyond_the_end_is_found() -> None:
    async with reading() as parts:
        parts.log.end = 8
        parts.log.failures = 1
        parts.joined(8, 20)
        assert parts.followed() == 8
        await until(lambda: parts.followed() == 20)


async def test_a_newcomer_that_is_not_beyond_the_end_waits_for_the_tail() -> None:
    async with reading() as parts:
        parts.joined(8)
        parts.log.end = 20
        parts.joined(20)
        await until(parts.reader._ahead.empty)  # noqa: SLF001 - tells when it was looked at
        assert parts.followed() == 8


async def test_a_paused_tail_is_followed_again_after_a_gap() -> None:
    async with reading() as parts:
        parts.joined(0)
        await parts.bring(a_chunk(0, 5, size=AHEAD_BYTES_MAX + 1), a_gap(5, 9))
        assert parts.followed() == 9


async def test_a_gap_from_before_the_tail_was_moved_changes_nothing() -> None:
    async with reading() as parts:
        parts.joined(100)
        (head,) = parts.joined(100 + FAR)
        await parts.bring(a_gap(100, 600))
        assert parts.end() == parts.followed() == 100 + FAR
        assert head.rewound_to is None


async def test_nothing_of_a_topic_is_kept_when_nobody_reads_it() -> None:
    """It may be another one of the same name when somebody does."""
    async with reading() as parts:
        on_batch: list[Batch] = []
        feed = parts.reader.join(ORDERS, [reader := StandingReader(FAR)])
        parts.reader.fetch(feed, 0, lambda batch, _: on_batch.append(batch))
        await until(lambda: bool(parts.log.asked))
        parts.log.answer(a_chunk(0, 5))
        await until(lambda: len(on_batch) == 1)
        parts.reader.leave(ORDERS, reader)
        feed = parts.reader.join(ORDERS, [reader])
        parts.reader.fetch(feed, 0, lambda batch, _: on_batch.append(batch))
        await until(lambda: bool(parts.log.asked))
        parts.log.answer(a_chunk(0, 2))
        await until(lambda: len(on_batch) == 2)
    assert on_batch[1].next_offset == 2


async def test_nothing_of_a_log_is_kept_when_it_was_made_anew() -> None:
    async with reading() as parts:
        on_batch: list[Batch] = []
        feed = parts.reader.join(ORDERS, [StandingReader(100)])
        parts.reader.fetch(feed, 0, lambda batch, _: on_batch.append(batch))
        await until(lambda: bool(parts.log.asked))
        parts.log.answer(a_chunk(0, 5))
        await until(lambda: len(on_batch) == 1)
        await parts.bring(a_gap(100, 0))
        parts.reader.fetch(feed, 0, lambda batch, _: on_batch.append(batch))
        await until(lambda: bool(parts.log.asked))
        parts.log.answer(a_chunk(0, 2))
        await until(lambda: len(on_batch) == 2)
    assert on_batch[1].next_offset == 2
