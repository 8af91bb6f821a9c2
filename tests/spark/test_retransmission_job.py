"""Choosing what is sent again, on a real Spark, PostgreSQL, and each log."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from app.domain.catalogue.filters import Filter, FilterType
from app.domain.errors import ValidationFailedError
from app.domain.message import HEADER_TARGET, NewRecord, Partition
from app.domain.replay.retransmission import OffsetSpan, Only, RetransmissionState, Sent
from app.domain.targeted import RecordTarget
from app.domain.trace import TraceSource, TrackingMode
from app.log.interface import Position
from app.storage.discards.undelivered import UndeliveredRepository
from app.storage.insight.jobs import JobRepository
from app.storage.replay.sending import SendingRepository
from app.storage.spark.retransmission_requests import requested_choice
from app.storage.spark.retransmission_rows import hours
from spark.jobs.reached import reached
from spark.jobs.recorded import NotKnownError
from spark.jobs.retransmission import selected
from spark.records import SPAN_MAX, parts_of
from spark.transforms.retransmission import runs
from tests.integration.storage.builders import TOPIC
from tests.integration.storage.test_traces import a_pack, a_row, a_store, micros
from tests.spark.plans import plan_of
from tests.spark.retransmissions import EMBEDDED, STREAM, Bench, places
from tests.spark.taking import LEASE

# The first test starts Spark, on a machine that may be busy.
pytestmark = pytest.mark.timeout(400)


# What does not depend on the log is tried on one.
async def test_all_that_passes_the_filters_is_chosen_and_nothing_else(bench: Bench) -> None:
    """On either log: bodies, keys and headers are as the delivery sees them."""
    cel = Filter(type=FilterType.CEL, expression="headers['x'] == 'a'")
    path = Filter(type=FilterType.JSONPATH, path="$.n", matcher="[0-9]")
    await bench.change(filters=(path,))
    wanted = await bench.publish(*(b'{"n": %d}' % n for n in range(10)), headers=[(b"h-x", b"a")])
    await bench.publish(*(b'{"n": %d}' % n for n in range(10, 20)), headers=[(b"h-x", b"a")])
    keyed = await bench.publish(b'{"n": 1}', b'{"n": 2}', key=b"k")
    await bench.publish(b"no JSON", b"", headers=[(b"h-x", b"a")])
    to_one = RecordTarget("a" * 32, "b" * 32).header()
    await bench.publish(b'{"n": 3}', headers=[(b"h-x", b"a"), (HEADER_TARGET, to_one)])
    foreign = await bench.log.append(TOPIC, [NewRecord(value=b'{"n": 4}')])

    every, found = await bench.chosen()
    assert found == places([*wanted, *keyed, *foreign])
    assert (every.state, every.counts.matched) == (RetransmissionState.SENDING, 13)
    assert every.counts.size == 13 * len(b'{"n": 1}')
    _, found = await bench.chosen(filters=(cel,))
    assert found == places(wanted)
    _, found = await bench.chosen(keys=("k", "other"))
    assert found == places(keyed)
    place = f"{TOPIC}/{foreign[0].partition.index}/{foreign[0].offset}"
    _, found = await bench.chosen(message_ids=('m-{"n": 7}', place))
    assert found == places([wanted[7], *foreign])
    first = wanted[0].partition.index
    _, found = await bench.chosen(since=None, offsets={first: (1, 3)})
    assert {index for index, _ in found} <= {first}
    assert {offset for _, offset in found} <= {1, 2}

    looked_at, found = await bench.chosen(dry_run=True)
    assert (looked_at.state, found) == (RetransmissionState.DONE, set())
    assert (looked_at.counts.matched, looked_at.counts.written) == (13, 0)
    assert len(looked_at.samples) == 13
    assert {sample["messageId"] for sample in looked_at.samples} > {'m-{"n": 7}', place}

    # What comes later is not in it, nor what came before its time.
    asked = await bench.asked(since=datetime.now(UTC) + timedelta(days=-1))
    await bench.publish(b'{"n": 5}')
    job = await bench.taken()
    assert (await bench.done(job)).counts["messages"] == 13
    assert asked.state is RetransmissionState.REQUESTED


async def test_messages_are_chosen_by_their_own_times_wherever_these_are_in_the_log(
    bench: Bench,
) -> None:
    """Publishers' clocks differ: offsets by time only say where to look."""
    now = datetime.now(UTC).replace(microsecond=0)

    async def published(minutes: int) -> Position:
        at_ms = int((now - timedelta(minutes=minutes)).timestamp() * 1000)
        record = NewRecord(value=b"%d" % minutes, key=b"k", timestamp_ms=at_ms)
        (position,) = await bench.log.append(TOPIC, [record])
        return position

    found = {minutes: await published(minutes) for minutes in (40, 20, 50, 10, 25, 5, 30, 45)}
    since, until = now - timedelta(minutes=30), now - timedelta(minutes=15)
    _, chosen = await bench.chosen(since=since, until=until)
    assert chosen == places([found[20], found[25], found[30]])


@EMBEDDED
async def test_a_second_taking_of_a_job_adds_nothing(bench: Bench) -> None:
    positions = await bench.publish(*(b"%d" % n for n in range(50)))
    asked = await bench.asked()
    job = await bench.taken()
    lost = await bench.done(job)
    async with bench.database.transaction() as session:
        assert await JobRepository(session).release(job.claim)
    again = await bench.taken("r-2")
    result = await bench.done(again)
    assert await bench.finished(again, result)
    # The first runner, which knows of nothing, comes to its end.
    await bench.done(job)
    assert not await bench.finished(job, lost)
    seen = await bench.seen(asked)
    assert (seen.attempt, seen.counts.matched) == (2, 50)
    assert await bench.places(asked) == places(positions)


@EMBEDDED
async def test_discards_are_chosen_once_each_unless_they_were_sent_again(bench: Bench) -> None:
    positions = await bench.publish(*(b'{"n": %d}' % n for n in range(8)))
    discards = await bench.discard(*positions[:4], body=b'{"n": 1}')
    twice = replace(discards[0], discarded_at=datetime.now(UTC))
    gone = {"status": 404, "reason": "It is gone_100%"}
    other_status = await bench.discard(positions[4], body=b'{"n": 1}', **gone)
    other_reason = await bench.discard(positions[5], status=404, body=b'{"n": 1}')
    elsewhere = replace(discards[1], subscription_id="s-0", offset=77)
    old = replace(discards[2], discarded_at=datetime.now(UTC) - timedelta(days=3), offset=78)
    recorded = [*discards, twice, *other_status, *other_reason, elsewhere, old]
    async with bench.database.transaction() as session:
        await UndeliveredRepository(session).record(recorded, STREAM, 1)
    seen, found = await bench.chosen(Only.UNDELIVERED)
    assert found == places(positions[:6])
    assert seen.counts.matched == 6
    _, found = await bench.chosen(Only.UNDELIVERED, statuses=(404,), reason="GONE_100%")
    assert found == places(positions[4:5])
    none = Filter(type=FilterType.JSONPATH, path="$.n", matcher="2")
    seen, found = await bench.chosen(Only.UNDELIVERED, filters=(none,))
    assert (seen.state, found) == (RetransmissionState.DONE, set())


@EMBEDDED
async def test_what_is_missing_is_what_has_no_end_in_the_traces(bench: Bench) -> None:
    with pytest.raises(ValidationFailedError, match="trackingAll"):
        await bench.asked(Only.MISSING)
    await bench.change(tracking=TrackingMode.ALL)
    positions = await bench.publish(*(b"%d" % n for n in range(30)))
    await bench.commit_all()
    waiting = await bench.publish(b"not reached yet")
    source = TraceSource(topic=TOPIC, subscription_id=bench.subscription.id, subscription="billing")
    ends = ("SUCCESS", "FILTERED", "DISCARDED")
    # From the first trace of a partition on something can be said.
    blind, missing = positions[0], positions[17:20]
    rows = [
        a_row(
            at=micros(datetime.now(UTC)), partition=each.partition.index, offset=each.offset,
            status=ends[number % 3],
        )
        for number, each in enumerate(positions)
        if each not in {blind, *missing}
    ]  # fmt: skip
    failed = [rows[0]._replace(status="FAILED", partition=p.partition.index, offset=p.offset)
              for p in missing]  # fmt: skip
    # A pack of another worker's, in which nothing has an end.
    packs = [a_pack(*rows), a_pack(*failed)._replace(worker="w-2")]
    store = a_store(bench.database)
    await store.positions()
    by_source = [pack._replace(sources={0: source}) for pack in packs]
    await store.record(by_source, Partition("angelia.traces", 0), 1)
    seen, found = await bench.chosen(Only.MISSING)
    assert found == places(missing)
    assert not found & places(waiting)
    assert (seen.counts.matched, seen.counts.untraced) == (3, 1)

    # What is on its way is not missing, nor what was discarded, although nothing was traced of it.
    seen, _ = await bench.chosen(Only.MISSING, dry_run=True)
    assert (seen.counts.matched, seen.counts.untraced) == (0, 1)
    async with bench.database.transaction() as session:
        discards = await bench.discard(missing[2])
        await UndeliveredRepository(session).record(discards, STREAM, 1)
    # It is cancelled, and has delivered one of them at its new place.
    copies = await bench.publish(b"copy", b"copy", b"copy")
    await sent_by_worker(bench, missing, copies, state=RetransmissionState.CANCELLED)
    delivered = rows[0]._replace(
        status="SUCCESS", partition=copies[0].partition.index, offset=copies[0].offset
    )
    pack = a_pack(delivered)._replace(sources={0: source}, worker="w-3")
    await store.record([pack], Partition("angelia.traces", 0), 2)
    _, found = await bench.chosen(Only.MISSING)
    assert found == places(missing[1:2])
    # Of one that is done all is: there may be no trace of it.
    await sent_by_worker(bench, missing[1:2], copies[1:2], state=RetransmissionState.DONE)
    seen, _ = await bench.chosen(Only.MISSING, dry_run=True)
    assert seen.counts.matched == 0

    await store.record([a_pack(lost=3)], Partition("angelia.traces", 0), 3)
    await bench.asked(Only.MISSING)
    with pytest.raises(NotKnownError, match="3 entries"):
        await bench.done(await bench.taken())


async def sent_by_worker(
    bench: Bench,
    sources: Sequence[Position],
    copies: Sequence[Position],
    *,
    state: RetransmissionState,
) -> None:
    """The retransmission that waits to be sent has appended these, and ends in that state."""
    async with bench.database.transaction() as session:
        repository = SendingRepository(session, "w-1")
        sending = await repository.take(LEASE)
        assert sending is not None
        sent = [
            Sent(source.partition.index, source.offset, copy.partition.index, copy.offset)
            for source, copy in zip(sources, copies, strict=True)
        ]
        assert await repository.record(sending, sent)
        await repository.end(sending, state, None)


async def test_tasks_share_the_offsets_and_nothing_is_shuffled(bench: Bench) -> None:
    await bench.publish(*(b"%d" % n for n in range(30)))
    await bench.asked()
    job = await bench.taken()
    asked = requested_choice(bench.url, job.id)
    read = reached(bench.work(job), TOPIC, asked.request.spans)
    chosen = selected(bench.spark, bench.work(job), asked, read=read)
    filled = [span for span in asked.request.spans if span.start < span.end]
    assert chosen.rdd.getNumPartitions() == len(filled)
    plan = plan_of(runs(chosen))
    assert "Exchange" not in plan
    assert "postgresql" not in plan


@EMBEDDED
async def test_a_topic_without_messages_has_none_to_send_again(bench: Bench) -> None:
    seen, found = await bench.chosen()
    assert (seen.state, seen.counts.matched, found) == (RetransmissionState.DONE, 0, set())


def test_long_partitions_are_read_by_several_tasks() -> None:
    span = OffsetSpan(topic="t", partition=3, start=5, end=5 + 2 * SPAN_MAX + 1)
    found = parts_of(span)
    assert [(part.start, part.end) for part in found] == [
        (5, 5 + SPAN_MAX), (5 + SPAN_MAX, 5 + 2 * SPAN_MAX), (5 + 2 * SPAN_MAX, span.end),
    ]  # fmt: skip
    assert len(parts_of(replace(span, end=10**12))) <= 512


def test_hours_cover_a_time_once() -> None:
    first = datetime(2026, 1, 1, tzinfo=UTC)
    for length in (timedelta(minutes=5), timedelta(hours=3, minutes=1), timedelta(days=365)):
        found = hours(first, first + length, at_most=512)
        assert found[0][0] == first
        assert found[-1][1] == first + length
        assert all(left[1] == right[0] for left, right in pairwise(found))
        assert len(found) <= 513
