"""The contract of every message log: appending, fetching, committing, administering."""

import asyncio
import time
from datetime import timedelta

import pytest

from app.domain.errors import MessageTooLargeError, TopicNotFoundError
from app.domain.message import NewRecord, Partition
from app.log.interface import Bounds, Committed, MessageLog
from tests.contract.harness import Harness
from tests.contract.logs import (
    EVENTUALLY,
    MEBIBYTE,
    TOPIC,
    a_topic,
    created,
    eventually,
    read_all,
    read_values,
    records,
    values,
)


async def test_appended_records_have_positions_in_their_order(log: MessageLog) -> None:
    (partition,) = await created(log)
    positions = await log.append(TOPIC, records("a", "b", "c"))
    assert [position.offset for position in positions] == [0, 1, 2]
    assert {position.partition for position in positions} == {partition}
    assert await read_values(log, partition) == ["a", "b", "c"]


async def test_appending_nothing_stores_nothing(log: MessageLog) -> None:
    (partition,) = await created(log)
    assert list(await log.append(TOPIC, [])) == []
    assert (await log.bounds([partition]))[partition] == Bounds(0, 0)


async def test_records_with_one_key_keep_their_order_under_concurrent_appends(
    log: MessageLog,
) -> None:
    await created(log, partitions=4)

    async def publish(key: str) -> set[Partition]:
        places = [await log.append(TOPIC, records(f"{key}{n}", key=key)) for n in range(30)]
        return {position.partition for place in places for position in place}

    keys = [f"key-{n}-" for n in range(12)]
    homes = dict(zip(keys, await asyncio.gather(*map(publish, keys)), strict=True))
    for key, home in homes.items():
        (partition,) = home
        stored = await read_values(log, partition)
        assert [v for v in stored if v.startswith(key)] == [f"{key}{n}" for n in range(30)]


async def test_the_order_of_calls_made_without_waiting_is_the_order_of_the_records(
    log: MessageLog,
) -> None:
    (partition,) = await created(log)
    await asyncio.gather(*(log.append(TOPIC, records(str(n), key="k")) for n in range(200)))
    assert await read_values(log, partition) == [str(n) for n in range(200)]


async def test_a_key_goes_to_the_same_partition_from_every_process(
    log: MessageLog, harness: Harness
) -> None:
    await created(log, partitions=8)
    async with harness.opened() as other:
        for n in range(20):
            (here,) = await log.append(TOPIC, records("x", key=f"key-{n}"))
            (there,) = await other.append(TOPIC, records("y", key=f"key-{n}"))
            assert here.partition == there.partition


async def test_records_without_key_are_spread_over_the_partitions(log: MessageLog) -> None:
    partitions = await created(log, partitions=4)
    for n in range(40):
        await log.append(TOPIC, records(str(n)))
    counts = [bounds.end for bounds in (await log.bounds(partitions)).values()]
    assert sum(counts) == 40
    assert min(counts) > 0


async def test_offsets_of_concurrent_processes_have_no_holes(
    log: MessageLog, harness: Harness
) -> None:
    partitions = await created(log, partitions=3)

    async def publish(through: MessageLog, name: str) -> None:
        for n in range(20):
            await through.append(TOPIC, records(*(f"{name}{n}.{m}" for m in range(n % 7 + 1))))

    async with harness.opened() as other:
        await asyncio.gather(*(publish(log, f"a{n}-") for n in range(4)))
        await asyncio.gather(
            *(publish(through, name) for through, name in ((log, "b"), (other, "c"), (other, "d")))
        )
    found = {partition: await read_all(log, partition) for partition in partitions}
    for stored in found.values():
        assert [record.offset for record in stored] == list(range(len(stored)))
    assert len({value for stored in found.values() for value in values(stored)}) == sum(
        len(stored) for stored in found.values()
    )


async def test_appending_to_an_unknown_topic_says_so(log: MessageLog) -> None:
    with pytest.raises(TopicNotFoundError):
        await log.append("shop.nothing", records("x"))


async def test_keys_headers_and_bytes_arrive_as_they_were_sent(log: MessageLog) -> None:
    (partition,) = await created(log)
    sent = [
        NewRecord(value=bytes(range(256)), key=b"\x00\xff", headers=((b"id", b"\x00\x01"),)),
        NewRecord(value=b"", headers=((b"h-a", b""), (b"h-a", "ü".encode()), (b"", b"x" * 70_000))),
        NewRecord(value=b"null\x00", key=b""),
    ]
    await log.append(TOPIC, sent)
    found = await read_all(log, partition)
    assert [(r.value, r.key, tuple(r.headers)) for r in found] == [
        (s.value, s.key, s.headers) for s in sent
    ]


@pytest.mark.parametrize("number", [1, 49, 50, 1_200])
async def test_any_number_of_records_is_stored_by_one_call(log: MessageLog, number: int) -> None:
    (partition,) = await created(log)
    sent = [
        NewRecord(value=b"%d" % n, key=None if n % 2 else b"k", headers=((b"n", b"%d" % n),))
        for n in range(number)
    ]
    positions = await log.append(TOPIC, sent)
    found = await read_all(log, partition)
    assert [p.offset for p in positions] == [r.offset for r in found] == list(range(number))
    assert [(r.value, r.key, tuple(r.headers)) for r in found] == [
        (s.value, s.key, s.headers) for s in sent
    ]


async def test_records_have_the_time_given_or_that_of_the_append(log: MessageLog) -> None:
    (partition,) = await created(log)
    before_ms = time.time_ns() // 1_000_000
    await log.append(TOPIC, [NewRecord(value=b"x", timestamp_ms=before_ms - 5_000)])
    await log.append(TOPIC, records("y"))
    given, taken = await read_all(log, partition)
    assert given.timestamp_ms == before_ms - 5_000
    assert before_ms <= taken.timestamp_ms <= time.time_ns() // 1_000_000


async def test_a_record_of_one_megabyte_travels(log: MessageLog) -> None:
    (partition,) = await created(log)
    body = bytes(range(256)) * 4096
    await log.append(TOPIC, [NewRecord(value=body), NewRecord(value=b"after")])
    first = await log.fetch(partition, 0, bytes_max=1000)
    assert first.records[0].value == body
    assert await read_values(log, partition, 1) == ["after"]


async def test_a_record_beyond_the_size_of_its_topic_is_refused(log: MessageLog) -> None:
    (partition,) = await created(log)
    with pytest.raises(MessageTooLargeError):
        await log.append(TOPIC, [NewRecord(value=bytes(4 * MEBIBYTE))])
    await log.append(TOPIC, records("small"))
    assert await read_values(log, partition) == ["small"]


async def test_fetching_begins_at_any_offset(log: MessageLog) -> None:
    (partition,) = await created(log)
    await log.append(TOPIC, records(*map(str, range(20))))
    for offset in (0, 7, 19):
        chunk = await log.fetch(partition, offset, bytes_max=MEBIBYTE)
        assert (chunk.offset, chunk.next_offset, chunk.gap) == (offset, 20, False)
        assert values(chunk.records) == [str(n) for n in range(offset, 20)]
        assert chunk.size > 0


async def test_a_chunk_is_bounded_and_the_next_one_goes_on(log: MessageLog) -> None:
    (partition,) = await created(log)
    sent = [f"{n:03}" + "x" * 997 for n in range(100)]
    for value in sent:
        await log.append(TOPIC, records(value))
    found, offset, chunks = [], 0, 0
    while offset < 100:
        chunk = await log.fetch(partition, offset, bytes_max=10_000)
        assert 1 <= len(chunk.records) <= 20
        found += values(chunk.records)
        offset, chunks = chunk.next_offset, chunks + 1
    assert found == sent
    assert chunks >= 5


async def test_a_chunk_has_at_least_one_record(log: MessageLog) -> None:
    (partition,) = await created(log)
    await log.append(TOPIC, records("x" * 5000))
    await log.append(TOPIC, records("y" * 5000))
    chunk = await log.fetch(partition, 0, bytes_max=1)
    assert values(chunk.records)[0] == "x" * 5000


async def test_at_the_end_a_fetch_is_empty_and_stays_where_it_is(log: MessageLog) -> None:
    (partition,) = await created(log)
    await log.append(TOPIC, records("a"))
    chunk = await log.fetch(partition, 1, bytes_max=MEBIBYTE)
    assert (list(chunk.records), chunk.next_offset, chunk.gap) == ([], 1, False)


async def test_a_waiting_fetch_returns_empty_when_its_time_is_up(log: MessageLog) -> None:
    (partition,) = await created(log)
    started = time.monotonic()
    async with asyncio.timeout(EVENTUALLY):
        chunk = await log.fetch(partition, 0, bytes_max=MEBIBYTE, wait=timedelta(seconds=0.3))
    assert not chunk.records
    assert time.monotonic() - started >= 0.25


async def test_a_waiting_fetch_wakes_when_something_is_appended(
    log: MessageLog, harness: Harness
) -> None:
    (partition,) = await created(log)
    async with harness.opened() as other, asyncio.TaskGroup() as tasks:
        await other.append(TOPIC, records("first"))
        waiting = tasks.create_task(
            log.fetch(partition, 1, bytes_max=MEBIBYTE, wait=timedelta(seconds=2 * EVENTUALLY))
        )
        # It has certainly begun to wait when another fetch has come back.
        await log.fetch(partition, 1, bytes_max=1, wait=timedelta(seconds=0.1))
        await other.append(TOPIC, records("second"))
        async with asyncio.timeout(EVENTUALLY):
            chunk = await waiting
    assert values(chunk.records) == ["second"]


async def test_what_retention_dropped_is_a_gap_up_to_the_start_of_the_log(
    log: MessageLog, harness: Harness
) -> None:
    (partition,) = await created(log)
    await log.append(TOPIC, records(*map(str, range(10))))
    await harness.trim(partition, 4)

    async def trimmed() -> bool:
        return (await log.bounds([partition]))[partition] == Bounds(4, 10)

    await eventually(trimmed)
    gap = await log.fetch(partition, 1, bytes_max=MEBIBYTE)
    assert (gap.gap, list(gap.records), gap.next_offset) == (True, [], 4)
    assert await read_values(log, partition, gap.next_offset) == [str(n) for n in range(4, 10)]
    (position,) = await log.append(TOPIC, records("more"))
    assert position.offset == 10


async def test_an_offset_beyond_the_end_is_a_gap_to_the_start_of_the_log(log: MessageLog) -> None:
    (partition,) = await created(log)
    await log.append(TOPIC, records("a"))
    chunk = await log.fetch(partition, 50, bytes_max=MEBIBYTE)
    assert (chunk.gap, chunk.next_offset, chunk.log_end) == (True, 0, 1)


async def test_commits_are_kept_per_group_and_partition_with_their_metadata(
    log: MessageLog, harness: Harness
) -> None:
    one, two = await created(log, partitions=2)
    metadata = "0123456789" * 400
    failed = await log.commit(
        {
            "g1": {one: Committed(5, metadata), two: Committed(6)},
            "g2": {one: Committed(7, "m")},
        }
    )
    assert dict(failed) == {}
    await log.commit({"g2": {one: Committed(3, "back")}})
    async with harness.opened() as other:
        found = await other.committed({"g1": [one, two], "g2": [one, two]})
    assert found["g1"] == {one: Committed(5, metadata), two: Committed(6)}
    assert found["g2"] == {one: Committed(3, "back")}


async def test_a_group_that_never_committed_has_nothing(log: MessageLog) -> None:
    partitions = await created(log, partitions=2)
    found = await log.committed({"nobody": partitions})
    assert not found.get("nobody")


async def test_many_groups_commit_at_once(log: MessageLog) -> None:
    partitions = await created(log, partitions=4)
    offsets = {
        f"g{n}": {partition: Committed(n + partition.index) for partition in partitions}
        for n in range(50)
    }
    assert dict(await log.commit(offsets)) == {}
    assert await log.committed(dict.fromkeys(offsets, partitions)) == offsets


async def test_a_commit_that_fails_is_reported_and_the_others_hold(log: MessageLog) -> None:
    (good,) = await created(log)
    missing = Partition("shop.nothing", 0)
    failed = await log.commit(
        {
            "g": {good: Committed(1), missing: Committed(2)},
            "h": {good: Committed(3, "x" * 5000)},
        }
    )
    assert set(failed) == {("g", missing), ("h", good)}
    assert all(failed.values())
    found = await log.committed({"g": [good], "h": [good]})
    assert found.get("g") == {good: Committed(1)}
    assert not found.get("h")


async def test_a_forgotten_commit_is_gone_and_the_others_stay(log: MessageLog) -> None:
    one, two = await created(log, partitions=2)
    await log.commit({"g": {one: Committed(1), two: Committed(2)}, "h": {one: Committed(3)}})
    await log.forget("g", [one])
    await log.forget("nobody", [one])
    found = await log.committed({"g": [one, two], "h": [one]})
    assert found["g"] == {two: Committed(2)}
    assert found["h"] == {one: Committed(3)}


async def test_bounds_are_known_of_partitions_that_exist(log: MessageLog) -> None:
    partitions = await created(log, partitions=2)
    (position,) = await log.append(TOPIC, records("a"))
    found = await log.bounds([*partitions, Partition(TOPIC, 9), Partition("shop.nothing", 0)])
    assert found == {p: Bounds(0, 1 if p == position.partition else 0) for p in partitions}


async def test_how_much_was_ever_published_is_known_of_topics_that_exist(
    log: MessageLog, harness: Harness
) -> None:
    (one,) = await created(log)
    await created(log, "shop.many", partitions=3)
    await created(log, "shop.empty")
    await log.append(TOPIC, records("a", "b", "c"))
    await harness.trim(one, 2)
    for number in range(7):
        await log.append("shop.many", records("x", key=str(number)))
    asked = {TOPIC: 1, "shop.many": 3, "shop.empty": 1, "shop.nothing": 2}
    counts = {TOPIC: 3, "shop.many": 7, "shop.empty": 0}
    assert await log.published(asked) == counts
    assert await log.published({}) == {}
    # Another process adds partitions, and those get messages.
    async with harness.opened() as other:
        await other.alter_topic(a_topic("shop.empty", partitions=30))
        for number in range(8):
            await other.append("shop.empty", records("x", key=str(number)))
    await log.delete_topic(TOPIC)

    async def without_what_was_deleted() -> bool:
        # A Kafka with ZooKeeper answers for it a moment longer.
        found = await log.published({**asked, "shop.empty": 30})
        return found == {"shop.many": 7, "shop.empty": 8}

    await eventually(without_what_was_deleted)


async def test_a_time_becomes_the_first_offset_at_or_after_it(log: MessageLog) -> None:
    (full,) = await created(log)
    (empty,) = await created(log, "shop.empty")
    now_ms = time.time_ns() // 1_000_000
    for seconds_ago in (5, 4, 3, 2, 1):
        moment = NewRecord(value=b"x", timestamp_ms=now_ms - seconds_ago * 1000)
        await log.append(TOPIC, [moment])
    for ms, offset in {-90_000: 0, -5_000: 0, -3_500: 2, -3_000: 2, -999: 5, 1: 5}.items():
        assert await log.offsets_at([full, empty], now_ms + ms) == {full: offset, empty: 0}


async def test_a_topic_that_was_created_can_be_used_at_once_by_every_process(
    log: MessageLog, harness: Harness
) -> None:
    async with harness.opened() as other:
        with pytest.raises(TopicNotFoundError):
            await other.append(TOPIC, records("early"))
        await log.create_topic(a_topic(partitions=3))
        assert list(await log.partitions(TOPIC)) == [Partition(TOPIC, n) for n in range(3)]
        await log.append(TOPIC, records("a"))

        async def usable() -> bool:
            try:
                await other.append(TOPIC, records("b"))
            except TopicNotFoundError:
                return False
            return True

        await eventually(usable)


async def test_reading_what_does_not_exist_is_an_error(log: MessageLog) -> None:
    await log.create_topic(a_topic(partitions=1))
    async with asyncio.timeout(EVENTUALLY):
        for nowhere in (Partition("shop.nothing", 0), Partition(TOPIC, 1)):
            with pytest.raises(TopicNotFoundError):
                await log.fetch(nowhere, 0, bytes_max=MEBIBYTE)
    await log.create_topic(a_topic(partitions=2))
    assert not (await log.fetch(Partition(TOPIC, 1), 0, bytes_max=MEBIBYTE)).records


async def test_the_partitions_of_an_unknown_topic_are_an_error(log: MessageLog) -> None:
    with pytest.raises(TopicNotFoundError):
        await log.partitions("shop.nothing")


async def test_creating_a_topic_again_keeps_its_records(log: MessageLog) -> None:
    (partition,) = await created(log)
    await log.append(TOPIC, records("a"))
    await created(log)
    assert await read_values(log, partition) == ["a"]


async def test_concurrent_creations_of_one_topic_all_succeed(
    log: MessageLog, harness: Harness
) -> None:
    async with harness.opened() as other:
        await asyncio.gather(
            *(through.create_topic(a_topic()) for through in (log, other) for _ in range(4))
        )
    assert len(await log.partitions(TOPIC)) == 4
    await log.append(TOPIC, records("a"))


async def test_a_topic_can_get_more_partitions_but_not_fewer(log: MessageLog) -> None:
    (first,) = await created(log)
    await log.append(TOPIC, records("a"))
    await log.alter_topic(a_topic(partitions=3))
    assert list(await log.partitions(TOPIC)) == [Partition(TOPIC, n) for n in range(3)]
    await log.alter_topic(a_topic(partitions=2))
    assert len(await log.partitions(TOPIC)) == 3
    assert await read_values(log, first) == ["a"]

    async def spread() -> bool:
        await log.append(TOPIC, records("b"))
        found = await log.bounds(await log.partitions(TOPIC))
        return all(bounds.end for bounds in found.values())

    await eventually(spread)


async def test_changing_an_unknown_topic_is_an_error(log: MessageLog) -> None:
    with pytest.raises(TopicNotFoundError):
        await log.alter_topic(a_topic("shop.nothing"))


async def test_a_deleted_topic_is_gone(log: MessageLog) -> None:
    (partition,) = await created(log)
    await log.append(TOPIC, records("a"))
    await log.delete_topic(TOPIC)
    await log.delete_topic(TOPIC)

    async def gone() -> bool:
        try:
            await log.append(TOPIC, records("b"))
        except TopicNotFoundError:
            return True
        return False

    await eventually(gone)
    assert await log.bounds([partition]) == {}


async def test_a_topic_created_anew_begins_empty_without_commits(log: MessageLog) -> None:
    (partition,) = await created(log)
    await log.append(TOPIC, records("old", "older"))
    await log.commit({"g": {partition: Committed(2)}})
    await log.delete_topic(TOPIC)
    await created(log)
    async with asyncio.timeout(EVENTUALLY):
        (position,) = await log.append(TOPIC, records("new"))
    assert position.offset == 0
    assert await read_values(log, partition) == ["new"]
    assert not (await log.committed({"g": [partition]})).get("g")
    gap = await log.fetch(partition, 2, bytes_max=MEBIBYTE)
    assert (gap.gap, gap.next_offset) == (True, 0)


async def test_a_log_that_is_up_answers(log: MessageLog) -> None:
    await log.ping()


async def test_what_was_done_is_counted(log: MessageLog) -> None:
    (partition,) = await created(log)
    before = log.stats.appended_records
    await log.append(TOPIC, records("a", "b"))
    await log.fetch(partition, 0, bytes_max=MEBIBYTE)
    await log.commit({"g": {partition: Committed(2)}})
    stats = log.stats
    assert stats.appended_records - before == 2
    assert stats.fetched_records >= 2
    assert stats.fetched_bytes > 0
    assert stats.fetches >= 1
    assert stats.commits == 1
