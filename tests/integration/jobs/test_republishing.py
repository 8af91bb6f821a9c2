"""What tasks of Spark publish once more, and what whoever goes on with it does."""

from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from app.domain.catalogue.topic import Ack, Topic
from app.domain.errors import LogUnavailableError
from app.domain.job import Claim, Job
from app.domain.message import HEADER_ID, NewRecord, Partition, Record
from app.log.interface import Position
from app.schemas.conversion import Fitting
from app.services.replay.republishing import OfflineService
from app.storage.database import Database
from app.storage.insight.jobs import JobRepository
from app.storage.spark.republishing_parts import PartLostError, PartProgress, part_taken
from app.storage.spark.republishing_tasks import begin_parts, complete_parts, republished_counts
from spark.jobs.republishing import APPEND_MAX, BATCH_MAX, PartitionRepublisher, batches
from tests.contract.logs import a_topic
from tests.fakes.memory_log import MemoryLog
from tests.integration.storage.builders import TOPIC, add_topic

AGAIN = "shop.again"
LEASE = timedelta(minutes=1)
SOURCE, TARGET = Topic(name=TOPIC), Topic(name=AGAIN, message_size_max=1024)
MESSAGES = 2 * BATCH_MAX + 100


class BreakingLog(MemoryLog):
    """Stores half of the second append to the target, and says nothing of it."""

    def __init__(self) -> None:
        super().__init__()
        self.appends = 0

    async def append(
        self, topic: str, records: Sequence[NewRecord], *, ack: Ack = Ack.ALL
    ) -> Sequence[Position]:
        self.appends += topic == AGAIN
        if topic != AGAIN or self.appends != 2:
            return await super().append(topic, records, ack=ack)
        await super().append(topic, records[::2], ack=ack)
        raise LogUnavailableError("it went away")


def messages(count: int = MESSAGES) -> list[Record]:
    return [
        Record(at, 1, b"k%d" % (at % 7), b"%d" % at, [(HEADER_ID, b"m-%d" % at)])
        for at in range(count)
    ]


async def asked(database: Database, log: MemoryLog) -> Job:
    """A task for all of a source of one partition, which a runner has."""
    await log.create_topic(a_topic(TOPIC, partitions=1))
    await log.create_topic(a_topic(AGAIN, partitions=3))
    await log.append(TOPIC, [NewRecord(value=each.value or b"") for each in messages()])
    async with database.transaction() as session:
        await add_topic(session)
        await add_topic(session, AGAIN)
    now = datetime.now(UTC)
    hour = timedelta(hours=1)
    await OfflineService(database, log).request(TOPIC, AGAIN, since=now - hour, until=now + hour)
    return await taken(database)


async def taken(database: Database) -> Job:
    async with database.transaction() as session:
        job = await JobRepository(session).take("r-1", LEASE)
    assert job is not None
    return job


async def taken_again(database: Database, job: Job) -> Job:
    async with database.transaction() as session:
        assert await JobRepository(session).release(job.claim)
    return await taken(database)


async def begun(database: Database, log: MemoryLog, job: Job, *, url: str) -> None:
    partitions = await log.partitions(AGAIN)
    ends = {each.index: bound.end for each, bound in (await log.bounds(partitions)).items()}
    seen = await OfflineService(database, log).get(job.id)
    begin_parts(url, job.id, seen.tasks[0].request.spans, ends=ends)


async def fed(
    log: MemoryLog, url: str, claim: Claim, *, found: Sequence[Record], target: Topic = TARGET
) -> None:
    fitting = Fitting(SOURCE, target, task_id=claim.job_id)
    with part_taken(url, claim, 0) as part:
        await PartitionRepublisher(log, part, fitting, task_id=claim.job_id).run(AGAIN, found)


def waited_for(url: str) -> None:
    """The longest that an append takes is over."""
    with psycopg.connect(url) as connection:
        connection.execute(
            "UPDATE offline_parts SET appending_until = appending_until - %s", [APPEND_MAX]
        )


def there(log: MemoryLog) -> dict[bytes, list[int]]:
    """What the target has, by key."""
    found: dict[bytes, list[int]] = {}
    for record in log.records(AGAIN):
        found.setdefault(record.key or b"", []).append(int(record.value or b""))
    return found


def every_one(count: int = MESSAGES) -> dict[bytes, list[int]]:
    found: dict[bytes, list[int]] = {}
    for record in messages(count):
        found.setdefault(record.key or b"", []).append(record.offset)
    return found


async def test_what_was_appended_and_not_said_is_not_published_again(
    database: Database, postgres_url: str
) -> None:
    log = BreakingLog()
    job = await asked(database, log)
    await begun(database, log, job, url=postgres_url)
    with pytest.raises(LogUnavailableError):
        await fed(log, postgres_url, job.claim, found=messages())
    assert 0 < len(log.records(AGAIN)) < MESSAGES
    told = republished_counts(postgres_url, job.id)
    assert told["written"] == BATCH_MAX
    again = await taken_again(database, job)
    await begun(database, log, again, url=postgres_url)
    waited_for(postgres_url)
    await fed(log, postgres_url, again.claim, found=messages())
    # Of each key in its order, but for those that the log took out of a batch that it broke.
    assert {key: sorted(found) for key, found in there(log).items()} == every_one()
    size = sum(len(each.value or b"") for each in messages())
    assert republished_counts(postgres_url, job.id) == {
        "written": MESSAGES,
        "bytes": size,
        "refused": 0,
    }
    # And a third time nothing, however much is given to it.
    waited_for(postgres_url)
    await fed(log, postgres_url, again.claim, found=messages())
    assert len(log.records(AGAIN)) == MESSAGES


async def test_messages_of_a_key_keep_their_order(database: Database, postgres_url: str) -> None:
    log = MemoryLog()
    job = await asked(database, log)
    await begun(database, log, job, url=postgres_url)
    await fed(log, postgres_url, job.claim, found=messages())
    assert there(log) == every_one()


async def test_whoever_comes_next_waits_until_an_append_of_before_is_over(
    database: Database, postgres_url: str
) -> None:
    log = MemoryLog()
    job = await asked(database, log)
    await begun(database, log, job, url=postgres_url)
    with part_taken(postgres_url, job.claim, 0) as part:
        assert part.wait == timedelta(0)
        part.report(PartProgress(0), {}, appending=APPEND_MAX)
    with part_taken(postgres_url, job.claim, 0) as part:
        assert timedelta(0) < part.wait <= APPEND_MAX
        part.report(PartProgress(0), {})
    with part_taken(postgres_url, job.claim, 0) as part:
        assert part.wait == timedelta(0)


async def test_who_had_it_before_says_nothing_more_and_nobody_does_once_it_is_cancelled(
    database: Database, postgres_url: str
) -> None:
    log = MemoryLog()
    job = await asked(database, log)
    await begun(database, log, job, url=postgres_url)
    with ExitStack() as stack:
        first = stack.enter_context(part_taken(postgres_url, job.claim, 0))
        first.report(PartProgress(10, written=10), {})
        second = stack.enter_context(part_taken(postgres_url, job.claim, 0))
        assert second.position == 10
        with pytest.raises(PartLostError):
            first.report(PartProgress(20, written=10), {})
        second.report(PartProgress(30, written=20), {0: 5})
        again = await taken_again(database, job)
        third = stack.enter_context(part_taken(postgres_url, again.claim, 0))
        assert (third.position, third.ends) == (30, {0: 5})
        with pytest.raises(PartLostError):
            second.report(PartProgress(40, written=10), {})
        await OfflineService(database, log).cancel(job.id)
        with pytest.raises(PartLostError):
            third.report(PartProgress(50, written=20), {})
    with pytest.raises(PartLostError), part_taken(postgres_url, job.claim, 0):
        pass
    assert republished_counts(postgres_url, job.id)["written"] == 30
    assert log.records(AGAIN) == []


async def test_what_is_refused_is_counted_once_and_the_first_reason_is_kept(
    database: Database, postgres_url: str
) -> None:
    log = MemoryLog()
    job = await asked(database, log)
    await begun(database, log, job, url=postgres_url)
    large = Record(1, 1, None, b"x" * 1025, [])
    found = [*messages(1), large, Record(2, 1, None, None, [])]
    await fed(log, postgres_url, job.claim, found=found)
    complete_parts(postgres_url, job.claim)
    [task] = (await OfflineService(database, log).get(job.id)).tasks
    assert (task.done.written, task.done.refused, task.done.share) == (1, 2, 1.0)
    assert list(task.done.refusals) == ["0/1: is of 1025 bytes, and the limit is 1024"]


def test_batches_are_bounded_by_number_and_by_bytes() -> None:
    assert [len(each) for each in batches(messages())] == [BATCH_MAX, BATCH_MAX, 100]
    large = [Record(at, 1, None, b"x" * 600_000, []) for at in range(5)]
    assert [len(each) for each in batches(large)] == [2, 2, 1]
    assert list(batches([])) == []


async def test_a_partition_that_the_target_got_since_is_read_back_whole(
    database: Database, postgres_url: str
) -> None:
    log = MemoryLog()
    job = await asked(database, log)
    await begun(database, log, job, url=postgres_url)
    await fed(log, postgres_url, job.claim, found=messages(10))
    with psycopg.connect(postgres_url) as connection:
        connection.execute("UPDATE offline_parts SET position = 0, ends = '{}'")
    await log.alter_topic(a_topic(AGAIN, partitions=4))
    await fed(log, postgres_url, job.claim, found=messages(10))
    assert sorted(int(each.value or b"") for each in log.records(AGAIN)) == list(range(10))
    assert await log.partitions(AGAIN) == [Partition(AGAIN, index) for index in range(4)]
