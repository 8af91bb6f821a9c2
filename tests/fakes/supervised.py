"""A worker's supervisor whose partitions a test assigns and revokes. Its other parts are real."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from functools import partial

from app.domain.catalogue.subscription import Subscription
from app.domain.message import Partition
from app.domain.streams import TRACES
from app.log.interface import Assigned, Lost, OwnershipEvent, Revoked
from app.tracing.buffer import TraceBuffer
from tests.fakes.worker import PATIENCE_S, WorkerDatabase, World
from workers.assignment.rate_sharing import RateSharing
from workers.assignment.reporter import Reporter
from workers.assignment.start_positions import StartFinder
from workers.assignment.supervisor import Supervisor
from workers.assignment.suspensions import Suspender
from workers.consumer.commit.committer import Committer
from workers.consumer.commit.receipts import Receipts
from workers.consumer.outcome.dead_letters import DeadLetterTopics
from workers.consumer.outcome.undelivered import UndeliveredStream
from workers.consumer.subscription_consumers import CursorKey, SubscriptionConsumers
from workers.reading.reader import Reader


async def until(condition: Callable[[], bool]) -> None:
    """Let all tasks run until the condition is true.

    Raises:
        TimeoutError: The condition is not true after PATIENCE_S.
    """
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - a turn of the loop, not a time, is waited for
            await asyncio.sleep(0)


class ScriptedOwnership:
    """A membership in the log's group that yields the events that a test gives it."""

    def __init__(self) -> None:
        self.topics: frozenset[str] = frozenset()
        self.released: list[frozenset[Partition]] = []
        self._events: asyncio.Queue[OwnershipEvent] = asyncio.Queue()

    def subscribe(self, topics: Collection[str]) -> None:
        self.topics = frozenset(topics)

    async def events(self) -> AsyncIterator[OwnershipEvent]:
        while True:
            yield await self._events.get()

    def assign(self, *partitions: Partition) -> None:
        self._events.put_nowait(Assigned(frozenset(partitions)))

    def lose(self, *partitions: Partition) -> None:
        self._events.put_nowait(Lost(frozenset(partitions)))

    def revoke(self, *partitions: Partition) -> None:
        gone = frozenset(partitions)
        self._events.put_nowait(Revoked(gone, lambda: self.released.append(gone)))


class OwnedStreams:
    def __init__(self) -> None:
        self.partitions: frozenset[Partition] = frozenset()
        self.checks = 0

    def check(self) -> None:
        self.checks += 1

    def own(self, partitions: Collection[Partition]) -> None:
        self.partitions = frozenset(partitions)


class Supervised:
    """The supervisor with its parts, on the log and the endpoints of `world`."""

    def __init__(self, world: World, tasks: asyncio.TaskGroup, reader: Reader) -> None:
        database = WorkerDatabase(world.plane, "w1")
        self.world = world
        self.ownership = ScriptedOwnership()
        self.streams = OwnedStreams()
        self.reader = reader
        self.traces = TraceBuffer(partial(world.log.append, TRACES), worker="w1")
        self.committer = Committer(world.log, self.traces)
        self.consumers = SubscriptionConsumers(
            endpoints=world.endpoints,
            reader=reader,
            committer=self.committer,
            undelivered=UndeliveredStream(world.log),
            dead_letters=DeadLetterTopics(world.log),
            suspensions=Suspender(database, tasks),
            marks=world.sendings.of("w1"),
            receipts=Receipts(database),
            traces=self.traces,
            tasks=tasks,
        )
        self.reporter = Reporter("w1", self.consumers, database)
        self.rates = RateSharing("w1", self.consumers, database)
        self.supervisor = Supervisor(
            consumers=self.consumers,
            starts=StartFinder(world.log, database),
            ownership=self.ownership,
            rates=self.rates,
            recorder=self.streams,
            tasks=tasks,
        )
        self.database = database

    async def apply(self) -> None:
        """Apply all changes of the control plane to the supervisor."""
        self.supervisor.apply(await self.database.since(self.supervisor.registry.last))

    def key(self, subscription: Subscription, index: int = 0) -> CursorKey:
        return CursorKey(subscription.id, Partition(subscription.topic, index))

    async def until_open(self, *keys: CursorKey) -> None:
        await until(lambda: set(keys) <= self.consumers.keys())

    def committed(self, subscription: Subscription, index: int = 0) -> int | None:
        commits = self.world.memory.commits.get(subscription.group, {})
        commit = commits.get(Partition(subscription.topic, index))
        return commit.offset if commit else None


@asynccontextmanager
async def supervised(world: World) -> AsyncIterator[Supervised]:
    """Run a supervisor inside the block. At the end of the block, everything is cancelled."""
    async with world.log.tail() as tail, asyncio.TaskGroup() as tasks:
        parts = Supervised(world, tasks, Reader(world.log, tail))
        workers = (parts.reader, parts.committer, parts.supervisor, parts.rates)
        running = [tasks.create_task(worker.run()) for worker in workers]
        yield parts
        world.endpoints.gate.set()
        parts.consumers.close()
        for task in running:
            task.cancel()
