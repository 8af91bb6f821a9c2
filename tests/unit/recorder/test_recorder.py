"""The recorder: what it stores of the stream, from where, and never past what it did not store."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from app.domain.discards.undelivered import Undelivered, from_record, to_record
from app.domain.errors import StorageUnavailableError
from app.domain.message import Partition, Record
from app.log.interface import Chunk
from tests.fakes.reading import ScriptedTail
from tests.fakes.supervised import until
from workers.recorder.recorder import CHUNKS_MAX, Recorder

STREAM = Partition("angelia.undelivered", 0)
OTHER = Partition("angelia.undelivered", 1)


class Store:
    """Keeps rows and positions as the database does: what stands below a position is there."""

    def __init__(self) -> None:
        self.down = False
        self.refused = 0
        self.rows: list[int] = []
        self.transactions: list[int] = []
        self.next: dict[Partition, int] = {}
        self.under_way = 0
        # Transactions wait while this is not set.
        self.quick = asyncio.Event()
        self.quick.set()

    async def positions(self) -> Mapping[Partition, int]:
        self._answer()
        return dict(self.next)

    async def record(
        self, rows: Sequence[Undelivered], stream: Partition, next_offset: int, *, start: int
    ) -> int | None:
        self._answer()
        self.under_way += 1
        await self.quick.wait()
        self.under_way -= 1
        self.transactions.append(len(rows))
        stored = self.next.get(stream, 0)
        if not start <= stored < next_offset:
            return stored
        self.next[stream] = next_offset
        self.rows += [row.offset for row in rows if row.offset not in self.rows]
        return None

    def _answer(self) -> None:
        if self.down:
            self.refused += 1
            raise StorageUnavailableError("the database is down")


def a_record(offset: int) -> Record:
    """One whose message has the same offset as it has itself."""
    new = to_record(
        Undelivered(
            subscription_id="s1",
            topic="shop.orders",
            subscription="s",
            message_id=f"m{offset}",
            discarded_at=datetime(2026, 1, 1, tzinfo=UTC),
            reason="no",
            status=400,
            attempts=1,
            partition=0,
            offset=offset,
            body=b"x",
        )
    )
    return Record(offset, 0, new.key, new.value, list(new.headers))


def a_chunk(offset: int, stop: int, partition: Partition = STREAM) -> Chunk:
    return Chunk(partition, offset, stop, [a_record(n) for n in range(offset, stop)], 1)


class Scene:
    def __init__(self, records_max: int, linger: timedelta) -> None:
        self.tail = ScriptedTail()
        self.store = Store()
        self.recorder = Recorder(
            self.tail,
            self.store,
            from_record,
            records_max=records_max,
            linger=linger,
            missed=self.missed,
            retry_pause=timedelta(milliseconds=1),
        )

    def missed(self, records: int) -> Undelivered:
        """A row that cannot be another's."""
        row = from_record(a_record(-records))
        assert row is not None
        return row

    async def own(self, *partitions: Partition) -> None:
        self.recorder.own(partitions)
        await until(lambda: self.tail.followed.keys() == set(partitions))


@asynccontextmanager
async def recording(
    *, records_max: int = 100, linger: timedelta = timedelta()
) -> AsyncIterator[Scene]:
    scene = Scene(records_max, linger)
    running = asyncio.get_running_loop().create_task(scene.recorder.run())
    try:
        yield scene
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_records_what_the_stream_brings_and_goes_on_behind_what_is_stored() -> None:
    async with recording() as scene:
        scene.store.next[OTHER] = 7
        await scene.own(STREAM, OTHER)
        assert scene.tail.followed == {STREAM: 0, OTHER: 7}
        scene.tail.bring(a_chunk(0, 3), a_chunk(7, 9, OTHER), a_chunk(3, 4))
        await until(lambda: scene.store.next == {STREAM: 4, OTHER: 9})
    assert sorted(scene.store.rows) == [0, 1, 2, 3, 7, 8]


async def test_passes_over_records_that_are_not_of_ours() -> None:
    async with recording() as scene:
        await scene.own(STREAM)
        foreign = Record(0, 0, None, b"x", [])
        scene.tail.bring(Chunk(STREAM, 0, 2, [foreign, a_record(1)], 1))
        await until(lambda: scene.store.next == {STREAM: 2})
    assert scene.store.rows == [1]


async def test_others_come_in_between_records_that_are_read() -> None:
    """To read one may take a millisecond, and deliveries are on the same loop."""
    turns, seen = 0, list[int]()

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def read(record: Record) -> Undelivered | None:
        seen.append(turns)
        return from_record(record)

    tail, store = ScriptedTail(), Store()
    recorder = Recorder(tail, store, read)
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(recorder.run()), tasks.create_task(others())]
        recorder.own([STREAM])
        tail.bring(a_chunk(0, 5))
        await until(lambda: store.next == {STREAM: 5})
        for each in running:
            each.cancel()
    assert len(set(seen)) == 5


async def test_waits_while_the_database_is_down() -> None:
    async with recording() as scene:
        scene.store.down = True
        scene.recorder.own([STREAM])
        await until(lambda: scene.store.refused == 2)
        assert scene.tail.followed == {}
        scene.store.down = False
        await until(lambda: bool(scene.tail.followed))
        scene.store.down, scene.store.refused = True, 0
        scene.tail.bring(a_chunk(0, 2), a_chunk(2, 3))
        await until(lambda: scene.store.refused == 2)
        scene.store.down = False
        await until(lambda: scene.store.rows == [0, 1, 2])


async def test_records_nothing_of_a_partition_that_went_to_another_worker() -> None:
    async with recording() as scene:
        await scene.own(STREAM, OTHER)
        await scene.own(OTHER)
        scene.tail.bring(a_chunk(0, 2), a_chunk(0, 1, OTHER))
        await until(lambda: scene.store.next == {OTHER: 1})
    assert scene.store.rows == [0]


async def test_a_chunk_left_over_from_an_earlier_ownership_skips_nothing() -> None:
    """What was not recorded then comes again; if the leftover came first, it would seem stored."""
    async with recording() as scene:
        scene.store.next[OTHER] = 10
        await scene.own(STREAM, OTHER)
        scene.store.down = True
        scene.tail.bring(a_chunk(0, 2))
        await until(lambda: scene.store.refused > 0)
        scene.recorder.own([OTHER])
        scene.store.down = False
        scene.tail.bring(a_chunk(10, 11, OTHER))
        await until(lambda: scene.store.rows == [10])
        await scene.own(STREAM, OTHER)
        scene.tail.bring(a_chunk(2, 4), a_chunk(0, 2), a_chunk(2, 4))
        await until(lambda: scene.store.next.get(STREAM) == 4)
    assert scene.store.rows == [10, 0, 1, 2, 3]


async def test_a_transaction_of_an_earlier_ownership_leads_no_way_back() -> None:
    """Found by seed 10170 of the simulation: what followed was never recorded."""
    async with recording() as scene:
        await scene.own(STREAM)
        scene.store.quick.clear()
        scene.tail.bring(a_chunk(0, 2))
        await until(lambda: scene.store.under_way == 1)
        scene.recorder.own([])
        scene.store.next[STREAM] = 5
        await scene.own(STREAM)
        scene.store.quick.set()
        await until(lambda: scene.store.under_way == 0)
        scene.tail.bring(a_chunk(5, 7))
        await until(lambda: scene.store.next == {STREAM: 7})
    assert scene.store.rows == [5, 6]


async def test_what_the_store_has_lost_is_read_and_stored_again() -> None:
    """A replica that was behind has become the server of the database."""
    async with recording(records_max=2) as scene:
        await scene.own(STREAM)
        scene.tail.bring(a_chunk(0, 4))
        await until(lambda: scene.store.next == {STREAM: 4})
        scene.store.next[STREAM] = 1
        del scene.store.rows[1:]
        scene.tail.bring(a_chunk(4, 8))
        await until(lambda: scene.tail.followed == {STREAM: 1})
        assert scene.store.rows == [0]
        scene.tail.bring(a_chunk(1, 9))
        await until(lambda: scene.store.next == {STREAM: 9})
    assert scene.store.rows == list(range(9))


async def test_what_the_store_has_lost_is_stored_again_when_it_is_checked() -> None:
    async with recording() as scene:
        await scene.own(STREAM)
        scene.tail.bring(a_chunk(0, 4))
        await until(lambda: scene.store.next == {STREAM: 4})
        scene.store.next.clear()
        scene.store.rows.clear()
        scene.recorder.check()
        await until(lambda: scene.tail.followed == {STREAM: 0})
        scene.tail.bring(a_chunk(0, 4))
        await until(lambda: scene.store.rows == [0, 1, 2, 3])


async def test_what_comes_at_once_is_stored_in_few_transactions_of_a_bounded_size() -> None:
    async with recording(records_max=4, linger=timedelta(milliseconds=20)) as scene:
        await scene.own(STREAM)
        scene.tail.bring(a_chunk(0, 3), a_chunk(3, 6), a_chunk(6, 9))
        await until(lambda: scene.store.next == {STREAM: 9})
    assert scene.store.rows == list(range(9))
    assert scene.store.transactions == [4, 4, 1]


async def test_what_comes_a_little_later_is_waited_for() -> None:
    async with recording(linger=timedelta(milliseconds=50)) as scene:
        await scene.own(STREAM)
        for offset in range(5):
            scene.tail.bring(a_chunk(offset, offset + 1))
            await asyncio.sleep(0)
        await until(lambda: scene.store.next == {STREAM: 5})
    assert scene.store.transactions == [5]


async def test_records_of_an_overlapping_chunk_are_stored_once() -> None:
    async with recording() as scene:
        scene.store.next[STREAM] = 2
        await scene.own(STREAM)
        scene.tail.bring(a_chunk(1, 4), a_chunk(3, 6))
        await until(lambda: scene.store.next == {STREAM: 6})
    assert scene.store.rows == [2, 3, 4, 5]


async def test_what_is_behind_a_hole_waits_for_what_is_in_it() -> None:
    async with recording() as scene:
        await scene.own(STREAM)
        scene.tail.bring(a_chunk(0, 1), a_chunk(2, 3))
        await until(lambda: scene.store.next == {STREAM: 1})
        scene.tail.bring(a_chunk(1, 3))
        await until(lambda: scene.store.next == {STREAM: 3})
    assert scene.store.rows == [0, 1, 2]


async def test_reads_no_further_than_a_bound_ahead_of_a_store_that_is_down() -> None:
    async with recording() as scene:
        await scene.own(STREAM)
        scene.store.down = True
        for offset in range(CHUNKS_MAX * 3):
            scene.tail.bring(a_chunk(offset, offset + 1))
            await until(lambda: scene.store.refused > 0)
        assert scene.tail.unread >= CHUNKS_MAX
        scene.store.down = False
        await until(lambda: scene.store.next == {STREAM: CHUNKS_MAX * 3})


async def test_what_the_log_has_dropped_is_counted_and_gone_past() -> None:
    async with recording() as scene:
        scene.store.next[STREAM] = 2
        await scene.own(STREAM)
        dropped = Chunk(STREAM, 4, 9, (), 0, gap=True)
        scene.tail.bring(a_chunk(2, 4), dropped, a_chunk(9, 10))
        await until(lambda: scene.store.next == {STREAM: 10})
        # Nothing is missing of a log that was made anew, and nothing twice.
        scene.tail.bring(Chunk(STREAM, 10, 0, (), 0, gap=True), dropped, a_chunk(10, 11))
        await until(lambda: scene.store.next == {STREAM: 11})
    assert scene.store.rows == [2, 3, -5, 9, 10]
