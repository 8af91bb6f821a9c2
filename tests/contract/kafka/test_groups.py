"""Consumer groups as Kafka has them."""

import asyncio
from collections.abc import Iterable, Iterator

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.abstract import RebalanceProtocol
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription
from structlog.testing import capture_logs

from app.log.interface import Committed, MessageLog
from app.log.kafka import kafka_log
from app.log.kafka.adapter import OWNERSHIP_GROUP
from app.log.kafka.assignor import HashRingAssignor
from tests.contract.kafka.consumers import consuming
from tests.contract.logs import TOPIC, created, eventually, holding
from tests.servers.kafka import SharedBroker

GROUP = "shop.orders_billing"


@pytest.fixture
def consumer(each_kafka: SharedBroker, kafka_namespace: str) -> Iterator[KafkaConsumer]:
    """Somebody who consumes in a group that is ours to commit for."""
    group = kafka_namespace + GROUP
    with consuming(each_kafka.bootstrap, group_id=group, enable_auto_commit=False) as client:
        yield client


async def test_commits_show_in_kafka_s_own_tools(
    log: MessageLog, admin: KafkaAdminClient, kafka_namespace: str
) -> None:
    (partition,) = await created(log)
    assert await log.commit({GROUP: {partition: Committed(7, "m")}}) == {}
    group = kafka_namespace + GROUP
    found = await asyncio.to_thread(admin.list_group_offsets, {group: None})
    (offset,) = found[group].values()
    assert list(found[group]) == [TopicPartition(kafka_namespace + TOPIC, 0)]
    assert (offset.offset, offset.metadata) == (7, "m")


async def test_an_offset_reset_with_kafka_s_own_tools_is_what_is_committed(
    log: MessageLog, consumer: KafkaConsumer, kafka_namespace: str
) -> None:
    (partition,) = await created(log)
    await log.commit({GROUP: {partition: Committed(7, "m")}})

    def reset() -> None:
        place = TopicPartition(kafka_namespace + TOPIC, 0)
        consumer.assign([place])
        consumer.seek(place, 3)
        consumer.commit()

    await asyncio.to_thread(reset)
    found = await log.committed({GROUP: [partition]})
    assert found[GROUP][partition].offset == 3


async def test_a_commit_to_a_group_that_has_members_is_a_failure_that_says_so(
    log: MessageLog, consumer: KafkaConsumer, kafka_namespace: str
) -> None:
    (partition,) = await created(log)
    consumer.subscribe([kafka_namespace + TOPIC])

    async def joined() -> bool:
        await asyncio.to_thread(consumer.poll, 1000)
        return bool(consumer.assignment())

    await eventually(joined)
    failed = await log.commit(
        {GROUP: {partition: Committed(1)}, "other": {partition: Committed(2)}}
    )
    assert list(failed) == [(GROUP, partition)]
    assert "members" in failed[GROUP, partition]


async def test_hundreds_of_groups_commit_and_are_read_in_one_call(log: MessageLog) -> None:
    partitions = await created(log, partitions=2)
    offsets = {
        f"{GROUP}{n}": {each: Committed(n, "x" * 3000) for each in partitions} for n in range(250)
    }
    assert await log.commit(offsets) == {}
    assert await log.committed(dict.fromkeys(offsets, partitions)) == offsets


async def test_a_member_keeps_its_partitions_while_its_join_waits_for_others_for_long(
    log: MessageLog, each_kafka: SharedBroker, kafka_namespace: str
) -> None:
    slow_to_release, kept = await created(log), await created(log, "shop.kept")
    async with (
        kafka_log(each_kafka.bootstrap, namespace=kafka_namespace) as other,
        holding(log, "slow", releases=False, revoke_timeout=9.0) as slow,
        holding(other, "patient", ["shop.kept"]) as patient,
    ):
        await slow.until(lambda h: h.owned == set(slow_to_release))
        await patient.until(lambda h: h.owned == set(kept))
        # The slow member joins again only when the time for the release is over.
        slow.subscribe([])
        await slow.until(lambda h: bool(h.revoked))
        patient.subscribe([TOPIC, "shop.kept"])
        await patient.until(lambda h: h.owned == {*kept, *slow_to_release})
        assert patient.assigned == len(patient.owned)


class Foreign(RangePartitionAssignor):  # type: ignore[misc]  # kafka has no types
    """Another program's protocol, which has the name of ours."""

    name = HashRingAssignor.name

    def supported_protocols(self) -> list[RebalanceProtocol]:
        return [RebalanceProtocol.COOPERATIVE]

    def metadata(self, topics: Iterable[str]) -> ConsumerProtocolSubscription:
        return ConsumerProtocolSubscription(
            version=1, topics=list(topics), user_data=b"\xff", owned_partitions=[]
        )


async def test_a_program_that_joins_the_workers_group_takes_no_partition_from_them(
    log: MessageLog, each_kafka: SharedBroker, kafka_namespace: str
) -> None:
    partitions = await created(log, partitions=2)
    group = kafka_namespace + OWNERSHIP_GROUP
    with capture_logs() as logs:
        async with holding(log, "a") as holder:
            await holder.until(lambda h: h.owned == set(partitions))
            with consuming(
                each_kafka.bootstrap, group_id=group, partition_assignment_strategy=[Foreign()]
            ) as foreign:
                foreign.subscribe([kafka_namespace + TOPIC])

                async def met() -> bool:
                    await asyncio.to_thread(foreign.poll, 500)
                    return any(each["event"] == "kafka_members_unreadable" for each in logs)

                await eventually(met)
                more = await created(log, "shop.more")
                holder.subscribe([TOPIC, "shop.more"])

                async def has_all() -> bool:
                    await asyncio.to_thread(foreign.poll, 500)
                    return holder.owned == {*partitions, *more}

                await eventually(has_all)
                assert not foreign.assignment()
    assert not any(each["event"] == "kafka_membership_interrupted" for each in logs)
