"""What goes into which batch of the Kafka producer, and when."""

import asyncio

import pytest

from app.domain.message import NewRecord
from app.log.kafka.append_queues import AppendBatch, AppendTopic, KafkaAppend
from app.log.kafka.client import NO_LEADER

NOW_MS = 1_700_000_000_000
ONE, OTHER = 1, 2
KEYS = (b"k0", b"k4")


def a_call(*values: bytes, key: bytes | None = None, acks: int = -1) -> KafkaAppend:
    records = [NewRecord(value=value, key=key) for value in values]
    done = asyncio.get_running_loop().create_future()
    return KafkaAppend("t", records, acks, done, [None] * len(records), len(records))


def a_topic(*leaders: int) -> AppendTopic:
    topic = AppendTopic("t")
    topic.located(dict(enumerate(leaders)), 0.0)
    return topic


def placed(topic: AppendTopic, *calls: KafkaAppend) -> AppendTopic:
    topic.unplaced.extend(calls)
    topic.assign(NOW_MS)
    return topic


def sent(topic: AppendTopic, *ready: int) -> list[AppendBatch]:
    brokers = ready or (ONE, OTHER)
    return list(topic.batches(lambda node: node in brokers))


def values(batch: AppendBatch) -> list[bytes]:
    return [item.call.records[item.record_index].value for item in batch.items]


async def test_what_came_together_is_one_batch() -> None:
    topic = placed(a_topic(ONE, ONE), a_call(b"a"), a_call(b"b", b"c"))
    (batch,) = sent(topic)
    assert values(batch) == [b"a", b"b", b"c"]
    assert not topic.waits


async def test_a_partition_has_one_batch_under_way() -> None:
    topic = placed(a_topic(ONE), a_call(b"a"))
    (first,) = sent(topic)
    placed(topic, a_call(b"b"))
    assert sent(topic) == []
    first.line.under_way = False
    assert [values(each) for each in sent(topic)] == [[b"b"]]


async def test_records_without_a_key_go_to_one_partition_after_the_other() -> None:
    topic = a_topic(ONE, ONE, ONE)
    partitions = []
    for _ in range(6):
        (batch,) = sent(placed(topic, a_call(b"x")))
        batch.line.under_way = False
        partitions.append(batch.partition)
    assert partitions == [0, 1, 2, 0, 1, 2]


async def test_a_look_that_sends_nothing_changes_no_turn() -> None:
    topic = placed(a_topic(ONE, ONE), a_call(b"x"))
    assert sent(topic, 99) == []
    (batch,) = sent(topic)
    assert batch.partition == 0


async def test_a_key_keeps_to_its_partition_and_its_order() -> None:
    topic = a_topic(ONE, ONE, ONE, ONE)
    for key in KEYS:
        placed(topic, *(a_call(b"%d" % n, key=key) for n in range(3)))
    batches = {batch.partition: values(batch) for batch in sent(topic)}
    assert list(batches.values()) == [[b"0", b"1", b"2"]] * len(batches)
    placed(topic, a_call(b"late", key=b"k0"))
    assert sent(topic) == []


async def test_in_a_single_partition_records_with_and_without_key_keep_their_order() -> None:
    topic = placed(a_topic(ONE), a_call(b"a"), a_call(b"b", key=b"k"), a_call(b"c"))
    (batch,) = sent(topic)
    assert values(batch) == [b"a", b"b", b"c"]


async def test_more_than_a_batch_goes_to_several_partitions_at_once() -> None:
    topic = placed(a_topic(ONE, ONE, ONE), *(a_call(b"x" * 600_000) for _ in range(4)))
    batches = sent(topic)
    assert [len(batch.items) for batch in batches] == [1, 1, 1]
    assert topic.waits


async def test_a_record_larger_than_a_batch_goes_alone() -> None:
    topic = placed(a_topic(ONE), a_call(b"x" * 2_000_000), a_call(b"y"))
    (batch,) = sent(topic)
    assert len(batch.items) == 1


async def test_what_nobody_waits_for_any_more_is_not_sent() -> None:
    gone, wanted = a_call(b"gone"), a_call(b"wanted")
    topic = placed(a_topic(ONE), gone, wanted)
    gone.done.cancel()
    (batch,) = sent(topic)
    assert values(batch) == [b"wanted"]


async def test_what_nobody_waits_for_is_forgotten_wherever_it_waits() -> None:
    topic = AppendTopic("t")
    calls = [a_call(b"unplaced"), a_call(b"spare"), a_call(b"keyed", key=b"k")]
    topic.located({0: ONE, 1: ONE}, 0.0)
    placed(topic, *calls[1:])
    topic.unplaced.append(calls[0])
    for call in calls:
        call.done.cancel()
    topic.drop_over()
    assert not topic.waits


async def test_what_is_put_back_goes_first() -> None:
    topic = placed(a_topic(ONE), a_call(b"a"), a_call(b"b"))
    (batch,) = sent(topic)
    placed(topic, a_call(b"c"))
    batch.line.put_back(batch.items)
    batch.line.under_way = False
    (again,) = sent(topic)
    assert values(again) == [b"a", b"b", b"c"]


async def test_records_without_a_key_pass_by_what_cannot_be_reached() -> None:
    topic = placed(a_topic(NO_LEADER, OTHER, ONE), a_call(b"x"))
    (batch,) = sent(topic, ONE)
    assert (batch.partition, batch.leader) == (2, ONE)


async def test_nothing_is_sent_before_the_partitions_are_known() -> None:
    topic = AppendTopic("t")
    placed(topic, a_call(b"x"))
    assert (sent(topic), topic.wanted()) == ([], {NO_LEADER})
    topic.located({0: ONE}, 0.0)
    topic.assign(NOW_MS)
    assert topic.wanted() == {ONE}
    assert len(sent(topic)) == 1


@pytest.mark.parametrize(
    ("key", "leaders", "wanted"),
    [
        (None, (ONE, OTHER), {ONE, OTHER}),
        (None, (NO_LEADER, OTHER), {OTHER}),
        (None, (NO_LEADER, NO_LEADER), {NO_LEADER}),
        (b"k", (NO_LEADER,), {NO_LEADER}),
        (b"k", (OTHER,), {OTHER}),
    ],
)
async def test_the_brokers_that_are_wanted_are_those_of_what_waits(
    key: bytes | None, leaders: tuple[int, ...], wanted: set[int]
) -> None:
    assert placed(a_topic(*leaders), a_call(b"x", key=key)).wanted() == wanted


async def test_a_batch_is_acknowledged_as_strictly_as_any_of_its_calls_asks() -> None:
    topic = placed(a_topic(ONE), a_call(b"a", acks=1), a_call(b"b", acks=-1))
    (batch,) = sent(topic)
    assert batch.acks == -1


async def test_a_topic_that_is_cleared_gives_each_call_once() -> None:
    calls = [a_call(b"a", b"b"), a_call(b"c", b"d", key=b"k"), a_call(b"e")]
    topic = placed(a_topic(ONE, ONE), *calls[:2])
    topic.unplaced.append(calls[2])
    assert sorted(topic.clear(), key=id) == sorted(calls, key=id)
    assert not topic.waits
