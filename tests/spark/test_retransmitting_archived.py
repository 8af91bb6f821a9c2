"""What only the archive has is sent again, on a real Spark, PostgreSQL, and each log."""

from collections.abc import Sequence

import pytest
from sqlalchemy import select, update

from app.domain.catalogue.filters import Filter, FilterType
from app.domain.message import HEADER_ID, HEADER_TARGET, NewRecord
from app.domain.replay.retransmission import ARCHIVED_BYTES_MAX, Retransmission, RetransmissionState
from app.domain.targeted import RecordTarget
from app.storage.insight.jobs import JobRepository
from app.storage.tables import RetransmissionRecordRow, RetransmissionRow
from spark.jobs.staging import NoRoomError
from tests.contract.harness import Harness
from tests.integration.storage.builders import TOPIC
from tests.spark.archives import archived, done
from tests.spark.retransmissions import EMBEDDED, ONE_LOG, Bench, Places, places, trimmed

# The first test starts Spark, on a machine that may be busy.
pytestmark = pytest.mark.timeout(400)


async def records(bench: Bench, asked: Retransmission) -> Sequence[RetransmissionRecordRow]:
    """What waits to be sent of it."""
    row = RetransmissionRecordRow
    query = select(row).where(row.job_id == asked.id).order_by(row.partition, row.offset)
    async with bench.database.transaction() as session:
        return list(await session.scalars(query))


def places_of(rows: Sequence[RetransmissionRecordRow]) -> Places:
    found = [(row.partition, row.offset) for row in rows]
    assert len(found) == len(set(found))
    return set(found)


@ONE_LOG
async def test_each_message_comes_from_where_it_is_and_what_is_nowhere_is_counted(
    bench: Bench, harness: Harness
) -> None:
    await archived(bench)
    to_one = RecordTarget("a" * 32, "b" * 32).header()
    await bench.log.append(
        TOPIC, [NewRecord(value=b"to one", key=b"k", headers=((HEADER_TARGET, to_one),))]
    )
    bodies = [b'{"n": %d}' % n for n in range(20)]
    old = await bench.publish(*bodies, key=b"k", headers=[(b"h-x", b"a\xff")])
    foreign = await bench.log.append(TOPIC, [NewRecord(value=b'{"n": 20}', key=b"k")])
    elsewhere = await bench.publish(b'{"n": 21}', b"", key=b"other")
    assert (await done(bench)).counts["messages"] == 24
    # Of what is not archived, retention takes some before it is, and the log keeps the rest.
    new = await bench.publish(*(b'{"n": %d}' % n for n in range(30, 40)), key=b"k")
    await done(bench)
    lost = await bench.publish(*(b'{"n": %d}' % n for n in range(40, 50)), key=b"k")
    await trimmed(bench, harness, lost[4].partition, offset=lost[4].offset)
    everything = places([*old, *foreign, *elsewhere, *new, *lost[4:]])
    # The other key may have a partition of its own, which the log has as a whole.
    trimmed_away = [each for each in elsewhere if each.partition == lost[0].partition]
    in_archive = [*old, *foreign, *new, *trimmed_away]

    every, found = await bench.chosen()
    assert found == everything
    assert every.state is RetransmissionState.SENDING
    counts = every.counts
    assert (counts.matched, counts.archived, counts.gone) == (len(found), len(in_archive), 4)
    waiting = await records(bench, every)
    assert places_of(waiting) == places(in_archive)
    seventh = next(row for row in waiting if row.offset == old[7].offset)
    assert (seventh.key, seventh.value, seventh.size) == (b"k", b'{"n": 7}', 8)
    headers = dict(zip(seventh.header_names, seventh.header_values, strict=True))
    assert headers == {HEADER_ID: b'm-{"n": 7}', b"h-x": b"a\xff"}
    assert seventh.timestamp_ms > 0

    looked_at, _ = await bench.chosen(dry_run=True)
    seen = looked_at.counts
    assert (seen.matched, seen.archived, seen.gone) == (len(everything), len(in_archive), 4)
    assert await records(bench, looked_at) == []

    some = Filter(type=FilterType.JSONPATH, path="$.n", matcher="[7-8]")
    filtered, found = await bench.chosen(filters=(some,), keys=("k",))
    assert found == places(old[7:9]) == places_of(await records(bench, filtered))
    asked = {old[0].partition.index: (old[5].offset, old[9].offset)}
    some_offsets, found = await bench.chosen(since=None, offsets=asked)
    assert found == places(old[5:9]) == places_of(await records(bench, some_offsets))


@EMBEDDED
async def test_a_second_taking_stores_nothing_twice_and_no_more_than_there_is_room_for_waits(
    bench: Bench, harness: Harness
) -> None:
    await archived(bench)
    positions = await bench.publish(*(b"%d" % n for n in range(20)), key=b"k")
    await done(bench)
    await trimmed(bench, harness, positions[0].partition, offset=20)
    asked = await bench.asked()
    job = await bench.taken()
    await bench.done(job)
    async with bench.database.transaction() as session:
        assert await JobRepository(session).release(job.claim)
    again = await bench.taken("r-2")
    assert await bench.finished(again, await bench.done(again))
    seen = await bench.seen(asked)
    assert (seen.attempt, seen.counts.archived) == (2, 20)
    counting = [row for row in await records(bench, asked) if row.attempt == seen.attempt]
    assert places_of(counting) == places(positions)

    async with bench.database.transaction() as session:
        full = {"archived_size": ARCHIVED_BYTES_MAX}
        await session.execute(update(RetransmissionRow).values(full))
    more = await bench.asked()
    with pytest.raises(NoRoomError, match="Ask for less"):
        await bench.done(await bench.taken())
    assert await records(bench, more) == []
