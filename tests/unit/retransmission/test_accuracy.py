"""How exactly a retransmission keeps its share and rate, on a clock that no machine disturbs."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from app.domain.catalogue.subscription import Subscription
from app.domain.catalogue.topic import Ack
from app.domain.commit import Progress
from app.domain.message import NewRecord, Partition
from app.domain.replay.retransmission import HEADER_SOURCE, MessageRun
from app.domain.replay.sending_rate import Sending
from app.log.interface import Committed, Position
from tests.fakes.leaping_loop import LeapingLoop, passes
from tests.fakes.memory_log import MemoryLog
from tests.fakes.sending import Kept
from tests.fakes.worker import World
from workers.retransmission.feed import LEASE, RetransmissionFeed

# What is finished is committed so often, in seconds.
COMMIT_EVERY_S = 0.25
SECONDS = 10


class SlowLog(MemoryLog):
    """Takes a while for each append, and knows when each copy was there."""

    def __init__(self, append_s: float) -> None:
        super().__init__()
        self.append_s = append_s
        self.appended_at: list[float] = []
        self.largest = 0

    async def append(
        self, topic: str, records: Sequence[NewRecord], *, ack: Ack = Ack.ALL
    ) -> Sequence[Position]:
        await passes(self.append_s)
        positions = await super().append(topic, records, ack=ack)
        copies = [each for each in records if HEADER_SOURCE in dict(each.headers)]
        self.largest = max(self.largest, len(copies))
        self.appended_at += [asyncio.get_running_loop().time()] * len(copies)
        return positions


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a retransmission asks for, of a subscription with this limit."""

    limit: int
    share: float = 1.0
    rate: float | None = None

    @property
    def per_second(self) -> float:
        """The lower of both."""
        shared = self.limit * self.share
        return shared if self.rate is None else min(shared, self.rate)


async def appended(wanted: Wanted, log: SlowLog) -> Sequence[float]:
    """Send so much that it should take SECONDS; when each copy was in the log."""
    world, count = World(log), int(wanted.per_second * SECONDS)
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(topic, rate=wanted.limit)
    await log.append(topic.name, [NewRecord(value=b"{}") for _ in range(count)])
    sending = Sending(
        id="e" * 32,
        attempt=1,
        subscription_id=subscription.id,
        topic=topic.name,
        share=wanted.share,
        rate=wanted.rate,
        matched=count,
        begun={0: count},
    )
    run = MessageRun(partition=0, start=0, end=count, messages=count, size=count)
    store = world.sendings.of("w")
    world.sendings.add(Kept(sending=sending, runs=[run]))
    await store.take(LEASE)
    committing = asyncio.create_task(commits(log, subscription))
    feed = RetransmissionFeed(log, store, sending, clock=asyncio.get_running_loop().time)
    await feed.run()
    committing.cancel()
    return log.appended_at


async def commits(log: SlowLog, subscription: Subscription) -> None:
    """The subscription finishes all that it gets."""
    partition = Partition(subscription.topic, 0)
    while True:
        end = (await log.bounds([partition]))[partition].end
        metadata = Progress(subscription_id=subscription.id, offset=end).metadata()
        await log.commit({subscription.group: {partition: Committed(end, metadata)}})
        await passes(COMMIT_EVERY_S)


@pytest.mark.parametrize(
    ("wanted", "append_s"),
    [
        (Wanted(limit=400, share=0.5), 0.0),
        (Wanted(limit=400, share=0.5), 0.05),
        (Wanted(limit=100, share=0.1), 0.02),
        (Wanted(limit=1_000, share=0.25), 0.1),
        (Wanted(limit=1_000, share=1.0, rate=37), 0.03),
        (Wanted(limit=500, share=0.5, rate=240), 0.05),
        (Wanted(limit=100, share=0.5, rate=3.3), 0.005),
        (Wanted(limit=10, share=0.5, rate=2.5), 0.005),
        (Wanted(limit=10, share=0.3), 0.05),
        (Wanted(limit=1_500), 0.05),
    ],
)
def test_share_and_rate_are_kept_within_five_percent(wanted: Wanted, append_s: float) -> None:
    """Whatever the log takes to append, as long as it is a tenth of a second at most."""
    with asyncio.Runner(loop_factory=LeapingLoop) as runner:
        times = runner.run(appended(wanted, SlowLog(append_s)))
    measured = (len(times) - 1) / (times[-1] - times[0])
    print(f"{measured / wanted.per_second:.3f} of {wanted.per_second}/s")  # noqa: T201 - for -rP
    assert measured == pytest.approx(wanted.per_second, rel=0.05)


def test_a_few_are_appended_at_a_time_and_more_only_where_the_log_is_slow() -> None:
    """So what is new comes in between: as many as until the next append, and a quarter more."""
    with asyncio.Runner(loop_factory=LeapingLoop) as runner:
        quick, slow = SlowLog(0.001), SlowLog(0.04)
        for log in (quick, slow):
            runner.run(appended(Wanted(limit=400), log))
    assert (quick.largest, slow.largest) == (5, 20)
