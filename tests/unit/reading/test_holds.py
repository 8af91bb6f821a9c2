"""What a worker waits for before it reads a partition on: said after a while, with since when."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from app.domain.catalogue.changes import Changes
from app.domain.errors import LogUnreadableError
from app.log.interface import Chunk
from tests.fakes.reading import (
    ORDERS,
    ScriptedFetches,
    ScriptedTail,
    StandingReader,
    a_chunk,
    a_gap,
)
from tests.fakes.schema_waits import a_topic, written_by
from tests.fakes.supervised import until
from workers.reading.catchup import CatchUp
from workers.reading.holds import SHOWN_AFTER, Holds
from workers.reading.reader import Reader

START = datetime(2026, 1, 31, 12, tzinfo=UTC)
SOON = timedelta(milliseconds=1)


@asynccontextmanager
async def running(work: Coroutine[object, object, None]) -> AsyncIterator[None]:
    task = asyncio.get_running_loop().create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Waiting:
    """Holds at a time that the test says."""

    def __init__(self) -> None:
        self.now = START
        self.holds = Holds(lambda: self.now)

    def said(self, offset: int = 0) -> str:
        return str(self.holds.at(ORDERS, offset) or "")


def test_a_hold_is_shown_after_a_while_with_the_time_at_which_it_began() -> None:
    it = Waiting()
    it.holds.begin(ORDERS, 7, "version 2")
    assert it.said(7) == ""
    it.now += SHOWN_AFTER
    it.holds.begin(ORDERS, 7, "version 3")
    assert it.said(7) == "Partition 0 waits for version 3 since 2026-01-31T12:00:00+00:00"
    assert it.said(6) == ""
    it.holds.end(ORDERS, 6)
    assert it.said(7)
    it.holds.end(ORDERS, 7)
    assert it.said(7) == ""


async def test_a_tail_that_waits_for_a_version_says_so_until_it_goes_on() -> None:
    it, tail = Waiting(), ScriptedTail()
    reader = Reader(ScriptedFetches(), tail, look_again=SOON, holds=it.holds)  # type: ignore[arg-type]
    reader.formats.apply(Changes(number=1, topics=(a_topic(1),)))
    async with running(reader.run()):
        feed = reader.join(ORDERS, [StandingReader(0)])
        tail.bring(written_by(2))
        await until(lambda: tail.followed.get(ORDERS) is None)
        await until(lambda: tail.followed.get(ORDERS) == 0)
        it.now += SHOWN_AFTER
        assert str(feed.hold_at(0)).startswith("Partition 0 waits for version 2 since ")
        assert feed.hold_at(1) is None
        reader.formats.apply(Changes(number=2, topics=(a_topic(1, 2),)))
        tail.bring(written_by(2))
        await until(lambda: feed.end == 1)
        assert feed.hold_at(0) is None


async def test_who_catches_up_says_so_too() -> None:
    it, log = Waiting(), ScriptedFetches()
    catch_up = CatchUp(log, retry_pause=SOON, holds=it.holds)  # type: ignore[arg-type]
    batches: list[object] = []
    async with running(catch_up.run()):
        catch_up.fetch(ORDERS, 0, lambda batch, _: batches.append(batch))
        await until(lambda: bool(log.asked))
        log.answer(written_by(2))
        await until(lambda: log.asked_in_all > 1)
        it.now += SHOWN_AFTER
        assert it.said().startswith("Partition 0 waits for word that the topic is AVRO since ")
        log.answer(a_chunk(0, 1))
        await until(lambda: bool(batches))
        assert it.said() == ""


async def test_a_tail_that_cannot_decode_a_batch_says_so_until_it_can() -> None:
    it, tail = Waiting(), ScriptedTail()
    reader = Reader(ScriptedFetches(), tail, holds=it.holds)  # type: ignore[arg-type]
    async with running(reader.run()):
        feed = reader.join(ORDERS, [StandingReader(3)])
        tail.bring(a_corrupt(2), a_corrupt(3))
        await until(lambda: not tail.unread)
        it.now += SHOWN_AFTER
        tail.bring(a_corrupt(3))
        await until(lambda: not tail.unread)
        assert str(feed.hold_at(3)) == (
            "Partition 0 waits for a batch at offset 3 that can be decoded (checksum)"
            " since 2026-01-31T12:00:00+00:00"
        )
        assert feed.hold_at(2) is None
        tail.bring(a_chunk(3, 4))
        await until(lambda: feed.end == 4)
        assert feed.hold_at(3) is None


async def test_a_corrupt_batch_that_the_log_no_longer_has_is_waited_for_no_more() -> None:
    it, tail = Waiting(), ScriptedTail()
    reader = Reader(ScriptedFetches(), tail, holds=it.holds)  # type: ignore[arg-type]
    async with running(reader.run()):
        feed = reader.join(ORDERS, [StandingReader(3)])
        tail.bring(a_corrupt(3), a_gap(3, 9))
        await until(lambda: feed.end == 9)
        it.now += SHOWN_AFTER
        assert feed.hold_at(3) is None


async def test_who_catches_up_and_cannot_decode_a_batch_says_so_until_it_can() -> None:
    it, log = Waiting(), ScriptedFetches()
    catch_up = CatchUp(log, retry_pause=SOON, holds=it.holds)  # type: ignore[arg-type]
    batches: list[object] = []
    async with running(catch_up.run()):
        catch_up.fetch(ORDERS, 0, lambda batch, _: batches.append(batch))
        await until(lambda: bool(log.asked))
        log.fail(LogUnreadableError("checksum"))
        await until(lambda: log.asked_in_all > 1)
        it.now += SHOWN_AFTER
        assert "a batch at offset 0 that can be decoded (checksum)" in it.said()
        log.answer(a_chunk(0, 1))
        await until(lambda: bool(batches))
        assert it.said() == ""


def a_corrupt(offset: int) -> Chunk:
    return Chunk(ORDERS, offset, offset, (), 0, corrupt="checksum")
