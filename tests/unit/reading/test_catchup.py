"""Catch-up reads: each chunk once, in turn, and nothing for nobody."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from app.domain.message import Partition
from app.log.interface import Chunk
from tests.fakes.reading import ORDERS, ScriptedFetches, a_chunk, a_gap
from tests.fakes.supervised import until
from workers.reading.catchup import KEPT_CHUNKS, READERS, CatchUp
from workers.reading.feed import Batch

OTHER = Partition("shop.orders", 1)


class BatchListener(list[tuple[int, int, bool]]):
    """What a laggard was fed: offset, next offset, gap."""

    def __call__(self, batch: Batch, gap: bool, /) -> None:  # noqa: FBT001 - a callback's shape
        self.append((batch.offset, batch.next_offset, gap))


@asynccontextmanager
async def catching_up() -> AsyncIterator[tuple[CatchUp, ScriptedFetches]]:
    log = ScriptedFetches()
    catch_up = CatchUp(log, retry_pause=timedelta(milliseconds=1))  # type: ignore[arg-type]
    running = asyncio.get_running_loop().create_task(catch_up.run())
    try:
        yield catch_up, log
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def fetch_and_answer(
    catch_up: CatchUp, log: ScriptedFetches, *, on_batch: BatchListener, chunk: Chunk
) -> None:
    """Let `on_batch` ask for the chunk, and wait until it was fed."""
    fed = len(on_batch)
    catch_up.fetch(ORDERS, chunk.offset, on_batch)
    await until(lambda: bool(log.asked))
    log.answer(chunk)
    await until(lambda: len(on_batch) > fed)


async def test_all_who_want_a_chunk_get_it_of_one_read() -> None:
    async with catching_up() as (catch_up, log):
        several = [BatchListener() for _ in range(5)]
        for on_batch in several:
            catch_up.fetch(ORDERS, 0, on_batch)
        await until(lambda: bool(log.asked))
        log.answer(a_chunk(0, 10))
        await until(lambda: all(several))
    assert several == [[(0, 10, False)]] * 5
    assert log.asked_in_all == 1


async def test_a_kept_chunk_is_not_read_again() -> None:
    async with catching_up() as (catch_up, log):
        first, second = BatchListener(), BatchListener()
        await fetch_and_answer(catch_up, log, on_batch=first, chunk=a_chunk(0, 10))
        catch_up.fetch(ORDERS, 7, second)
        await until(lambda: bool(second))
    assert second == [(0, 10, False)]
    assert log.asked_in_all == 1


async def test_what_was_used_longest_ago_is_forgotten_first() -> None:
    async with catching_up() as (catch_up, log):
        on_batch = BatchListener()

        async def fetch(offset: int) -> None:
            count = len(on_batch)
            catch_up.fetch(ORDERS, offset, on_batch)
            await until(lambda: bool(log.asked) or len(on_batch) > count)
            if log.asked:
                log.answer(a_chunk(offset, offset + 10))
                await until(lambda: len(on_batch) > count)

        for offset in range(0, KEPT_CHUNKS * 10, 10):
            await fetch(offset)
        await fetch(0)  # used again
        await fetch(KEPT_CHUNKS * 10)  # one too many
        read = log.asked_in_all
        await fetch(0)
        assert log.asked_in_all == read
        await fetch(10)
        assert log.asked_in_all == read + 1


async def test_so_many_read_at_once_and_the_others_follow_in_turn() -> None:
    async with catching_up() as (catch_up, log):
        on_batch = BatchListener()
        for index in range(READERS + 2):
            catch_up.fetch(Partition("t", index), 0, on_batch)
        await until(lambda: len(log.asked) == READERS)
        assert [partition.index for partition, _ in log.asked] == list(range(READERS))
        log.answer(a_chunk(0, 1, partition=Partition("t", 0)))
        await until(lambda: (Partition("t", READERS), 0) in log.asked)


async def test_a_gap_is_told_and_not_kept() -> None:
    async with catching_up() as (catch_up, log):
        on_batch = BatchListener()
        for _ in range(2):
            catch_up.fetch(ORDERS, 3, on_batch)
            await until(lambda: bool(log.asked))
            log.answer(a_gap(3, 8))
            await until(lambda: not log.asked)
            await asyncio.sleep(0)
    assert on_batch == [(3, 8, True)] * 2


@pytest.mark.parametrize("nothing", ["an error", "an empty chunk"])
async def test_a_read_that_brought_nothing_is_repeated_after_a_pause_behind_the_others(
    nothing: str,
) -> None:
    async with catching_up() as (catch_up, log):
        on_batch, others = BatchListener(), BatchListener()
        catch_up.fetch(ORDERS, 0, on_batch)
        await until(lambda: bool(log.asked))
        if nothing == "an error":
            log.fail()
        else:
            log.answer(a_chunk(0, 0))
        catch_up.fetch(OTHER, 0, others)
        await until(lambda: len(log.asked) == 2)
        assert [partition for partition, _ in log.asked] == [OTHER, ORDERS]
        assert on_batch == []
        log.answer(a_chunk(0, 1, partition=OTHER))
        log.answer(a_chunk(0, 1))
        await until(lambda: bool(on_batch and others))


async def test_nothing_is_read_for_a_partition_that_nobody_reads_any_more() -> None:
    async with catching_up() as (catch_up, log):
        on_batch = BatchListener()
        catch_up.fetch(ORDERS, 0, on_batch)
        catch_up.fetch(OTHER, 0, on_batch)
        catch_up.forget(ORDERS)
        await until(lambda: bool(log.asked))
        assert list(log.asked) == [(OTHER, 0)]
        log.fail()
        catch_up.forget(OTHER)
        catch_up.fetch(ORDERS, 5, on_batch)
        await until(lambda: bool(log.asked))
        assert list(log.asked) == [(ORDERS, 5)]
    assert log.asked_in_all == 2


async def test_what_was_read_for_a_forgotten_partition_is_not_fed_to_its_next_reader() -> None:
    async with catching_up() as (catch_up, log):
        old, new = BatchListener(), BatchListener()
        catch_up.fetch(ORDERS, 0, old)
        await until(lambda: bool(log.asked))
        catch_up.forget(ORDERS)
        catch_up.fetch(ORDERS, 0, new)
        await until(lambda: len(log.asked) == 2)
        log.answer(a_chunk(0, 99))
        log.answer(a_chunk(0, 2))
        await until(lambda: bool(new))
    assert (old, new) == ([], [(0, 2, False)])


async def test_after_a_rewind_nothing_is_read_beyond_the_end_and_nothing_is_kept() -> None:
    async with catching_up() as (catch_up, log):
        kept, beyond, again = (BatchListener() for _ in range(3))
        await fetch_and_answer(catch_up, log, on_batch=kept, chunk=a_chunk(0, 99))
        catch_up.fetch(ORDERS, 99, beyond)
        await until(lambda: bool(log.asked))
        catch_up.rewind(ORDERS, 0)
        log.answer(a_chunk(99, 120))
        catch_up.fetch(ORDERS, 0, again)
        await until(lambda: bool(log.asked))
        log.answer(a_chunk(0, 2))
        await until(lambda: bool(again))
    assert (beyond, again) == ([], [(0, 2, False)])


async def test_nothing_is_kept_of_a_log_that_is_shorter_now() -> None:
    async with catching_up() as (catch_up, log):
        kept, beyond, again = (BatchListener() for _ in range(3))
        await fetch_and_answer(catch_up, log, on_batch=kept, chunk=a_chunk(0, 99))
        await fetch_and_answer(catch_up, log, on_batch=beyond, chunk=a_gap(99, 50))
        await fetch_and_answer(catch_up, log, on_batch=again, chunk=a_chunk(50, 60))
    assert (beyond, again) == ([(99, 50, True)], [(50, 60, False)])
