"""A real worker on a log, a database and endpoints in memory."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import uuid4

from app.domain.catalogue.changes import Changes, LastChange
from app.domain.catalogue.subscription import DeliveryPolicy, State, Subscription
from app.domain.catalogue.topic import Topic
from app.domain.commit import initial_metadata
from app.domain.delivery import Delivered, Outcome, Retry
from app.domain.discards.retractions import Entry, Retraction
from app.domain.discards.undelivered import Undelivered
from app.domain.errors import StorageUnavailableError
from app.domain.message import Message, NewRecord, Partition
from app.domain.runtime.ping import Ping, Pong
from app.domain.runtime.rate_sharing import RateNote
from app.domain.runtime.receipt import Receipt
from app.domain.status import CursorStatus, FailedAttempt, SubscriptionLoad
from app.log.interface import Committed, LogTopic, MessageLog
from app.otlp.spans import SpanBuffer  # noqa: TC001 - hidden types help nobody
from app.tracing.packs import Pack
from tests.fakes.circuits import CircuitTalk, ToldCircuit
from tests.fakes.in_flight import InFlightRequest
from tests.fakes.memory_log import MemoryLog
from tests.fakes.sending import Sendings
from tests.fakes.signal import Signal
from workers.assignment.circuits import CircuitStore
from workers.assignment.pings import PingDesk
from workers.consumer.commit.committer import HOLD_MAX
from workers.consumer.subscription_consumers import Endpoints
from workers.delivery.in_flight import ResponseListener
from workers.main import Seams, Worker
from workers.reading.registered_schemas import RegistryLookup  # noqa: TC001 - hidden types help nobody
from workers.recorder.traces import StoredStats
from workers.telemetry.observer import WorkerObserver  # noqa: TC001 - the same
from workers.telemetry.worker_metrics import Connections  # noqa: TC001 - hidden types help nobody

# How long tests wait, in seconds. Nothing takes that long, except on a very busy machine.
PATIENCE_S = 90.0
# Settings of subscriptions, unless a test has others. The long timeout is for a test process that
# stands still for a second: its subscribers must not count as hanging.
PATIENT: dict[str, object] = {
    "rate": 100_000,
    "adaptive_rate": False,
    "request_timeout": timedelta(seconds=60),
}


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request as the endpoint received it."""

    endpoint: str
    body: bytes
    retry_count: int
    at: float
    message_id: bytes = b""


Reply = Callable[[Attempt], Outcome]


class ScriptedEndpoints:
    """Endpoints that answer as a test says. While `gate` is not set, requests stay in flight."""

    def __init__(self) -> None:
        self.attempts: list[Attempt] = []
        self.replies: dict[str, Reply] = {}
        self.in_flight = 0
        self.in_flight_peak = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.changed = Signal()

    def destination(self, subscription: Subscription) -> "ScriptedEndpoint":
        return ScriptedEndpoint(subscription.endpoint, self)

    def bodies(self, endpoint: str | None = None) -> list[bytes]:
        return [a.body for a in self.attempts if endpoint in {None, a.endpoint}]

    async def until(self, condition: Callable[[], bool]) -> None:
        await until(self.changed, condition)


class ScriptedEndpoint:
    def __init__(self, url: str, endpoints: ScriptedEndpoints) -> None:
        self._url = url
        self._all = endpoints

    def begin(
        self, message: Message, retry_count: int, listener: ResponseListener
    ) -> InFlightRequest:
        at = asyncio.get_running_loop().time()
        return InFlightRequest(partial(self._attempt, message, retry_count, at=at), listener)

    async def attempt(self, message: Message, *, retry_count: int) -> Outcome:
        at = asyncio.get_running_loop().time()
        return await self._attempt(message, retry_count, at=at)

    async def _attempt(self, message: Message, retry_count: int, *, at: float) -> Outcome:
        everything = self._all
        attempt = Attempt(self._url, message.body or b"", retry_count, at, message.id)
        everything.attempts.append(attempt)
        everything.in_flight += 1
        everything.in_flight_peak = max(everything.in_flight_peak, everything.in_flight)
        everything.changed.send()
        try:
            await everything.gate.wait()
            await asyncio.sleep(0)
            reply = everything.replies.get(self._url)
            return reply(attempt) if reply else Delivered(status=200)
        finally:
            everything.in_flight -= 1
            everything.changed.send()


@dataclass(slots=True)
class ControlPlane:
    """The database of the workers, in memory: what workers read from it, and what they store."""

    down: bool = False
    server: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    number: int = 0
    topics: dict[str, Topic] = field(default_factory=dict)
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    deleted: dict[str, int] = field(default_factory=dict)
    beats: dict[str, int] = field(default_factory=dict)
    # How many partitions each worker has reported.
    partitions: dict[str, int] = field(default_factory=dict)
    statuses: dict[tuple[str, Partition], CursorStatus] = field(default_factory=dict)
    loads: dict[str, SubscriptionLoad] = field(default_factory=dict)
    undelivered: list[Undelivered] = field(default_factory=list)
    retractions: list[Retraction] = field(default_factory=list)
    receipts: dict[str, list[Receipt]] = field(default_factory=dict)
    traces: list[Pack] = field(default_factory=list)
    waiting_traces: dict[str, int] = field(default_factory=dict)
    stream: dict[Partition, int] = field(default_factory=dict)
    notes: dict[tuple[str, str], RateNote] = field(default_factory=dict)
    circuits: dict[str, ToldCircuit] = field(default_factory=dict)
    changed: Signal = field(default_factory=Signal)

    def add(self, topic: Topic) -> None:
        self.number += 1
        self.topics[topic.name] = replace(topic, change=self.number)
        self.changed.send()

    def put(self, subscription: Subscription) -> Subscription:
        self.number += 1
        stored = replace(subscription, change=self.number)
        self.subscriptions[subscription.id] = stored
        self.changed.send()
        return stored

    def delete(self, subscription: Subscription) -> None:
        self.number += 1
        del self.subscriptions[subscription.id]
        self.deleted[subscription.id] = self.number
        self.changed.send()

    def keep(self, entry: Entry) -> None:
        """Store a discard, unless it is retracted.

        Or store a retraction, and remove its discards.
        """
        if isinstance(entry, Retraction):
            self.retractions.append(entry)
            self.undelivered[:] = [each for each in self.undelivered if not entry.covers(each)]
        elif not any(retraction.covers(entry) for retraction in self.retractions):
            self.undelivered.append(entry)

    async def until_applied(self) -> None:
        await self.until(lambda: bool(self.beats) and min(self.beats.values()) >= self.number)

    async def until(self, condition: Callable[[], bool]) -> None:
        await until(self.changed, condition)

    async def positions(self) -> Mapping[Partition, int]:
        self.answer()
        return dict(self.stream)

    def advance(self, stream: Partition, start: int, next_offset: int) -> int | None:
        """Set the position of a stream as `RecorderPositions.advance` does."""
        self.answer()
        stored = self.stream.get(stream, 0)
        if not start <= stored < next_offset:
            return stored
        self.stream[stream] = next_offset
        self.changed.send()
        return None

    def answer(self) -> None:
        if self.down:
            raise StorageUnavailableError("the database in memory is down")


async def until(changed: Signal, condition: Callable[[], bool]) -> None:
    """Wait until the condition is true. It is checked after each signal.

    Raises:
        TimeoutError: The condition is not true after PATIENCE_S.
    """
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await changed.wait(0.05)


class WorkerDatabase:
    """The database in memory as one worker uses it."""

    def __init__(self, plane: ControlPlane, worker_id: str) -> None:
        self._plane = plane
        self._id = worker_id

    async def since(self, last: LastChange) -> Changes:
        self._plane.answer()
        plane = self._plane
        is_complete = last.server != plane.server
        number = 0 if is_complete else last.number
        return Changes(
            number=plane.number,
            server=plane.server,
            is_complete=is_complete,
            topics=tuple(t for t in plane.topics.values() if t.change > number),
            subscriptions=tuple(s for s in plane.subscriptions.values() if s.change > number),
            deleted_subscription_ids=frozenset(i for i, n in plane.deleted.items() if n > number),
        )

    async def wait(self, at_most: timedelta) -> None:
        await self._plane.changed.wait(at_most.total_seconds())

    async def beat(self, *, applied: LastChange, partitions: int) -> None:
        self._plane.answer()
        self._plane.partitions[self._id] = partitions
        is_known = applied.server == self._plane.server
        self._plane.beats[self._id] = applied.number if is_known else 0
        self._plane.changed.send()

    async def write(
        self, cursors: Sequence[CursorStatus], loads: Sequence[SubscriptionLoad]
    ) -> None:
        self._plane.answer()
        for cursor in cursors:
            key = (cursor.subscription_id, Partition(cursor.topic, cursor.partition))
            known = self._plane.statuses.get(key, cursor)
            # As in the database, the report of a former owner makes no count smaller.
            self._plane.statuses[key] = replace(
                cursor,
                delivered=max(known.delivered, cursor.delivered),
                discarded=max(known.discarded, cursor.discarded),
                filtered=max(known.filtered, cursor.filtered),
                volume=max(known.volume, cursor.volume),
            )
        for load in loads:
            self._plane.loads[load.subscription_id] = load
        self._plane.changed.send()

    async def cursors(self, subscription_id: str) -> list[CursorStatus] | None:
        self._plane.answer()
        if subscription_id not in self._plane.subscriptions:
            return None
        return [s for (i, _), s in self._plane.statuses.items() if i == subscription_id]

    async def suspend(self, subscription: Subscription, reason: str) -> bool:
        self._plane.answer()
        stored = self._plane.subscriptions.get(subscription.id)
        if stored is None or stored.change != subscription.change:
            return False
        self._plane.put(stored.in_state(State.SUSPENDED, reason=reason))
        return True

    async def post(self, receipts: Mapping[str, Sequence[Receipt]]) -> None:
        self._plane.answer()
        for waiter, given in receipts.items():
            self._plane.receipts.setdefault(waiter, []).extend(given)
        self._plane.changed.send()

    async def others(self) -> list[RateNote]:
        self._plane.answer()
        return [note for (worker, _), note in self._plane.notes.items() if worker != self._id]

    async def leave_notes(self, notes: Collection[RateNote], drop: Collection[str]) -> None:
        self._plane.answer()
        for note in notes:
            self._plane.notes[self._id, note.subscription_id] = note
        for subscription_id in drop:
            self._plane.notes.pop((self._id, subscription_id), None)

    async def remove(self) -> None:
        self._plane.answer()
        self._plane.beats.pop(self._id, None)

    async def positions(self) -> Mapping[Partition, int]:
        return await self._plane.positions()

    async def record(
        self, rows: Sequence[Entry], stream: Partition, next_offset: int, *, start: int
    ) -> int | None:
        if (stored := self._plane.advance(stream, start, next_offset)) is None:
            for entry in rows:
                self._plane.keep(entry)
        return stored


class WorkerTraces:
    """The traces in the database in memory, as one worker stores them."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self.stats = StoredStats()

    async def positions(self) -> Mapping[Partition, int]:
        return await self._plane.positions()

    async def record(
        self, rows: Sequence[Pack], stream: Partition, next_offset: int, *, start: int
    ) -> int | None:
        if (stored := self._plane.advance(stream, start, next_offset)) is None:
            self._plane.traces += rows
        return stored

    async def waiting(self, worker: str, entries: int) -> None:
        self._plane.answer()
        self._plane.waiting_traces[worker] = entries
        self._plane.changed.send()

    async def keep(self) -> None:
        self._plane.answer()


class Unpinged:
    """A source of pings that has none: the test fails if a worker pings an endpoint."""

    async def ping(self, subscription: Subscription) -> Pong:
        raise AssertionError(subscription.group)

    async def post(self, ping: Ping, pong: Pong) -> None:
        raise AssertionError(ping, pong)


class World:
    """A log, a control plane and endpoints, which any number of workers use."""

    def __init__(
        self,
        log: MessageLog | None = None,
        sender: Endpoints | None = None,
        circuits: Callable[[str], CircuitStore] | None = None,
        *,
        commit_hold_max: timedelta = HOLD_MAX,
    ) -> None:
        self._commit_hold_max = commit_hold_max
        self._sender = sender
        self._circuits = circuits
        # The observers of each worker, by the name of the worker.
        self.observers: dict[str, Collection[WorkerObserver]] = {}
        self.connections: Connections | None = None
        self.metrics_names_max = 100
        self.spans: SpanBuffer | None = None
        self.registry: RegistryLookup | None = None
        self.memory = MemoryLog()
        self.log: MessageLog = log or self.memory
        self.plane = ControlPlane()
        self.endpoints = ScriptedEndpoints()
        self.sendings = Sendings(self.plane.subscriptions)

    async def topic(self, name: str = "shop.orders", partitions: int = 2) -> Topic:
        topic = Topic(name=name, partitions=partitions)
        await self.log.create_topic(
            LogTopic(
                name=name,
                partitions=partitions,
                retention=topic.retention,
                message_size_max=topic.message_size_max,
            )
        )
        self.plane.add(topic)
        return topic

    async def subscribe(
        self,
        topic: Topic,
        name: str = "s",
        *,
        endpoint: str = "",
        http2: bool = False,
        **policy: object,
    ) -> Subscription:
        bounds = await self.log.bounds(await self.log.partitions(topic.name))
        new_id = uuid4().hex
        first = {p: Committed(bound.end, initial_metadata(new_id)) for p, bound in bounds.items()}
        await self.log.commit({f"{topic.name}_{name}": first})
        return self.plane.put(
            Subscription(
                id=new_id,
                topic=topic.name,
                name=name,
                endpoint=endpoint or f"http://{name}.test/",
                http2=http2,
                policy=DeliveryPolicy(**(PATIENT | policy)),  # type: ignore[arg-type]
                start={p.index: bound.end for p, bound in bounds.items()},
            )
        )

    async def publish(self, topic: Topic, *bodies: bytes, key: bytes | None = None) -> None:
        await self.log.append(topic.name, [NewRecord(value=body, key=key) for body in bodies])

    def suspend(self, subscription: Subscription) -> Subscription:
        return self.plane.put(replace(subscription, state=State.SUSPENDED))

    def resume(self, subscription: Subscription) -> Subscription:
        return self.plane.put(replace(subscription, state=State.ACTIVE))

    @asynccontextmanager
    async def worker(self, name: str = "w1") -> AsyncIterator[Worker]:
        """Run a worker inside the block. It is stopped in order at the end."""
        stopping = asyncio.Event()
        worker = self.a_worker(name)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(worker.run(stopping))
            try:
                yield worker
            finally:
                stopping.set()

    @asynccontextmanager
    async def doomed_worker(self, name: str = "w1") -> AsyncIterator[Worker]:
        """Run a worker inside the block. At the end it is killed as by `kill -9`."""
        worker = self.a_worker(name)
        running = asyncio.get_running_loop().create_task(worker.run(asyncio.Event()))
        try:
            yield worker
        finally:
            self.memory.kill(name)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            self.plane.beats.pop(name, None)

    def a_worker(self, name: str) -> Worker:
        database = WorkerDatabase(self.plane, name)
        return Worker(
            Seams(
                worker_id=name,
                log=self.log,
                changes=database,
                status=database,
                suspensions=database,
                notes=database,
                circuits=(
                    self._circuits(name) if self._circuits else CircuitTalk(self.plane, name)
                ),
                undelivered=database,
                traces=WorkerTraces(self.plane),
                endpoints=self._sender or self.endpoints,
                pings=PingDesk(name, Unpinged(), Unpinged()),
                sending=self.sendings.of(name),
                report_interval=timedelta(milliseconds=20),
                trace_linger=timedelta(),
                commit_hold_max=self._commit_hold_max,
                connections=self.connections,
                observers=self.observers.get(name, ()),
                metrics_names_max=self.metrics_names_max,
                spans=self.spans,
                registry=self.registry,
            )
        )


def bad_ones_fail(attempt: Attempt) -> Outcome:
    """Return a failure for bodies that begin with `bad`, and a delivery for all others."""
    if attempt.body.startswith(b"bad"):
        return Retry(reason="refused", status=500)
    return Delivered(status=200)


def delivered(world: World, subscription_id: str) -> int:
    """Return how many messages of a subscription are delivered, by the workers' reports."""
    return sum(s.delivered for (i, _), s in world.plane.statuses.items() if i == subscription_id)


def still_retried(world: World, subscription_id: str) -> Sequence[FailedAttempt]:
    """Return the messages that the last report has as failed and retried, the newest first."""
    load = world.plane.loads.get(subscription_id)
    return load.failing if load else ()
