"""The rights that docs/kafka.md names are enough, and none of them is more than that."""

import asyncio
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Final

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ACLOperation, ResourceType

from app.domain.errors import AngeliaError, TopicNotFoundError
from app.log.interface import Committed, MessageLog
from app.log.kafka import kafka_log
from tests.contract.logs import TOPIC, Holder, a_topic, created, read_values, records
from tests.servers.kafka import SharedBroker
from tests.servers.kafka_listeners import LIMITED_USER
from tests.servers.kafka_rights import RIGHTS, admin_of, give

GROUP: Final = "shop.orders_billing"
# What is asked of topics with several replicas only, which one broker has not.
OF_REPLICAS: Final = (ResourceType.TOPIC, ACLOperation.DESCRIBE_CONFIGS)


@pytest.fixture
def admin(kafka_broker: SharedBroker) -> Iterator[KafkaAdminClient]:
    with admin_of(kafka_broker.bootstrap) as client:
        yield client


def limited_log(broker: SharedBroker, namespace: str) -> AbstractAsyncContextManager[MessageLog]:
    bootstrap, security = broker.secured.at("sasl_ssl")
    ours = replace(security, username=LIMITED_USER)
    return kafka_log(bootstrap, namespace=namespace, security=ours)


async def test_the_least_rights_are_enough(
    kafka_broker: SharedBroker, kafka_namespace: str, admin: KafkaAdminClient
) -> None:
    give(admin, kafka_namespace)
    async with limited_log(kafka_broker, kafka_namespace) as log:
        await all_is_done(log)
        assert await log.numbering_problem() == ""
    async with limited_log(kafka_broker, "not-ours.") as log:
        with pytest.raises(AngeliaError):
            await created(log)


@pytest.mark.long
@pytest.mark.parametrize(
    "missing",
    [each for each in RIGHTS if each != OF_REPLICAS],
    ids=lambda each: f"{each[0].name}-{each[1].name}",
)
async def test_none_of_them_is_too_much(
    kafka_broker: SharedBroker,
    kafka_namespace: str,
    admin: KafkaAdminClient,
    missing: tuple[ResourceType, ACLOperation],
) -> None:
    give(admin, kafka_namespace, [each for each in RIGHTS if each != missing])
    async with limited_log(kafka_broker, kafka_namespace) as log:
        with pytest.raises((AngeliaError, AssertionError, TimeoutError)):
            await all_is_done(log)


async def all_is_done(log: MessageLog) -> None:
    (partition,) = await created(log)
    await log.alter_topic(a_topic(partitions=2))
    await log.append(TOPIC, records("a", key="k"))
    found = [await read_values(log, each) for each in await log.partitions(TOPIC)]
    assert sorted(found) == [[], ["a"]]
    assert await log.commit({GROUP: {partition: Committed(1, "m")}}) == {}
    assert await log.committed({GROUP: [partition]}) == {GROUP: {partition: Committed(1, "m")}}
    await log.forget(GROUP, [partition])
    assert await log.committed({GROUP: [partition]}) == {GROUP: {}}
    assert await log.published({TOPIC: 2}) == {TOPIC: 1}
    assert set(await log.copies()) == set(await log.topic_names()) == {TOPIC}
    async with log.ownership(member="m") as ownership, asyncio.TaskGroup() as tasks:
        ownership.subscribe([TOPIC])
        holder = Holder(ownership)
        following = tasks.create_task(holder.run())
        await holder.until(lambda held: len(held.owned) == 2)
        following.cancel()
    await log.delete_topic(TOPIC)
    with pytest.raises(TopicNotFoundError):
        await log.partitions(TOPIC)
