"""The contract of every message log: which topics it has."""

from datetime import timedelta

import pytest

from app.domain.errors import TopicNotFoundError
from app.log.interface import FoundTopic, MessageLog
from tests.contract.harness import Harness
from tests.contract.logs import TOPIC, created


async def test_the_topics_of_a_namespace_can_be_listed(log: MessageLog, harness: Harness) -> None:
    await created(log)
    await created(log, "shop.gone")
    async with harness.opened() as other:
        await created(other, "shop.paid")
    await log.delete_topic("shop.gone")
    assert {*await log.topic_names()} == {TOPIC, "shop.paid"}


async def test_topics_of_other_namespaces_are_not_listed(log: MessageLog, harness: Harness) -> None:
    async with harness.elsewhere() as elsewhere:
        await created(elsewhere, "shop.theirs")
        await created(log)
        assert {*await log.topic_names()} == {TOPIC}
        assert {*await elsewhere.topic_names()} == {"shop.theirs"}
        assert await log.partition_counts(["shop.theirs"]) == {}


async def test_partitions_are_counted_in_topics_that_exist(
    log: MessageLog, harness: Harness
) -> None:
    await created(log, "shop.paid")
    async with harness.opened() as other:
        await created(other, partitions=3)
    assert await log.partition_counts([TOPIC, "shop.none", "shop.paid"]) == {
        TOPIC: 3, "shop.paid": 1,
    }  # fmt: skip
    assert await log.partition_counts([]) == {}


async def test_a_topic_is_found_as_it_is_and_one_that_is_not_there_is_not(log: MessageLog) -> None:
    await created(log, partitions=3)
    assert await log.topic(TOPIC) == FoundTopic(3, timedelta(days=1))
    with pytest.raises(TopicNotFoundError):
        await log.topic("shop.other")
