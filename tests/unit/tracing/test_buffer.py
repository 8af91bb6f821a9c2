"""The buffer of trace entries: bounded, in order, and honest about what it lost."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

from app.domain.errors import LogUnavailableError
from app.domain.message import NewRecord, Record
from app.domain.trace import TraceSource
from app.tracing.buffer import FULL, ROWS_PER_PACK, TraceBuffer
from app.tracing.packs import Pack, PlainRow, unpacked

LONG = timedelta(seconds=60)
SOURCE = TraceSource(topic="a.b", subscription_id="s", subscription="name")


class Stream:
    """Takes records unless it is down."""

    def __init__(self) -> None:
        self.down = False
        self.tried = 0
        self.appends: list[Sequence[NewRecord]] = []

    async def append(self, records: Sequence[NewRecord]) -> None:
        self.tried += 1
        if self.down:
            raise LogUnavailableError("down")
        self.appends.append(records)

    @property
    def packs(self) -> list[Pack]:
        records = [each for append in self.appends for each in append]
        packs = [unpacked(Record(0, 0, None, r.value, list(r.headers))) for r in records]
        return [pack for pack in packs if pack is not None]

    @property
    def offsets(self) -> list[int]:
        return [row[5] for pack in self.packs for row in pack.rows]


def a_row(offset: int, source: TraceSource = SOURCE) -> PlainRow:
    return (
        source, 1, "SUCCESS", "m", 0, offset, 1, 200, "", 1, 2, None, 3, "", "", "",
    )  # fmt: skip


def a_buffer(stream: Stream, entries_max: int = 10_000) -> TraceBuffer:
    return TraceBuffer(stream.append, worker="w", entries_max=entries_max)


async def test_entries_are_packed_many_to_a_record_in_their_order() -> None:
    stream = Stream()
    buffer = a_buffer(stream)
    for offset in range(ROWS_PER_PACK * 2 + 1):
        buffer.add(a_row(offset))
    assert await buffer.flush()
    assert [len(pack.rows) for pack in stream.packs] == [ROWS_PER_PACK, ROWS_PER_PACK, 1]
    assert stream.offsets == list(range(ROWS_PER_PACK * 2 + 1))
    assert {pack.worker for pack in stream.packs} == {"w"}
    assert buffer.stats == (ROWS_PER_PACK * 2 + 1, 0)


async def test_a_pack_names_only_its_own_sources() -> None:
    stream = Stream()
    buffer = a_buffer(stream)
    other = TraceSource(topic="a.b", subscription_id="t", subscription="other")
    for offset, source in enumerate((other, SOURCE, other)):
        buffer.add(a_row(offset, source))
    await buffer.flush()
    buffer.add(a_row(3))
    await buffer.flush()
    first, second = stream.packs
    assert first.sources == {0: other, 1: SOURCE}
    assert [row[0] for row in first.rows] == [0, 1, 0]
    assert second.sources == {0: SOURCE}


async def test_nothing_is_appended_when_there_is_nothing() -> None:
    stream = Stream()
    assert await a_buffer(stream).flush()
    assert stream.appends == []


async def test_entries_wait_while_the_stream_is_down_and_keep_their_order() -> None:
    stream = Stream()
    buffer = a_buffer(stream)
    stream.down = True
    buffer.add(a_row(0))
    assert not await buffer.flush()
    buffer.add(a_row(1))
    assert not await buffer.flush()
    stream.down = False
    buffer.add(a_row(2))
    assert await buffer.flush()
    assert stream.offsets == [0, 1, 2]
    assert buffer.stats == (3, 0)


async def test_what_finds_no_room_is_counted_and_the_stream_is_told() -> None:
    stream = Stream()
    buffer = a_buffer(stream, entries_max=10)
    stream.down = True
    for offset in range(6):
        buffer.add(a_row(offset))
    await buffer.flush()
    for offset in range(6, 25):
        buffer.add(a_row(offset))
    assert buffer.stats == (0, 15)
    stream.down = False
    await buffer.flush()
    assert stream.offsets == list(range(10))
    assert [(pack.lost, pack.why) for pack in stream.packs] == [(0, ""), (15, FULL)]
    buffer.add(a_row(25))
    await buffer.flush()
    assert [pack.lost for pack in stream.packs] == [0, 15, 0]


async def test_a_loss_is_told_although_nothing_is_left_to_say() -> None:
    stream = Stream()
    buffer = a_buffer(stream, entries_max=0)
    buffer.add(a_row(0))
    await buffer.flush()
    assert [(pack.lost, len(pack.rows)) for pack in stream.packs] == [(1, 0)]


async def test_an_attempt_that_lasts_is_said_to_be_in_the_air_once() -> None:
    class Attempts:
        def __init__(self) -> None:
            self.said: list[str] = []

        def still(self, attempt: str, before: float) -> bool:
            if began[attempt] >= before:
                return False
            self.said.append(attempt)
            return True

    began = dict.fromkeys(("short", "long"), time.monotonic())
    attempts, buffer = Attempts(), a_buffer(Stream())
    buffer.open_attempts |= dict.fromkeys(began, attempts)
    await buffer.flush()
    assert attempts.said == []
    del buffer.open_attempts["short"]
    await buffer.flush()
    await buffer.flush()
    assert attempts.said == ["long"]


async def test_an_entry_that_cannot_be_packed_costs_no_more_than_its_pack() -> None:
    stream = Stream()
    buffer = a_buffer(stream)
    for offset in (1 << 70, 1, 2):
        buffer.add(a_row(offset))
    assert await buffer.flush()
    buffer.add(a_row(3))
    assert await buffer.flush()
    assert stream.offsets == [3]
    assert [pack.lost for pack in stream.packs] == [3]
    assert buffer.stats == (1, 3)


async def test_entries_leave_by_themselves() -> None:
    stream = Stream()
    buffer = a_buffer(stream)
    running = asyncio.get_running_loop().create_task(buffer.run())
    buffer.add(a_row(0))
    async with asyncio.timeout(60):
        while not stream.appends:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert stream.offsets == [0]


async def test_a_process_that_ends_does_not_wait_for_a_stream_that_hangs() -> None:
    async def hang(records: Sequence[NewRecord]) -> None:
        del records
        await asyncio.Event().wait()

    buffer = TraceBuffer(hang, worker="w")
    buffer.add(a_row(0))
    await buffer.finish(timedelta(milliseconds=1))
    assert buffer.stats.recorded == 0


async def test_a_process_that_ends_repeats_a_failed_append() -> None:
    stream = Stream()
    stream.down = True

    async def append(records: Sequence[NewRecord]) -> None:
        try:
            await stream.append(records)
        finally:
            stream.down = False

    buffer = TraceBuffer(append, worker="w", retry_pause=timedelta(0))
    buffer.add(a_row(7))
    await buffer.finish(LONG)
    assert (stream.tried, stream.offsets) == (2, [7])


@asynccontextmanager
async def running(buffer: TraceBuffer) -> AsyncIterator[None]:
    task = asyncio.get_running_loop().create_task(buffer.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_all_that_was_added_is_said_when_somebody_waited_for_it() -> None:
    stream = Stream()
    buffer = a_buffer(stream)
    async with running(buffer):
        for count in (1, ROWS_PER_PACK * 10):
            for offset in range(count):
                buffer.add(a_row(offset))
            assert await buffer.until_appended(LONG)
            assert buffer.waiting == 0
    assert len(stream.offsets) == ROWS_PER_PACK * 10 + 1


async def test_nothing_is_waited_for_when_nothing_was_added() -> None:
    assert await a_buffer(Stream()).until_appended(LONG)


async def test_an_entry_that_cannot_be_packed_is_not_waited_for() -> None:
    stream = Stream()
    buffer = a_buffer(stream)
    async with running(buffer):
        buffer.add(a_row(1 << 70))
        assert await buffer.until_appended(LONG)


async def test_nobody_waits_for_a_stream_that_is_down_until_it_has_caught_up() -> None:
    stream = Stream()
    buffer = a_buffer(stream)
    stream.down = True
    buffer.add(a_row(0))
    waiting = asyncio.ensure_future(buffer.until_appended(LONG))
    await asyncio.sleep(0)
    assert not await buffer.flush()
    assert not await waiting
    assert not await buffer.until_appended(LONG)
    stream.down = False
    assert await buffer.flush()
    buffer.add(a_row(1))
    waiting = asyncio.ensure_future(buffer.until_appended(LONG))
    await asyncio.sleep(0)
    assert await buffer.flush()
    assert await waiting
    assert stream.offsets == [0, 1]


async def test_a_stream_that_hangs_is_waited_for_once() -> None:
    going_on = asyncio.Event()

    async def hang(records: Sequence[NewRecord]) -> None:
        del records
        await going_on.wait()

    buffer = TraceBuffer(hang, worker="w")
    async with running(buffer):
        buffer.add(a_row(0))
        assert not await buffer.until_appended(timedelta(milliseconds=1))
        assert not await buffer.until_appended(LONG)
        going_on.set()
        assert await buffer.flush()
        buffer.add(a_row(1))
        assert await buffer.until_appended(LONG)


async def test_a_look_for_what_is_in_the_air_is_not_taken_because_somebody_waits() -> None:
    class Attempts:
        def still(self, attempt: str, before: float) -> bool:
            raise AssertionError(attempt, before)

    buffer = a_buffer(Stream())
    async with running(buffer):
        buffer.add(a_row(0))
        buffer.open_attempts |= {"attempt": Attempts()}
        assert await buffer.until_appended(LONG)
        del buffer.open_attempts["attempt"]
