"""A broker that is killed, frozen, or not there at all."""

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator

import pytest

from app.domain.errors import LogUnavailableError
from app.domain.message import NewRecord, Partition
from app.log.interface import Assigned, Committed, Lost, MessageLog, Ownership, OwnershipEvent
from app.log.kafka import kafka_log
from tests.contract.logs import (
    EVENTUALLY,
    MEBIBYTE,
    TOPIC,
    Collected,
    a_topic,
    created,
    eventually,
    read_values,
    records,
)
from tests.servers.kafka import KafkaBroker

# An append's timeout is 5 s, that of calls less; the rest is for a machine that is busy.
APPEND_SECONDS_MAX = 20.0
CALL_SECONDS_MAX = 20.0
# A session is 6 s. A request to join waits for its answer for 20 s.
SESSION_SECONDS_MAX = 18.0
HERE = Partition(TOPIC, 0)


@pytest.fixture(scope="module")
def each_kafka(own_kafka_broker: KafkaBroker) -> KafkaBroker:
    """One that may be killed."""
    return own_kafka_broker


@pytest.fixture
async def broker(each_kafka: KafkaBroker) -> AsyncIterator[KafkaBroker]:
    """The broker, which is up again after the test, whatever that did to it."""
    yield each_kafka
    await asyncio.to_thread(each_kafka.restart)


async def appended(log: MessageLog, value: str) -> bool:
    try:
        await log.append(TOPIC, records(value))
    except LogUnavailableError:
        return False
    return True


async def fails_in_time(log: MessageLog) -> None:
    """No call of the log hangs."""
    for _ in range(2):
        async with asyncio.timeout(APPEND_SECONDS_MAX):
            assert not await appended(log, "lost")
    async with asyncio.timeout(CALL_SECONDS_MAX):
        *failures, commits = await asyncio.gather(
            log.ping(),
            log.bounds([HERE]),
            log.published({TOPIC: 1}),
            log.committed({"g": [HERE]}),
            log.fetch(HERE, 0, bytes_max=MEBIBYTE),
            log.partitions(TOPIC),
            log.commit({"g": {HERE: Committed(1)}}),
            return_exceptions=True,
        )
    assert [type(failure) for failure in failures] == [LogUnavailableError] * 6
    assert isinstance(commits, dict)
    assert list(commits) == [("g", HERE)]


async def first(ownership: Ownership, kind: type[OwnershipEvent]) -> OwnershipEvent:
    """The next event of that kind."""
    async with asyncio.timeout(4 * EVENTUALLY):
        async for event in ownership.events():
            if isinstance(event, kind):
                return event
    raise AssertionError("the events ended")


async def test_everything_goes_on_after_the_broker_was_killed(
    log: MessageLog, broker: KafkaBroker
) -> None:
    (partition,) = await created(log)
    async with log.tail() as tail, log.ownership(member="a") as ownership:
        ownership.subscribe([TOPIC])
        tail.follow(partition, 0)
        read = Collected(tail)
        await first(ownership, Assigned)
        await log.append(TOPIC, records("before"))
        await read.until(partition, "before")

        broker.kill()
        await fails_in_time(log)
        # A member that heard nothing for a whole session owns nothing any more.
        assert await first(ownership, Lost) == Lost(frozenset({partition}))

        await asyncio.to_thread(broker.restart)
        assert await first(ownership, Assigned) == Assigned(frozenset({partition}))
        await eventually(lambda: appended(log, "after"))
        await read.until(partition, "before", "after")
    assert await log.commit({"g": {partition: Committed(2)}}) == {}


async def test_a_member_that_joins_again_and_hears_nothing_for_a_session_owns_nothing(
    log: MessageLog, broker: KafkaBroker
) -> None:
    (partition,) = await created(log)
    await created(log, "shop.other")
    async with log.ownership(member="a") as ownership:
        ownership.subscribe([TOPIC])
        await first(ownership, Assigned)
        broker.pause()
        try:
            ownership.subscribe([TOPIC, "shop.other"])
            async with asyncio.timeout(SESSION_SECONDS_MAX):
                assert await first(ownership, Lost) == Lost(frozenset({partition}))
        finally:
            broker.resume()
        await first(ownership, Assigned)


async def test_a_broker_that_freezes_is_noticed_and_used_again(
    log: MessageLog, broker: KafkaBroker
) -> None:
    (partition,) = await created(log)
    async with log.tail() as tail:
        tail.follow(partition, 0)
        await log.append(TOPIC, records("before"))
        broker.pause()
        try:
            await fails_in_time(log)
        finally:
            broker.resume()
        await eventually(lambda: appended(log, "after"))
        found: list[str] = []
        async with asyncio.timeout(EVENTUALLY):
            while "after" not in found:
                for chunk in await tail.chunks():
                    found += [(record.value or b"").decode() for record in chunk.records]
    # What failed may have been stored or not, as the contract says; nothing else is there twice.
    assert [value for value in found if value != "lost"] == ["before", "after"]


async def test_what_is_given_up_before_it_was_sent_is_never_stored(
    log: MessageLog, broker: KafkaBroker
) -> None:
    (partition,) = await created(log)
    await log.append(TOPIC, records("before"))
    broker.pause()
    try:
        async with asyncio.TaskGroup() as tasks:
            # The partition is busy with it.
            under_way = tasks.create_task(appended(log, "under way"))
            await asyncio.wait({under_way}, timeout=0.1)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await log.append(TOPIC, records("given up"))
            broker.resume()
    finally:
        broker.resume()
    await log.append(TOPIC, records("after"))
    # Where the broker stood still for too long for it, it may be there all the same.
    stored = await read_values(log, partition)
    if under_way.result():
        assert stored == ["before", "under way", "after"]
    else:
        assert [value for value in stored if value != "under way"] == ["before", "after"]


async def test_records_of_one_key_keep_their_order_through_a_restart(
    log: MessageLog, broker: KafkaBroker
) -> None:
    (partition,) = await created(log)
    down = asyncio.Event()

    async def publish() -> list[int]:
        stored = []
        for n in itertools.count():
            try:
                await log.append(TOPIC, [NewRecord(value=b"%d" % n, key=b"k")])
            except LogUnavailableError:
                down.set()
            else:
                stored.append(n)
            # It goes on until the broker is back, however long that takes.
            if down.is_set() and stored[-1] == n:
                break
        return stored

    async with asyncio.TaskGroup() as tasks:
        publishing = tasks.create_task(publish())
        await eventually(lambda: _has_records(log, partition))
        await asyncio.to_thread(broker.kill)
        await down.wait()
        await asyncio.to_thread(broker.restart)
    stored = publishing.result()
    found = [int(value) for value in await read_values(log, partition)]
    assert found == sorted(found)
    assert set(stored) <= set(found)


async def _has_records(log: MessageLog, partition: Partition) -> bool:
    return (await log.bounds([partition]))[partition].end > 20


async def test_a_log_whose_kafka_is_not_there_says_so_and_closes_at_once() -> None:
    async with (
        asyncio.timeout(3 * CALL_SECONDS_MAX),
        kafka_log("127.0.0.1:1", namespace="t.") as log,
    ):
        with pytest.raises(LogUnavailableError):
            await log.append(TOPIC, records("x"))
        with pytest.raises(LogUnavailableError):
            await log.ping()
        async with log.tail() as tail, log.ownership(member="a") as ownership:
            tail.follow(HERE, 0)
            ownership.subscribe([TOPIC])
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await tail.chunks()


async def test_a_log_whose_opening_is_given_up_leaves_no_thread_behind() -> None:
    async def opened() -> None:
        async with kafka_log("127.0.0.1:1", namespace="t."):
            pass

    opening = asyncio.create_task(opened())
    await asyncio.sleep(0)
    assert "kafka-io-angelia-control" in {thread.name for thread in threading.enumerate()}
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert "kafka-io-angelia-control" not in {thread.name for thread in threading.enumerate()}


async def test_calls_under_way_end_when_the_log_is_closed(
    each_kafka: KafkaBroker, kafka_namespace: str
) -> None:
    async with asyncio.TaskGroup() as tasks:
        async with kafka_log(each_kafka.bootstrap, namespace=kafka_namespace) as log:
            await log.create_topic(a_topic())
            await log.append(TOPIC, records("x"))
            appending = tasks.create_task(appended(log, "y"))
        async with asyncio.timeout(EVENTUALLY):
            await appending
