"""Retransmissions of what the log has no more: what is said of it, and what waits to be sent."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta

import httpx
import pytest
from sqlalchemy import func, select

from app.domain.job import JobResult
from app.domain.message import NewRecord, Partition
from app.domain.replay.retransmission import MessageRun, RetransmissionState
from app.domain.replay.sending_rate import Sending
from app.services.pruning import Pruner
from app.storage.catalogue.topics import TopicRepository
from app.storage.database import Database
from app.storage.insight.jobs import JobRepository
from app.storage.replay.retransmissions import RetransmissionRepository
from app.storage.replay.sending import RECORDS_BYTES_MAX, SendingRepository
from app.storage.tables import (
    KEPT,
    WRITING,
    ArchiveFolderRow,
    ArchivePieceRow,
    RetransmissionRecordRow,
    RetransmissionRunRow,
)
from tests.fakes.memory_log import MemoryLog

LEASE = timedelta(minutes=1)
TOPIC = "shop.orders"
MONTH = timedelta(days=30)


def ago(hours: float) -> int:
    """In milliseconds since the epoch."""
    return int((datetime.now(UTC) - timedelta(hours=hours)).timestamp() * 1000)


async def trimmed(log: MemoryLog, *, start: int, end: int) -> int:
    """The partition that has messages, which begins there in the log by now."""
    positions = await log.append(TOPIC, [NewRecord(value=b"%d" % n, key=b"k") for n in range(end)])
    index = positions[0].partition.index
    log.trim(Partition(TOPIC, index), start)
    return index


async def archive(
    database: Database,
    spans: Mapping[int, tuple[int, int]],
    *,
    job: str = "1",
    times: tuple[int, int],
    state: str = KEPT,
) -> None:
    """A folder with these offsets, of these times."""
    async with database.transaction() as session:
        topic = await TopicRepository(session).get(TOPIC)
        written = {str(index): list(span) for index, span in spans.items()}
        folder = ArchiveFolderRow(
            job_id=job, attempt=1, topic=TOPIC, topic_created_at=topic.created_at,
            path=f"/a/{job}", spans=written, state=state,
        )  # fmt: skip
        session.add(folder)
        await session.flush()
        session.add_all(
            ArchivePieceRow(
                job_id=job, attempt=1, topic=TOPIC, day=date(2026, 1, 1), partition=index,
                start=start, end=end, first_ms=times[0], last_ms=times[1],
                messages=end - start, size=0,
            )
            for index, (start, end) in spans.items()
        )  # fmt: skip


async def span_of(
    api: httpx.AsyncClient, subscription: str, index: int, **body: object
) -> tuple[int, int, int]:
    """From where to where it looks in that partition, and how many are gone before that."""
    asked = {"only": "all", **({} if "offsets" in body else {"from": "-6h"}), **body}
    answer = await api.post(f"{subscription}/retransmission", json=asked)
    assert answer.status_code == httpx.codes.ACCEPTED, answer.text
    [found] = [each for each in answer.json() if each["partition"] == index]
    seen = (await api.get(answer.headers["Location"])).json()
    assert seen["counts"]["gone"] == sum(each.get("gone", 0) for each in answer.json())
    return found["offset"], found["toOffset"], found.get("gone", 0)


async def test_it_begins_in_the_archive_where_the_log_begins_too_late(
    api: httpx.AsyncClient, subscription: str, log: MemoryLog, database: Database
) -> None:
    index = await trimmed(log, start=60, end=100)
    await archive(database, {index: (0, 20)}, job="1", times=(ago(9), ago(8)))
    await archive(database, {index: (20, 40)}, job="2", times=(ago(7), ago(5)))
    await archive(database, {index: (40, 80)}, job="3", times=(ago(5), ago(1)))
    await archive(database, {index: (0, 99)}, job="4", times=(ago(9), ago(1)), state=WRITING)
    assert await span_of(api, subscription, index) == (20, 100, 0)
    assert await span_of(api, subscription, index, **{"from": "-3h"}) == (40, 100, 0)
    # All that the log has is newer than that.
    to = datetime.fromtimestamp(ago(6) / 1000, UTC).isoformat()
    assert await span_of(api, subscription, index, **{"from": "-10h", "to": to}) == (0, 40, 0)
    offsets = [{"partition": index, "offset": 10, "toOffset": 50}]
    assert await span_of(api, subscription, index, offsets=offsets) == (10, 50, 0)


async def test_it_says_what_neither_the_log_nor_the_archive_has(
    api: httpx.AsyncClient, subscription: str, log: MemoryLog, database: Database
) -> None:
    index = await trimmed(log, start=60, end=100)
    assert await span_of(api, subscription, index) == (60, 100, 60)
    assert await span_of(api, subscription, index, only="undelivered") == (60, 100, 0)
    await archive(database, {index: (30, 40)}, job="1", times=(ago(9), ago(5)))
    # Before something that is too old nothing counts as gone.
    assert await span_of(api, subscription, index) == (30, 100, 0)
    assert await span_of(api, subscription, index, **{"from": "-10h"}) == (30, 100, 30)
    offsets = [{"partition": index, "offset": 10, "toOffset": 20}]
    assert await span_of(api, subscription, index, offsets=offsets) == (20, 20, 10)


async def test_where_the_log_has_all_of_the_time_nothing_is_gone(
    api: httpx.AsyncClient, subscription: str, log: MemoryLog
) -> None:
    old = [NewRecord(value=b"old", key=b"k", timestamp_ms=ago(9)) for _ in range(10)]
    [first, *_] = await log.append(TOPIC, old)
    await log.append(TOPIC, [NewRecord(value=b"new", key=b"k") for _ in range(10)])
    log.trim(first.partition, 5)
    assert await span_of(api, subscription, first.partition.index) == (10, 20, 0)


async def sending(api: httpx.AsyncClient, subscription: str, database: Database) -> Sending:
    """A retransmission of ten archived messages, that a worker has taken."""
    asked = await api.post(f"{subscription}/retransmission", json={"only": "all", "from": "-6h"})
    assert asked.status_code == httpx.codes.ACCEPTED
    async with database.transaction() as session:
        job = await JobRepository(session).take("r-1", LEASE)
        assert job is not None
        counts = {"messages": 10, "bytes": 70, "archived": 10, "archivedBytes": 70, "gone": 3}
        assert await JobRepository(session).finish(job.claim, JobResult(counts=counts))
        for attempt in (0, 1):
            key = {"job_id": job.id, "attempt": attempt, "part": 0}
            run = {"start": 0, "end": 10, "messages": 10, "size": 70, "archived": True}
            session.add(RetransmissionRunRow(**key, row=0, partition=0, **run))
            session.add_all(a_record(offset, **key) for offset in range(10))
        await session.flush()
        await RetransmissionRepository(session).chosen(job.claim, counts, [])
        taken = await SendingRepository(session, "w-1").take(LEASE)
    assert taken is not None
    return taken


def a_record(offset: int, **columns: object) -> RetransmissionRecordRow:
    return RetransmissionRecordRow(
        row=offset, partition=0, offset=offset, timestamp_ms=1_000, size=RECORDS_BYTES_MAX // 3,
        key=None if offset else b"k", value=b"%d" % offset,
        header_names=[b"id", b"h-x"], header_values=[b"m-%d" % offset, b"\xff\0"], **columns,
    )  # fmt: skip


async def records_left(database: Database) -> int:
    async with database.transaction() as session:
        return await session.scalar(select(func.count()).select_from(RetransmissionRecordRow)) or 0


async def test_records_are_read_in_their_order_and_a_megabyte_at_a_time(
    api: httpx.AsyncClient, subscription: str, database: Database
) -> None:
    taken = await sending(api, subscription, database)
    async with database.transaction() as session:
        repository = SendingRepository(session, "w-1")
        [run] = await repository.runs(taken, 0, 0, limit=10)
        assert run == MessageRun(partition=0, start=0, end=10, messages=10, size=70, archived=True)
        found = await repository.archived(taken, run, first=0, limit=2)
        first = found[0]
        assert (first.timestamp_ms, first.key, first.value) == (1_000, b"k", b"0")
        assert first.headers == [(b"id", b"m-0"), (b"h-x", b"\xff\0")]
        assert [each.offset for each in found] == [0, 1]
        found = await repository.archived(taken, run, first=5, limit=100)
        assert [each.offset for each in found] == [5, 6, 7, 8]
        assert await repository.archived(taken, run, first=10, limit=100) == []
    [seen] = (await api.get(f"{subscription}/retransmissions")).json()
    assert (seen["counts"]["archived"], seen["counts"]["gone"]) == (10, 3)


@pytest.mark.parametrize("state", [RetransmissionState.DONE, RetransmissionState.CANCELLED])
async def test_records_are_dropped_when_nobody_sends_them_any_more(
    api: httpx.AsyncClient, subscription: str, database: Database, state: RetransmissionState
) -> None:
    taken = await sending(api, subscription, database)
    assert await records_left(database) == 20
    pruner = Pruner(database, undelivered_kept=MONTH)
    await pruner.prune()
    # Without those of another taking of the job.
    assert await records_left(database) == 10
    async with database.transaction() as session:
        await SendingRepository(session, "w-1").end(taken, state, None)
    await pruner.prune()
    assert await records_left(database) == 0


async def test_records_of_a_job_that_fails_are_dropped(
    api: httpx.AsyncClient, subscription: str, database: Database
) -> None:
    await api.post(f"{subscription}/retransmission", json={"only": "all", "from": "-6h"})
    pruner = Pruner(database, undelivered_kept=MONTH)
    async with database.transaction() as session:
        job = await JobRepository(session).take("r-1", LEASE)
        assert job is not None
        session.add(a_record(0, job_id=job.id, attempt=1, part=0))
    await pruner.prune()
    assert await records_left(database) == 1
    async with database.transaction() as session:
        assert await JobRepository(session).fail(job.claim, "no")
    await pruner.prune()
    assert await records_left(database) == 0
