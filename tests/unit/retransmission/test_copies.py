"""Which copies a retransmission waits for: those that its subscription can still finish."""

import pytest

from app.domain.catalogue.subscription import Subscription
from app.domain.catalogue.topic import Topic
from app.domain.commit import Progress
from app.domain.message import NewRecord, Partition
from app.domain.replay.retransmission import Sent
from app.domain.replay.sending_rate import Sending
from app.log.interface import Committed
from tests.fakes.memory_log import MemoryLog
from tests.fakes.worker import World
from workers.retransmission.copies import LOST_AFTER, UnfinishedCopies

LATER = LOST_AFTER.total_seconds()


class Scene:
    """A log with ten records in one partition. The last six are copies of the first six."""

    def __init__(self, log: MemoryLog, topic: Topic, subscription: Subscription) -> None:
        self.log = log
        self.partition = Partition(topic.name, 0)
        self.subscription = subscription
        sending = Sending(
            id="e" * 32,
            attempt=1,
            subscription_id=subscription.id,
            topic=topic.name,
            share=1.0,
            rate=None,
            matched=6,
            begun={0: 4},
        )
        self.copies = UnfinishedCopies(log, sending, 0.0)
        self.copies.add(Sent(0, offset - 4, 0, offset) for offset in range(4, 10))

    async def commit(self, offset: int) -> None:
        metadata = Progress(subscription_id=self.subscription.id, offset=offset).metadata()
        committed = {self.partition: Committed(offset, metadata)}
        assert not await self.log.commit({self.subscription.group: committed})

    async def left(self, now: float) -> int:
        await self.copies.forget_finished(self.subscription, now)
        return len(self.copies)


@pytest.fixture
async def scene() -> Scene:
    world = World()
    assert isinstance(world.log, MemoryLog)
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(topic)
    await world.log.append(topic.name, [NewRecord(value=b"{}") for _ in range(10)])
    return Scene(world.log, topic, subscription)


async def test_copies_below_the_committed_offset_are_finished(scene: Scene) -> None:
    assert await scene.left(1.0) == 6
    await scene.commit(7)
    assert await scene.left(2.0) == 3


async def test_copies_that_the_log_has_lost_are_not_waited_for(scene: Scene) -> None:
    await scene.commit(5)
    assert await scene.left(0.0) == 5
    scene.log.lose(scene.partition, 8)
    assert await scene.left(LATER - 0.1) == 5
    assert await scene.left(LATER) == 3


async def test_copies_that_the_log_has_are_waited_for_however_long_it_takes(scene: Scene) -> None:
    assert await scene.left(LATER) == 6
    assert await scene.left(1_000 * LATER) == 6


async def test_while_copies_are_being_finished_the_log_is_not_asked(scene: Scene) -> None:
    scene.log.lose(scene.partition, 8)
    await scene.commit(5)
    assert await scene.left(LATER - 0.1) == 5
    assert await scene.left(LATER + 0.1) == 5
    assert await scene.left(2 * LATER) == 3
