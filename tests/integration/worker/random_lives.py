"""Random lives of workers, and a witness of what must never be."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from app.domain.catalogue.subscription import State, Subscription
from app.domain.catalogue.topic import Ack, Topic
from app.domain.commit import parse_progress
from app.domain.discards.retractions import entry_of
from app.domain.discards.undelivered import Undelivered
from app.domain.message import NewRecord, Partition, Record
from app.domain.streams import UNDELIVERED
from app.log.interface import Committed, Position
from tests.fakes.memory_log import MemoryLog
from tests.fakes.worker import World
from workers.consumer.subscription_consumers import Endpoints

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


def _places_of(records: Sequence[NewRecord]) -> Iterator[Place]:
    """Where the discards among `records` are of."""
    for record in records:
        entry = entry_of(Record(0, 0, None, record.value, list(record.headers)))
        assert entry is not None
        if isinstance(entry, Undelivered):
            yield Partition(entry.topic, entry.partition), entry.offset


class WitnessedLog(MemoryLog):
    """The log in memory, with a witness of what is discarded and what is committed."""

    def __init__(self, witness: Witness) -> None:
        super().__init__()
        self._witness = witness

    async def append(
        self, topic: str, records: Sequence[NewRecord], *, ack: Ack = Ack.ALL
    ) -> Sequence[Position]:
        positions = await super().append(topic, records, ack=ack)
        if topic == UNDELIVERED:
            self._witness.done.update(_places_of(records))
        return positions

    async def commit(
        self, offsets: Mapping[str, Mapping[Partition, Committed]]
    ) -> Mapping[tuple[str, Partition], str]:
        failed = await super().commit(offsets)
        for group, committed in offsets.items():
            for partition, each in committed.items():
                if (group, partition) not in failed:
                    self._witness.commits(partition, each)
        return failed


class Mood(Endpoints, Protocol):
    """Endpoints that behave badly until they are `calm`."""

    calm: bool


class Lives:
    """A world with workers that come and go, and one subscription."""

    topic: Topic
    subscription: Subscription

    def __init__(self, witness: Witness, endpoints: Mood) -> None:
        self.witness = witness
        self.endpoints = endpoints
        self.log = WitnessedLog(witness)
        self.world = World(self.log, sender=endpoints)
        self.published = 0
        self._workers: dict[str, tuple[asyncio.Task[None], asyncio.Event]] = {}
        self._names = iter(f"w{number}" for number in range(100))

    async def begin(self) -> None:
        self.topic = await self.world.topic(partitions=2)
        self.subscription = await self.world.subscribe(
            self.topic, in_flight_max=6, message_backoff=timedelta(milliseconds=2)
        )
        self.witness.subscription_id = self.subscription.id

    async def live(self, actions: Sequence[str]) -> None:
        await self.begin()
        for action in ["join", "publish", *actions]:
            await self.act(action)
            for _ in range(self.published % 7 * 20):
                await asyncio.sleep(0)
        await self.end()

    async def act(self, action: str) -> None:
        match action:
            case "publish":
                await self.publish(range(self.published, self.published + 15))
                self.published += 15
            case "join":
                self._join()
            case "crash" | "stop" if self._workers:
                await self._leave(next(iter(self._workers)), in_order=action == "stop")
            case "toggle":
                toggle = self.world.resume if self._is_suspended() else self.world.suspend
                self.subscription = toggle(self.subscription)
            case _:
                await asyncio.sleep(0)

    async def publish(self, numbers: Sequence[int]) -> None:
        await self.world.publish(self.topic, *[b"%d" % number for number in numbers])

    async def end(self) -> None:
        """Calm down, and wait until everything is done with."""
        self.endpoints.calm = True
        if self._is_suspended():
            self.subscription = self.world.resume(self.subscription)
        if not self._workers:
            self._join()
        partitions = await self.log.partitions(self.topic.name)
        places = [
            (p, n) for p, b in (await self.log.bounds(partitions)).items() for n in range(b.end)
        ]
        await self.world.plane.until(lambda: all(map(self.witness.is_committed, places)))
        for name in list(self._workers):
            await self._leave(name, in_order=True)
        assert self.witness.wrong == []
        assert self.witness.done == set(places)

    def _is_suspended(self) -> bool:
        return self.subscription.state is State.SUSPENDED

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
