"""Entries of ledgers as Spark makes them, on both logs."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from app.domain.catalogue.subscription import Subscription
from app.domain.commit import Progress
from app.domain.insight.ledger import Doubt, Finding, Sums, spans_of
from app.domain.job import Claim, Job, JobKind, JobState
from app.domain.message import NewRecord
from app.domain.targeted import RecordTarget
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.discards.undelivered import UndeliveredRepository
from app.storage.insight.jobs import JobRepository
from app.storage.insight.ledgers import LedgerRepository
from app.storage.spark.ledger_rows import RequestedEntry, requested_entries
from spark.jobs.ledger import account_of
from spark.jobs.reached import storage_of
from spark.ledger_records import ledger_records
from spark.transforms.ledger import counted
from tests.contract.harness import Harness
from tests.contract.logs import a_topic
from tests.integration.storage.builders import TOPIC, a_subscription, add_topic
from tests.spark.archives import archived
from tests.spark.archives import done as archive_done
from tests.spark.ledgers import EVER, Books
from tests.spark.plans import plan_of
from tests.spark.retransmissions import EMBEDDED, ONE_LOG, STREAM, Bench, trimmed
from tests.spark.taking import LEASE

# The first test starts Spark, on a machine that may be busy.
pytestmark = pytest.mark.timeout(400)

LATER = datetime.now(UTC) + timedelta(days=1)


@pytest.fixture
async def books(bench: Bench) -> Books:
    await bench.change(start=dict.fromkeys(range(3), 0))
    return Books(bench)


async def test_the_sums_agree_to_the_message_over_entries_that_follow(books: Books) -> None:
    bench = books.bench
    [first, *_] = await books.publish(10)
    index = first.partition.index
    again = RecordTarget("a" * 32, "b" * 32)
    await books.publish(2, again=again)
    positions = await books.publish(4)
    # Two are refused, one is not wanted; 4, 9 and 12 on are in flight, and two go to another one.
    async with bench.database.transaction() as session:
        discards = await bench.discard(first, positions[0], reason="status code:400", status=400)
        discards = [replace(each, offset=at) for each, at in zip(discards, (0, 12), strict=True)]
        await UndeliveredRepository(session).record(discards, STREAM, 1)
    finished = ((5, 9), (10, 13))
    progress = Progress(
        subscription_id=bench.subscription.id, offset=4, finished=finished,
        delivered=6, discarded=2, filtered=1,
    )  # fmt: skip
    await books.commit(index, progress)
    entry = await books.entry()
    assert (entry.number, entry.doubts) == (1, [])
    assert entry.sums == Sums(
        published=14, delivered=6, discarded=2, filtered=1, unfinished=5, recorded=2
    )
    assert entry.reasons == (("status code:400", 400, 2),)
    assert [each.sums.published for each in entry.partitions if each.partition != index] == [0, 0]

    await books.publish(6)
    await books.passed(index, 20, delivered=9)
    second = await books.entry()
    assert (second.number, second.doubts) == (2, [])
    assert second.sums == Sums(carried=5, published=6, delivered=9, unfinished=2)
    assert (second.since, second.previous) == (entry.until, entry.hash)

    # One is skipped, as by a defect: nobody counted it.
    await books.passed(index, 22, delivered=1)
    third = await books.entry()
    assert third.sums == Sums(carried=2, delivered=1, missing=1)
    assert third.doubts == []
    assert (await books.service.check(TOPIC, "billing")).anchored == 3
    whole = await books.service.between(TOPIC, "billing", since=EVER, until=third.until, limit=100)
    assert whole.is_proved
    assert whole.sums == Sums(
        published=20, delivered=16, discarded=2, filtered=1, missing=1, recorded=2
    )


@EMBEDDED
async def test_what_is_sent_again_to_another_one_counts_nowhere(books: Books) -> None:
    await books.publish(3)
    [where, *_] = await books.publish(1, again=RecordTarget("e" * 32, "c" * 32))
    await books.passed(where.partition.index, 4, delivered=3)
    entry = await books.entry()
    assert (entry.sums, entry.doubts) == (Sums(published=3, delivered=3), [])


@EMBEDDED
async def test_what_retention_took_before_it_was_read_is_doubtful(
    books: Books, postgres_url: str
) -> None:
    [first, *_] = await books.publish(5)
    await books.passed(first.partition.index, 3, delivered=3)
    await books.asked()
    job = await books.bench.taken()
    async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
        await connection.execute('DELETE FROM log_records WHERE "offset" < 2')
    assert await books.bench.finished(job, await books.done(job))
    [entry] = await books.entries()
    assert entry.sums == Sums(published=5, delivered=3, unfinished=2, gone=2)
    assert entry.doubts == [Doubt.GONE]


@EMBEDDED
async def test_what_retention_took_is_counted_in_the_archive(
    books: Books, harness: Harness
) -> None:
    bench = books.bench
    await archived(bench)
    [first, *_] = await books.publish(5)
    await archive_done(bench)
    await books.passed(first.partition.index, 4, delivered=4)
    await books.publish(2)
    await trimmed(bench, harness, first.partition, offset=5)
    entry = await books.entry()
    assert entry.sums == Sums(published=7, delivered=4, unfinished=3)
    assert entry.doubts == []
    # Behind a gap of what is not archived there is nothing to prove with.
    await books.passed(first.partition.index, 7, delivered=3)
    await trimmed(bench, harness, first.partition, offset=6)
    assert (await books.entry()).doubts == [Doubt.GONE]


@pytest.mark.parametrize("harness", ["kafka"], indirect=True)
async def test_discards_that_a_restored_database_lost_are_doubtful(
    books: Books, postgres_url: str
) -> None:
    """The commits in Kafka are newer than the backup, and its streams have lost the discards."""
    positions = await books.publish(5)
    discards = await books.bench.discard(*positions[:2], reason="status code:400", status=400)
    async with books.bench.database.transaction() as session:
        await UndeliveredRepository(session).record(discards, STREAM, 1)
    await books.passed(positions[0].partition.index, 5, delivered=3, discarded=2)
    async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
        await connection.execute("DELETE FROM undelivered")
    entry = await books.entry()
    assert entry.sums == Sums(published=5, delivered=3, discarded=2)
    assert entry.doubts == [Doubt.UNRECORDED]


@EMBEDDED
async def test_a_moved_subscription_is_doubtful_once(books: Books) -> None:
    [first, *_] = await books.publish(4)
    index = first.partition.index
    await books.passed(index, 4, delivered=4)
    assert (await books.entry()).doubts == []
    await books.passed(index, 2, seek=1)
    assert (await books.entry()).doubts == [Doubt.MOVED]
    await books.passed(index, 4, delivered=2)
    after = await books.entry()
    assert (after.doubts, after.sums) == ([], Sums(carried=2, delivered=2))


@EMBEDDED
async def test_a_second_taking_of_a_job_makes_no_second_entry(books: Books) -> None:
    bench = books.bench
    [first, *_] = await books.publish(50)
    await books.passed(first.partition.index, 50, delivered=50)
    asked = await books.asked()
    job = await bench.taken()
    # While it is made, whoever asks gets the same.
    assert (await books.asked()).id == asked.id == job.id
    lost = await books.done(job)
    async with bench.database.transaction() as session:
        assert await JobRepository(session).release(job.claim)
    again = await bench.taken("r-2")
    assert await bench.finished(again, await books.done(again))
    # The first runner, which knows of nothing, comes to its end.
    await books.done(job)
    assert not await bench.finished(job, lost)
    [entry] = await books.entries()
    assert (entry.sums, entry.doubts) == (Sums(published=50, delivered=50), [])
    assert (await books.service.check(TOPIC, "billing")).entries == 1


@EMBEDDED
async def test_a_job_that_is_cancelled_makes_none_and_the_next_goes_on_from_the_last(
    books: Books,
) -> None:
    await books.publish(1)
    asked = await books.asked()
    async with books.bench.database.transaction() as session:
        assert (await JobRepository(session).cancel(asked.id)).state is JobState.CANCELLED
    assert await books.entries() == ()
    entry = await books.entry()
    assert (entry.number, entry.sums) == (1, Sums(published=1, unfinished=1))


async def test_a_topic_is_read_once_for_all_its_subscriptions_and_nothing_is_shuffled(
    books: Books,
) -> None:
    for key in (b"a", b"b", b"c", b"d"):
        await books.bench.publish(b"1", b"2", key=key)
    job = await books.asked()
    [entry] = requested_entries(books.bench.url, job.id)
    spans = [span for span in spans_of(entry.topic, entry.request) if span.start < span.end]
    work = books.bench.work(job)
    account = account_of(entry, (await asyncio.to_thread(storage_of, work, [TOPIC]))[TOPIC])
    read = ledger_records(books.bench.spark, work.database_url, log=work.log, spans=spans)
    # One task reads many partitions that have little.
    assert len(spans) > 1
    found = counted(read, [account, account])
    assert found.rdd.getNumPartitions() == 1
    plan = plan_of(found)
    assert "Exchange" not in plan
    assert "postgresql" not in plan
    assert plan.count("Scan ") == 1


@ONE_LOG
async def test_one_job_makes_the_entries_of_many_topics_as_one_job_each_would(
    books: Books,
) -> None:
    bench = books.bench
    others = await more_subscriptions(bench)
    await books.publish(6, again=RecordTarget(others[0].id, "b" * 32))
    await bench.log.append("shop.other", [NewRecord(value=b"1", key=b"k") for _ in range(7)])
    positions = await books.publish(20)
    index = positions[0].partition.index
    await books.commit(index, Progress(
        subscription_id=bench.subscription.id, offset=9, finished=((12, 15),),
        delivered=4, discarded=2,
    ))  # fmt: skip
    async with bench.database.transaction() as session:
        discards = await bench.discard(positions[0], positions[7], status=400)
        await UndeliveredRepository(session).record(discards, STREAM, 1)
    ids = [bench.subscription.id, *(each.id for each in others)]
    job = await books.service.request_all(ids)
    assert job is not None
    assert (job.kind, job.scope.topic, job.scope.subscription) == (JobKind.LEDGERS, None, None)
    alone = [await of_one(books, job, each) for each in requested_entries(bench.url, job.id)]
    taken = await bench.taken()
    assert taken.id == job.id
    result = await books.done(taken)
    assert result.counts["entries"] == len(ids)
    together = await findings(bench, taken.claim)
    assert together == {owner: finding for each in alone for owner, finding in each.items()}
    assert len(together) == len(ids)
    assert await bench.finished(taken, result)
    [entry] = await books.entries()
    assert entry.sums == Sums(published=20, delivered=4, discarded=2, unfinished=14, recorded=2)
    for each in others:
        found = await books.service.between(each.topic, each.name, since=EVER, until=LATER, limit=9)
        [other] = found.entries
        published = 7 if each.topic == "shop.other" else 20
        resent = 6 if each is others[0] else 0
        assert other.sums == Sums(published=published, resent=resent, unfinished=published + resent)
        check = await books.service.check(each.topic, each.name)
        assert (check.entries, check.anchored, check.broken) == (1, 1, None)
    # Nothing is kept of what they were made of.
    assert await findings(bench, taken.claim) == {}


async def more_subscriptions(bench: Bench) -> list[Subscription]:
    """Two of the topic, and one of another."""
    await bench.log.create_topic(a_topic("shop.other", partitions=1))
    start = dict.fromkeys(range(3), 0)
    async with bench.database.transaction() as session:
        await add_topic(session, "shop.other")
        repository = SubscriptionRepository(session)
        named = ((TOPIC, "audit"), (TOPIC, "mail"), ("shop.other", "audit"))
        return [
            await repository.add(
                a_subscription(name, topic=topic, start=start, id=f"{number:032x}")
            )
            for number, (topic, name) in enumerate(named)
        ]


async def of_one(books: Books, like: Job, entry: RequestedEntry) -> Mapping[str, Finding]:
    """What a job finds that makes this entry alone."""
    bench = books.bench
    async with bench.database.transaction() as session:
        jobs = JobRepository(session)
        job = await jobs.add(JobKind.LEDGER, like.scope)
        owner = await SubscriptionRepository(session).with_ids([entry.subscription_id])
        await LedgerRepository(session).add(job, owner[0], entry.request)
        taken = await jobs.take("r-2", LEASE, job_id=job.id)
    assert taken is not None
    await books.done(taken)
    found = await findings(bench, taken.claim)
    async with bench.database.transaction() as session:
        assert await JobRepository(session).fail(taken.claim, "not to be kept")
    return found


async def findings(bench: Bench, claim: Claim) -> Mapping[str, Finding]:
    """What was counted, by subscription, in an order of its own."""
    async with bench.database.transaction() as session:
        found = await LedgerRepository(session).found(claim)
    return {
        owner: Finding(
            counted=tuple(sorted(each.counted, key=str)),
            discards=tuple(sorted(each.discards, key=str)),
        )
        for owner, each in found.items()
    }
