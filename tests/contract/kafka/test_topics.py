"""Topics as Kafka has them."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType

from app.domain.durability import Copies
from app.domain.errors import MessageRefusedError, TopicNotFoundError, ValidationFailedError
from app.domain.message import NewRecord, Partition
from app.log.interface import MessageLog
from app.log.kafka import kafka_log
from app.log.kafka.admin import HEADER_ROOM
from tests.contract.logs import (
    EVENTUALLY,
    MEBIBYTE,
    TOPIC,
    a_topic,
    created,
    eventually,
    read_all,
    values,
)
from tests.servers.kafka import SharedBroker


def settings(admin: KafkaAdminClient, name: str) -> dict[str, Any]:
    """The settings of a Kafka topic that are its own."""
    described = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
    found: dict[str, Any] = {}
    for each in described.values():
        for topic in each.values():
            found |= {key: config["value"] for key, config in topic.items()}
    return found


def change(admin: KafkaAdminClient, name: str, given: Mapping[str, str]) -> None:
    """Change settings of a Kafka topic."""
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, dict(given))])


async def until_refused(log: MessageLog, record: NewRecord, *, says: str) -> None:
    async def refused() -> bool:
        # A broker hears of a changed setting from the controller.
        try:
            await log.append(TOPIC, [record])
        except MessageRefusedError as error:
            return says in error.message
        return False

    await eventually(refused)


async def refused_of(log: MessageLog, records: Sequence[NewRecord]) -> list[bool]:
    """Append these records at the same time; whether each was refused."""
    calls = [log.append(TOPIC, [record]) for record in records]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    return [isinstance(each, MessageRefusedError) for each in answers]


async def is_known(log: MessageLog) -> bool:
    try:
        await log.topic(TOPIC)
    except TopicNotFoundError:
        return False
    return True


async def test_retention_and_size_become_kafka_s_settings_with_room_for_headers(
    log: MessageLog, admin: KafkaAdminClient, kafka_namespace: str
) -> None:
    await log.create_topic(a_topic())
    found = await asyncio.to_thread(settings, admin, kafka_namespace + TOPIC)
    assert found["retention.ms"] == "86400000"
    assert found["max.message.bytes"] == str(2 * MEBIBYTE + HEADER_ROOM)
    assert found["segment.ms"] == str(6 * 3_600_000)
    await log.alter_topic(replace(a_topic(), retention=timedelta(hours=1), message_size_max=1024))

    async def altered() -> bool:
        # A broker hears of it from the controller.
        found = await asyncio.to_thread(settings, admin, kafka_namespace + TOPIC)
        return (found["retention.ms"], found["max.message.bytes"]) == ("3600000", "1048588")

    await eventually(altered)


async def test_of_messages_for_a_compacted_topic_only_those_without_a_key_are_refused(
    log: MessageLog, admin: KafkaAdminClient, kafka_namespace: str
) -> None:
    (partition,) = await created(log)
    compacted = {"cleanup.policy": "compact"}
    await asyncio.to_thread(change, admin, kafka_namespace + TOPIC, compacted)
    await until_refused(log, NewRecord(value=b"early"), says="Partition-Key")
    end = (await log.bounds([partition]))[partition].end
    keys = [b"a", None, b"b", None, b"c"]
    records = [NewRecord(value=b"v", key=key) for key in keys]
    assert await refused_of(log, records) == [False, True, False, True, False]
    assert [each.key for each in await read_all(log, partition, end)] == [b"a", b"b", b"c"]


@pytest.mark.parametrize("each_kafka", ["kafka_broker"], indirect=True)
async def test_of_messages_only_those_of_a_time_that_the_topic_does_not_allow_are_refused(
    log: MessageLog, admin: KafkaAdminClient, kafka_namespace: str
) -> None:
    (partition,) = await created(log)
    newest = {"message.timestamp.before.max.ms": "3600000"}
    await asyncio.to_thread(change, admin, kafka_namespace + TOPIC, newest)
    old = NewRecord(value=b"old", timestamp_ms=1)
    await until_refused(log, old, says="message.timestamp.before.max.ms")
    end = (await log.bounds([partition]))[partition].end
    times = [None, 1, None, 1, None]
    records = [NewRecord(value=b"v", timestamp_ms=each) for each in times]
    assert await refused_of(log, records) == [False, True, False, True, False]
    assert len(await read_all(log, partition, end)) == 3


async def test_names_that_kafka_cannot_tell_apart_are_refused(log: MessageLog) -> None:
    await log.create_topic(a_topic("shop.a.b"))
    with pytest.raises(ValidationFailedError, match="collides") as refused:
        await log.create_topic(a_topic("shop.a_b"))
    assert [problem.path for problem in refused.value.details] == ["name"]


@pytest.mark.parametrize("name", ["with space", "x" * 249, "ü"])
async def test_names_that_kafka_does_not_allow_are_refused(log: MessageLog, name: str) -> None:
    with pytest.raises(ValidationFailedError) as refused:
        await log.create_topic(a_topic(name))
    assert [problem.path for problem in refused.value.details] == ["name"]


async def test_looking_at_a_topic_does_not_create_it(
    log: MessageLog, admin: KafkaAdminClient, kafka_namespace: str
) -> None:
    missing = Partition("shop.nothing", 0)
    async with log.tail() as tail, log.ownership(member="a") as ownership:
        tail.follow(missing, 0)
        ownership.subscribe([missing.topic, TOPIC])
        events = ownership.events()
        await created(log)
        await anext(events)
        assert await log.bounds([missing]) == {}
    assert kafka_namespace + missing.topic not in await asyncio.to_thread(admin.list_topics)


async def test_more_than_one_batch_holds_is_stored_by_one_call(log: MessageLog) -> None:
    (partition,) = await created(log)
    sent = [NewRecord(value=b"%03d" % n + bytes(99_997)) for n in range(35)]
    positions = await log.append(TOPIC, sent)
    assert [position.offset for position in positions] == list(range(35))
    chunk = await log.fetch(partition, 34, bytes_max=MEBIBYTE)
    assert (chunk.records[0].value or b"")[:3] == b"034"


async def test_a_batch_over_a_smaller_limit_of_the_topic_is_split(
    log: MessageLog, admin: KafkaAdminClient, kafka_namespace: str
) -> None:
    (partition,) = await created(log)
    limit = {"max.message.bytes": "20000"}
    name = kafka_namespace + TOPIC
    resource = ConfigResource(ConfigResourceType.TOPIC, name, limit)
    await asyncio.to_thread(admin.alter_configs, [resource])

    async def limited() -> bool:
        found = await asyncio.to_thread(settings, admin, name)
        return bool(found["max.message.bytes"] == "20000")

    await eventually(limited)
    sent = [NewRecord(value=b"%02d" % n + bytes(2_998)) for n in range(50)]
    positions = await log.append(TOPIC, sent)
    assert [position.offset for position in positions] == list(range(50))
    assert (await log.bounds([partition]))[partition].end == 50


async def test_a_topic_deleted_and_created_anew_is_appended_to_and_read_again(
    log: MessageLog,
) -> None:
    (partition,) = await created(log)
    async with log.tail() as tail:
        await log.append(TOPIC, [NewRecord(value=b"%d" % n) for n in range(5)])
        tail.follow(partition, 5)
        await log.delete_topic(TOPIC)
        await created(log)
        await log.append(TOPIC, [NewRecord(value=b"new")])
        found: list[str] = []
        async with asyncio.timeout(EVENTUALLY):
            while not found:
                for chunk in await tail.chunks():
                    found += values(chunk.records)
    assert found == ["new"]


@pytest.mark.parametrize("setting", [None, 3])
async def test_no_more_replicas_must_be_in_sync_than_a_topic_has(
    each_kafka: SharedBroker,
    admin: KafkaAdminClient,
    kafka_namespace: str,
    setting: int | None,
) -> None:
    """Else a topic of one replica could not be appended to once new ones get three."""
    bootstrap, name = each_kafka.bootstrap, kafka_namespace + TOPIC
    async with kafka_log(bootstrap, namespace=kafka_namespace) as log:
        await log.create_topic(a_topic())
    async with kafka_log(
        bootstrap,
        namespace=kafka_namespace,
        replication_factor=3,
        min_insync_replicas=setting,
    ) as log:
        await log.create_topic(a_topic())
        found = await asyncio.to_thread(settings, admin, name)
        assert found["min.insync.replicas"] == "1"
        assert await log.copies() == {TOPIC: Copies(1)}
        await log.append(TOPIC, [NewRecord(value=b"x")])


@pytest.mark.parametrize(
    ("configs", "retention"),
    [
        ({"retention.ms": "60000"}, timedelta(minutes=1)),
        ({"retention.ms": "-1"}, timedelta.max),
        ({"cleanup.policy": "compact", "retention.ms": "60000"}, timedelta.max),
        ({"cleanup.policy": "compact,delete", "retention.ms": "60000"}, timedelta(minutes=1)),
        ({"retention.ms": str(2**63 - 1)}, timedelta.max),
    ],
)
async def test_topics_that_others_made_are_found_as_they_are(
    log: MessageLog,
    admin: KafkaAdminClient,
    kafka_namespace: str,
    *,
    configs: dict[str, str],
    retention: timedelta,
) -> None:
    name = kafka_namespace + TOPIC
    new = {name: {"num_partitions": 3, "replication_factor": 1, "configs": configs}}
    await asyncio.to_thread(admin.create_topics, new)
    # The broker knows a topic a moment after it has answered that it made it.
    await eventually(lambda: is_known(log))
    found = await log.topic(TOPIC)
    assert found.partitions == 3
    assert abs(found.retention - retention) < timedelta(seconds=1)
