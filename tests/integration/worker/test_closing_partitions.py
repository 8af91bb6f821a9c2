"""What a subscription does when some of its partitions close, and others go on."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest

from app.domain.catalogue.subscription import Subscription
from app.domain.commit import Progress
from app.domain.delivery import Delivered, Outcome, Retry
from app.domain.message import Message, NewRecord, Partition, Record
from tests.fakes.worker import until
from tests.integration.worker.test_planted_defects import (
    BATCHED,
    PARTITION,
    PATIENT,
    Desk,
    consumers_of,
    subscription,
)
from workers.consumer.source.collected_batch import CollectedBatch
from workers.consumer.subscription_consumers import CursorKey, SubscriptionConsumers
from workers.delivery.in_flight import ResponseListener
from workers.delivery.share import Share

# In so many turns of the loop a message is sent that may be sent at once.
TURNS: Final = 50
Answer = Callable[[Message], Outcome]


class Answering:
    """An endpoint that answers as told, once the desk is `open`."""

    def __init__(self, desk: "AnsweringDesk", name: str) -> None:
        self._desk = desk
        self._name = name

    def begin(self, message: Message, retry_count: int, listener: ResponseListener) -> None:
        """Nothing: it is awaited."""

    async def attempt(self, message: Message, *, retry_count: int) -> Outcome:
        del retry_count
        self._desk.sent.append((self._name, message))
        self._desk.changed.send()
        await self._desk.open.wait()
        return self._desk.answers.get(self._name, _taken)(message)


class AnsweringDesk(Desk):
    def __init__(self) -> None:
        super().__init__()
        self.answers: dict[str, Answer] = {}
        self.sent: list[tuple[str, Message]] = []
        self.open = asyncio.Event()
        self.open.set()

    def destination(self, asked: Subscription) -> Answering:
        return Answering(self, asked.name)

    def bodies(self, name: str) -> list[bytes | None]:
        return [message.body for whose, message in self.sent if whose == name]


def _taken(_: Message) -> Outcome:
    return Delivered(status=200)


def opened(
    consumers: SubscriptionConsumers, partitions: int, *asked: Subscription
) -> Sequence[Partition]:
    """The partitions, in which each of these has a cursor."""
    found = [Partition(PARTITION.topic, index) for index in range(partitions)]
    starts = [(each, Progress(subscription_id=each.id, offset=0)) for each in asked]
    consumers.open(dict.fromkeys(found, starts))
    for each in asked:
        consumers.share(each.id, Share.owned(each.policy.rate, set(range(partitions)), partitions))
    return found


async def test_what_waited_for_the_oldest_put_off_goes_when_its_partition_closes() -> None:
    desk = AnsweringDesk()
    later = Retry(reason="busy", status=503, retry_after=timedelta())
    desk.answers["s"] = lambda message: _taken(message) if message.body == b"new" else later
    # It is waited for that long after it was put off, and it is put off but once meanwhile.
    asked = replace(
        subscription("s"), policy=replace(PATIENT, message_backoff=timedelta(milliseconds=900))
    )
    async with consumers_of(desk, partitions=2) as (consumers, log):
        opened(consumers, 2, asked, subscription("other"))
        await log.append(PARTITION.topic, [NewRecord(value=b"put off")])
        await until(desk.changed, lambda: bool(desk.bodies("s")))
        ((_, oldest),) = [each for each in desk.sent if each[0] == "s"]
        await log.append(PARTITION.topic, [NewRecord(value=b"new")])
        await until(desk.changed, lambda: b"new" in desk.bodies("other"))
        assert desk.bodies("s") == [b"put off"]
        consumers.halt([CursorKey("s", oldest.partition)])
        for _ in range(TURNS):
            await asyncio.sleep(0)
        assert desk.bodies("s") == [b"put off", b"new"]


async def test_a_message_that_leaves_with_its_partition_is_not_reported_as_retried() -> None:
    desk = AnsweringDesk()
    desk.answers["s"] = lambda _: Retry(reason="no", status=500)
    policy = replace(PATIENT, message_backoff=timedelta(minutes=5))
    async with consumers_of(desk, partitions=2) as (consumers, log):
        leaving, kept = opened(consumers, 2, replace(subscription("s"), policy=policy))
        (consumer,) = consumers.consumers()
        await log.append(PARTITION.topic, [NewRecord(value=b"%d" % n) for n in range(2)])
        await until(desk.changed, lambda: consumer.waiting_retries == 2)
        consumers.halt([CursorKey("s", leaving)])
        (reported,) = consumer.failing.report()
    (stays,) = [message for _, message in desk.sent if message.partition == kept]
    assert reported.message_id == stays.id.decode()


class Counted(Message):
    """Knows how often somebody asked for its body."""

    asked = 0
    _body: bytes | None = None

    @property
    def body(self) -> bytes | None:
        self.asked += 1
        return self._body

    @body.setter
    def body(self, body: bytes | None) -> None:
        self._body = body


def counted(message: Message) -> Counted:
    record = Record(message.offset, message.published_ms, message.key, message.body, [])
    return Counted(record, message.partition)


@pytest.mark.parametrize("in_the_air", [True, False])
async def test_a_batch_is_made_anew_once_for_all_partitions_that_close_together(
    *, in_the_air: bool
) -> None:
    desk, partitions, each_has = AnsweringDesk(), 10, 4
    desk.answers["s"] = lambda _: Retry(reason="no", status=500)
    changes: dict[str, Any] = dict(BATCHED)
    size, wait = partitions * each_has, timedelta(minutes=5)
    policy = replace(PATIENT, batch_size=size, batch_time=wait, message_backoff=wait)
    asked = replace(subscription("s"), policy=policy, **changes)
    async with consumers_of(desk, partitions=partitions) as (consumers, log):
        *closing, kept = opened(consumers, partitions, asked)
        (consumer,) = consumers.consumers()
        if in_the_air:
            desk.open.clear()
        await log.append(PARTITION.topic, [NewRecord(value=b"%d" % n) for n in range(size)])
        await until(desk.changed, lambda: bool(desk.sent))
        ((_, batch),) = desk.sent
        assert isinstance(batch, CollectedBatch)
        if not in_the_air:
            await until(desk.changed, lambda: consumer.waiting_retries == 1)
        batch.opened = [each._replace(message=counted(each.message)) for each in batch.opened]
        consumers.halt([CursorKey("s", partition) for partition in closing])
        desk.open.set()
        await until(desk.changed, lambda: consumer.waiting_retries == 1 and consumer.in_flight == 0)
        assert {each.message.partition for each in batch.opened} == {kept}
        assert len(batch.messages) == each_has
        reads = [each.asked for each in batch.messages if isinstance(each, Counted)]
    # To make the body, and no more often than that takes for one.
    assert reads == [1] * each_has
