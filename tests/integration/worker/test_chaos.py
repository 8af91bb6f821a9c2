"""Random lives of workers: nothing is lost, and nothing that is committed is sent again."""

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.domain.commit import parse_progress
from app.domain.delivery import Delivered, Discarded, Outcome, Retry
from app.domain.message import Message, Partition
from app.domain.subscription import State, Subscription
from app.domain.topic import Topic
from app.log.interface import Committed
from tests.fakes.memory_log import MemoryLog
from tests.fakes.worker import World

Place = tuple[Partition, int]


@dataclass
class Witness:
    """Sees every attempt and every commit, and what must never be."""

    subscription_id: str = ""
    done: set[Place] = field(default_factory=set)
    committed: dict[Partition, Committed] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def attempted(self, place: Place) -> None:
        if self.is_committed(place):
            self.wrong.append(f"{place} was sent again although it is committed as finished")

    def commits(self, partition: Partition, committed: Committed) -> None:
        self.committed[partition] = committed
        unfinished = [
            offset
            for offset in range(committed.offset + 200)
            if self.is_committed((partition, offset)) and (partition, offset) not in self.done
        ]
        if unfinished:
            self.wrong.append(f"{committed} passes unfinished messages {unfinished} of {partition}")

    def is_committed(self, place: Place) -> bool:
        partition, offset = place
        committed = self.committed.get(partition)
        if committed is None:
            return False
        progress = parse_progress(self.subscription_id, committed.offset, committed.metadata)
        if progress is None:
            return False
        return offset < progress.offset or any(a <= offset < b for a, b in progress.finished)


class WitnessedLog(MemoryLog):
    """The log in memory, with a witness of what is committed."""

    def __init__(self, witness: Witness) -> None:
        super().__init__()
        self._witness = witness

    async def commit(
        self, offsets: Mapping[str, Mapping[Partition, Committed]]
    ) -> Mapping[tuple[str, Partition], str]:
        failed = await super().commit(offsets)
        for group, committed in offsets.items():
            for partition, each in committed.items():
                if (group, partition) not in failed:
                    self._witness.commits(partition, each)
        return failed


class Moody:
    """Endpoints that fail, are late and discard by dice, until they are `calm`."""

    def __init__(self, witness: Witness, dice: random.Random) -> None:
        self._witness = witness
        self._dice = dice
        self.calm = False

    def destination(self, subscription: Subscription) -> "Moody":
        del subscription
        return self

    async def attempt(self, message: Message, *, retry_count: int) -> Outcome:
        del retry_count
        place = (message.partition, message.offset)
        self._witness.attempted(place)
        for _ in range(self._dice.randrange(4)):
            await asyncio.sleep(0)
        outcome = self._outcome()
        if not isinstance(outcome, Retry):
            self._witness.done.add(place)
        return outcome

    def _outcome(self) -> Outcome:
        mood = 1.0 if self.calm else self._dice.random()
        if mood < 0.3:
            return Retry(reason="not in the mood", status=500)
        return Discarded(reason="never", status=400) if mood < 0.4 else Delivered(status=200)


class Lives:
    """A world with workers that come and go."""

    def __init__(self, seed: int) -> None:
        self.witness = Witness()
        self.endpoints = Moody(self.witness, random.Random(seed))
        self.log = WitnessedLog(self.witness)
        self.world = World(self.log, sender=self.endpoints)
        self.published = 0
        self._workers: dict[str, tuple[asyncio.Task[None], asyncio.Event]] = {}
        self._names = iter(f"w{number}" for number in range(100))
        self._state = State.ACTIVE

    async def begin(self) -> tuple[Topic, Subscription]:
        topic = await self.world.topic(partitions=2)
        subscription = await self.world.subscribe(
            topic, in_flight_max=6, message_backoff=timedelta(milliseconds=2)
        )
        self.witness.subscription_id = subscription.id
        return topic, subscription

    async def act(self, action: str, topic: Topic, subscription: Subscription) -> None:
        match action:
            case "publish":
                bodies = [b"%d" % number for number in range(self.published, self.published + 15)]
                await self.world.publish(topic, *bodies)
                self.published += 15
            case "join":
                self._join()
            case "crash" | "stop" if self._workers:
                await self._leave(next(iter(self._workers)), in_order=action == "stop")
            case "toggle":
                toggle = self.world.resume if self._is_suspended() else self.world.suspend
                self._state = toggle(subscription).state
            case _:
                await asyncio.sleep(0)

    async def end(self, topic: Topic, subscription: Subscription) -> None:
        """Calm down, and wait until everything is done with."""
        self.endpoints.calm = True
        if self._is_suspended():
            self._state = self.world.resume(subscription).state
        if not self._workers:
            self._join()
        partitions = await self.log.partitions(topic.name)
        places = [
            (p, n) for p, b in (await self.log.bounds(partitions)).items() for n in range(b.end)
        ]
        await self.world.plane.until(lambda: all(map(self.witness.is_committed, places)))
        for name in list(self._workers):
            await self._leave(name, in_order=True)
        assert self.witness.wrong == []
        assert self.witness.done == set(places)

    def _is_suspended(self) -> bool:
        return self._state is State.SUSPENDED

    def _join(self) -> None:
        name, stopping = next(self._names), asyncio.Event()
        worker = self.world.a_worker(name)
        running = asyncio.get_running_loop().create_task(worker.run(stopping))
        self._workers[name] = (running, stopping)

    async def _leave(self, name: str, *, in_order: bool) -> None:
        running, stopping = self._workers.pop(name)
        if in_order:
            stopping.set()
            await running
            return
        self.log.kill(name)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


ACTIONS = st.lists(
    st.sampled_from(["publish", "publish", "join", "crash", "stop", "toggle", "wait"]),
    min_size=3,
    max_size=10,
)


@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(actions=ACTIONS, seed=st.integers(0, 2**16))
def test_no_life_of_workers_loses_a_message_or_repeats_a_committed_one(
    actions: list[str], seed: int
) -> None:
    async def live() -> None:
        lives = Lives(seed)
        topic, subscription = await lives.begin()
        for action in ["join", "publish", *actions]:
            await lives.act(action, topic, subscription)
            for _ in range(lives.published % 7 * 20):
                await asyncio.sleep(0)
        await lives.end(topic, subscription)

    asyncio.run(live())
