"""The archive on a real Spark, PostgreSQL, and each log."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from app.domain.catalogue.offline_storage import OfflineStorage
from app.domain.errors import TopicNotFoundError, ValidationFailedError
from app.domain.job import Job, JobKind
from app.domain.message import HEADER_ID, NewRecord
from app.domain.replay.coverage import Stretch
from app.log.interface import Position
from app.services.insight.jobs import JobService
from app.storage.catalogue.topics import TopicRepository
from app.storage.insight.jobs import JobRepository
from app.storage.spark.archive_parts import kept_folders
from tests.contract.harness import Harness
from tests.contract.logs import a_topic
from tests.integration.storage.builders import TOPIC
from tests.spark.archives import (
    AT_ONCE,
    SCOPE,
    Watched,
    aged,
    archived,
    asked,
    done,
    folders,
    kept_pieces,
    kept_places,
    kept_rows,
    written,
)
from tests.spark.retransmissions import EMBEDDED, Bench, trimmed

# The first test starts Spark, on a machine that may be busy.
pytestmark = pytest.mark.timeout(400)


# What does not depend on the log is tried on one.
def is_there(path: str) -> bool:
    return Path(path).exists()


def once(positions: Sequence[Position]) -> Counter[tuple[int, int]]:
    return Counter((position.partition.index, position.offset) for position in positions)


async def test_what_is_new_is_archived_once_however_often_it_is_asked_for(bench: Bench) -> None:
    await archived(bench)
    before = [
        *await bench.publish(*(b"%d" % n for n in range(30)), key=b"k", headers=[(b"h-x", b"a")]),
        *await bench.log.append(TOPIC, [NewRecord(value=b"foreign", headers=((b"id", b"\xff"),))]),
    ]
    first = await done(bench)
    assert (first.counts["topics"], first.counts["messages"]) == (1, 31)
    nothing = await done(bench)
    assert (nothing.counts["topics"], nothing.counts["messages"]) == (0, 0)
    after = await bench.publish(*(b"%d" % n for n in range(30, 40)))
    assert (await done(bench)).counts["messages"] == 10
    assert await kept_places(bench) == once([*before, *after])
    rows = await kept_rows(bench)
    bodies = {row["value"]: row for row in rows}
    assert set(bodies) == {b"foreign", *(b"%d" % n for n in range(40))}
    seven = bodies[b"7"]
    assert (seven["key"], seven["message_id"], seven["size"]) == (b"k", "m-7", 1)
    assert {each["key"]: bytes(each["value"]) for each in seven["headers"]}["h-x"] == b"a"
    assert bodies[b"foreign"]["message_id"] is None
    when = datetime.fromtimestamp(seven["timestamp_ms"] / 1000, UTC)
    assert (seven["day"], seven["hour"]) == (when.date(), when.hour)
    pieces = await kept_pieces(bench)
    assert sum(piece.messages for piece in pieces) == 41
    assert sum(piece.size for piece in pieces) == sum(map(len, bodies))


@EMBEDDED
async def test_a_job_whose_runner_is_lost_is_done_again_and_nothing_is_there_twice(
    bench: Bench,
) -> None:
    await archived(bench)
    positions = await bench.publish(*(b"%d" % n for n in range(20)))
    job = await asked(bench)
    lost = await written(bench, job)
    async with bench.database.transaction() as session:
        assert await JobRepository(session).release(job.claim)
    assert await kept_places(bench) == Counter()
    again = await bench.taken("r-2")
    assert await bench.finished(again, await written(bench, again))
    # The first runner, which knows of nothing, comes to its end.
    assert not await bench.finished(job, lost)
    assert await kept_places(bench) == once(positions)
    # What it left behind goes with its files.
    left = set(await folders(bench, state=None)) - set(await folders(bench))
    assert len(left) == 1
    result = await done(bench, AT_ONCE)
    assert result.counts["removed"] == 1
    assert not [path for path in left if is_there(path)]
    assert await kept_places(bench) == once(positions)


@EMBEDDED
async def test_two_jobs_at_a_time_archive_nothing_twice(bench: Bench) -> None:
    await archived(bench)
    positions = await bench.publish(*(b"%d" % n for n in range(20)))
    first, second = await asked(bench), await asked(bench)
    of_first = await written(bench, first)
    of_second = await written(bench, second)
    assert await bench.finished(second, of_second)
    assert await bench.finished(first, of_first)
    assert await kept_places(bench) == once(positions)
    more = await bench.publish(b"more")
    await done(bench)
    assert await kept_places(bench) == once([*positions, *more])


@EMBEDDED
async def test_what_is_written_now_is_left_alone(bench: Bench) -> None:
    await archived(bench)
    await bench.publish(b"1")
    running = await asked(bench)
    result = await written(bench, running)
    other = await done(bench, AT_ONCE)
    assert other.counts["removed"] == 0
    assert all(is_there(path) for path in await folders(bench, state=None))
    assert await bench.finished(running, result)


async def test_what_the_log_lost_before_it_was_archived_is_counted(
    bench: Bench, harness: Harness
) -> None:
    await archived(bench)
    positions = await bench.publish(*(b"%d" % n for n in range(10)), key=b"k")
    await done(bench)
    lost = await bench.publish(*(b"%d" % n for n in range(10, 20)), key=b"k")
    partition = positions[0].partition
    await harness.trim(partition, lost[4].offset)
    result = await done(bench)
    assert (result.counts["messages"], result.counts["missed"]) == (6, 4)
    assert await kept_places(bench) == once([*positions, *lost[4:]])


async def test_what_the_log_lost_while_it_was_read_does_not_count_as_archived(
    bench: Bench, harness: Harness
) -> None:
    await archived(bench)
    positions = await bench.publish(*(b"%d" % n for n in range(10)), key=b"k")
    partition = positions[0].partition
    loop = asyncio.get_running_loop()

    def lose() -> None:
        gone = trimmed(bench, harness, partition, offset=4)
        asyncio.run_coroutine_threadsafe(gone, loop).result(timeout=60)

    job = await asked(bench)
    result = await written(bench, job, progress=Watched(lose))
    assert await bench.finished(job, result)
    assert (result.counts["messages"], result.counts["missed"]) == (6, 4)
    [folder] = (await asyncio.to_thread(kept_folders, bench.url, [TOPIC]))[TOPIC]
    assert folder.spans == {partition.index: Stretch(4, 10)}
    assert await kept_places(bench) == once(positions[4:])
    assert (await done(bench)).counts["missed"] == 0


@EMBEDDED
async def test_messages_are_kept_as_long_as_their_topic_says(bench: Bench) -> None:
    await archived(bench, OfflineStorage(enabled=True, days=10))
    await bench.publish(b"old")
    await done(bench)
    await aged(bench, 9)
    [old] = await folders(bench)
    new = await bench.publish(b"new")
    await done(bench, AT_ONCE)
    assert len(await folders(bench)) == 2
    await aged(bench, 1)
    # Whoever reads has an hour to end.
    await done(bench)
    assert old not in await folders(bench)
    assert is_there(old)
    await done(bench, AT_ONCE)
    assert not is_there(old)
    assert await kept_places(bench) == once(new)
    assert {piece.messages for piece in await kept_pieces(bench)} == {1}
    # Switched off, it is kept as long.
    await archived(bench, OfflineStorage(enabled=False, days=10))
    await aged(bench, 8)
    job = await all_topics(bench)
    await written(bench, job, AT_ONCE)
    assert await kept_places(bench) == once(new)
    await archived(bench, OfflineStorage(enabled=True, days=None))
    await aged(bench, 10_000)
    await done(bench, AT_ONCE)
    assert await kept_places(bench) == once(new)


async def all_topics(bench: Bench) -> Job:
    await JobService(bench.database).request(JobKind.ARCHIVE, SCOPE)
    return await bench.taken()


@EMBEDDED
async def test_a_topic_that_is_created_again_has_an_archive_of_its_own(bench: Bench) -> None:
    await archived(bench)
    await bench.publish(*(b"%d" % n for n in range(10)))
    await done(bench)
    async with bench.database.transaction() as session:
        # Its subscription is none of the archive's.
        connection = await session.connection()
        await connection.exec_driver_sql("DELETE FROM subscriptions")
        topics = TopicRepository(session)
        topic = await topics.get(TOPIC)
        await topics.delete(TOPIC)
        await topics.add(replace(topic, created_at=None))
    await bench.log.delete_topic(TOPIC)
    await bench.log.create_topic(a_topic(TOPIC, partitions=3))
    again = await bench.publish(b"again")
    result = await done(bench, AT_ONCE)
    assert result.counts["messages"] == 1
    await done(bench, AT_ONCE)
    assert await kept_places(bench) == once(again)
    assert len(await folders(bench, state=None)) == 1


@EMBEDDED
async def test_records_of_any_time_are_archived(bench: Bench) -> None:
    await archived(bench)
    times = (-1, 0, 3_600_000, 253_402_300_800_000, 2**62)
    records = [
        NewRecord(value=b"x", headers=((HEADER_ID, b"m"),), timestamp_ms=each) for each in times
    ]
    await bench.log.append(TOPIC, records)
    await done(bench)
    rows = await kept_rows(bench)
    found = sorted((row["timestamp_ms"], row["day"], row["hour"]) for row in rows)
    first, last = date(1970, 1, 1), date(9999, 12, 31)
    assert found == [
        (-1, first, 0), (0, first, 0), (3_600_000, first, 1),
        (253_402_300_800_000, last, 23), (2**62, last, 23),
    ]  # fmt: skip


@EMBEDDED
async def test_only_topics_with_offline_storage_are_archived(bench: Bench) -> None:
    await bench.publish(b"1")
    job = await all_topics(bench)
    assert (await written(bench, job)).counts["topics"] == 0
    service = JobService(bench.database)
    with pytest.raises(ValidationFailedError, match="offlineStorage"):
        await service.request(JobKind.ARCHIVE, replace(SCOPE, topic=TOPIC))
    with pytest.raises(TopicNotFoundError):
        await service.request(JobKind.ARCHIVE, replace(SCOPE, topic="shop.none"))


@EMBEDDED
async def test_a_topic_that_the_log_has_not_is_passed_over(bench: Bench) -> None:
    await archived(bench)
    await bench.log.delete_topic(TOPIC)
    assert (await done(bench)).counts["topics"] == 0
