"""The world of a run: the log, the database, the network, and the processes that use them."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from ipaddress import ip_network
from typing import Final

import structlog

from app.domain.catalogue.filters import Filter, FilterType
from app.domain.catalogue.subscription import (
    DeliveryPolicy,
    EndpointMode,
    OnExhausted,
    Ordering,
    State,
    Subscription,
)
from app.domain.catalogue.topic import Ack, Topic
from app.domain.circuit import CircuitBreaker
from app.domain.commit import Progress, parse_progress
from app.domain.errors import AngeliaError, StorageUnavailableError
from app.domain.message import Partition
from app.domain.network.egress import EgressPolicy
from app.domain.status import CursorStatus
from app.domain.streams import TRACES, UNDELIVERED
from app.domain.trace import TrackingMode
from app.log.interface import LogTopic
from app.services.applied_changes import AppliedChanges
from app.services.publishing.publisher import Publication, Publisher, record_of
from tests.fakes.sending import Sendings
from tests.fakes.worker import Unpinged
from tests.simulation.batches import in_batches
from tests.simulation.broadcast import address_names, host_of, subscription_of
from tests.simulation.conditions import Service
from tests.simulation.control_plane import (
    SimulatedCircuits,
    SimulatedDatabase,
    SimulatedPlane,
    SimulatedTraces,
)
from tests.simulation.dead_letters import DEAD, with_dead_letters
from tests.simulation.history import (
    Acknowledged,
    Complained,
    History,
    Published,
    Unacknowledged,
    original,
)
from tests.simulation.network import Network
from tests.simulation.plan import MessagePlan, Plan, SubscriptionPlan, TopicPlan
from tests.simulation.remote import Remote
from tests.simulation.simulated_log import SimulatedLog
from tests.simulation.simulated_sending import SimulatedSendings
from tests.simulation.subscribers import MOODS, Subscriber
from tests.simulation.tokens import TOKENS, TokenServer, with_tokens
from tests.simulation.virtual_loop import SimulatedProcess, VirtualLoop, context_of
from tests.simulation.witness import Witness
from workers.assignment.pings import PingDesk
from workers.delivery.sender import Sender
from workers.main import Seams, Worker
from workers.retransmission.store import RetransmissionStore

EVERYWHERE: Final = EgressPolicy(allowed=(ip_network("0.0.0.0/0"),))
PORT: Final = 8080


class WorkerProcess:
    """The process of a worker, which runs or has ended."""

    def __init__(self, process: SimulatedProcess, stopping: asyncio.Event) -> None:
        self.process = process
        self.stopping = stopping
        self.running: asyncio.Task[None] | None = None

    @property
    def is_over(self) -> bool:
        """Whether the worker was killed, or has stopped."""
        return self.process.dead or self.running is None or self.running.done()


class World:
    """The world of one run."""

    def __init__(self, plan: Plan, loop: VirtualLoop, history: History) -> None:
        self.plan = plan
        self.loop = loop
        self.history = history
        self.witness = Witness(loop, history)
        self.log_service = Service(loop.random)
        self.database_service = Service(loop.random)
        self.network = Network(loop, history, Service(loop.random))
        loop.network = self.network
        self.log = SimulatedLog(
            lambda: int(loop.wall_s() * 1_000),
            self.log_service,
            observer=self.witness,
            replication_s=plan.replication_s,
        )
        self.log.numbered = plan.numbered
        self.plane = SimulatedPlane()
        self.applied = AppliedChanges(self.plane.live)
        self.sendings = Sendings(self.plane.subscriptions)
        self.resends = SimulatedSendings(self.plane)
        self.subscribers: dict[str, Subscriber] = {}
        self.tokens: TokenServer | None = None
        if plan.tokens is not None:
            self.tokens = TokenServer(plan.tokens, loop, history)
            self._add_server(self.tokens, plan.tokens.mood)
        # The last worker that was started at each place, by the name of the place.
        self.workers: dict[str, WorkerProcess] = {}
        self._starts = 0
        self._publishers: dict[int, tuple[SimulatedProcess, Publisher]] = {}
        structlog.configure(processors=[self.witness.logged], cache_logger_on_first_use=False)

    # ---- what is there from the beginning -------------------------------------------------------

    def add_topics(self) -> None:
        """Create all topics in the log and in the database."""
        for topic in self.plan.topics:
            self._add_topic(topic)
        if any(each.dead_lettered for each in self.plan.subscriptions):
            self.log.create(log_topic(DEAD))
            self.plane.add(DEAD)

    def _add_topic(self, plan: TopicPlan) -> None:
        ack = Ack.ALL if plan.ack_all else Ack.LEADER
        topic = Topic(name=plan.name, partitions=plan.partitions, ack=ack)
        self.log.create(log_topic(topic))
        self.plane.add(topic)

    def add_subscriber(self, plan: SubscriptionPlan) -> None:
        """Create the endpoint of a subscription: one address, or several."""
        if plan.name in self.subscribers:
            return
        for name, mood in zip(
            address_names(plan.name, len(plan.addresses)), (plan.mood, *plan.addresses), strict=True
        ):
            made = Subscriber(name, self.loop, self.history)
            made.guard = self.tokens if plan.authorized else None
            address = self._add_server(made, mood)
            if plan.addresses:
                self.network.hosts.setdefault(host_of(plan.name), []).append(address)

    def _add_server(self, server: Subscriber, mood: str) -> str:
        """Add a server to the network, and return its address."""
        self.subscribers[server.name], server.mood = server, MOODS[mood]
        address = self._address(server.name)
        self.network.servers[address, PORT] = server
        return address

    def _address(self, server: str) -> str:
        return f"10.0.0.{list(self.subscribers).index(server) + 1}"

    def endpoint(self, plan: SubscriptionPlan, incarnation: str) -> str:
        """Return the URL of a subscription's endpoint."""
        host = host_of(plan.name) if plan.addresses else self._address(plan.name)
        return f"http://{host}:{PORT}/{incarnation}"

    def address_at(self, subscription: str, amount: float) -> str:
        """Return the name of one of the subscription's addresses, chosen by a number below 1."""
        names = [each for each in self.subscribers if subscription_of(each) == subscription]
        return names[min(int(amount * len(names)), len(names) - 1)] if names else subscription

    def draft(self, plan: SubscriptionPlan, incarnation: str) -> Subscription:
        """Return the subscription that a plan describes, to be stored in the database."""
        made = Subscription(
            id=incarnation,
            topic=plan.topic,
            name=plan.name,
            endpoint=self.endpoint(plan, incarnation),
            mode=EndpointMode.BROADCAST if plan.addresses else EndpointMode.ANYCAST,
            policy=policy_of(plan),
            ordering=Ordering(plan.ordering),
            tracking=TrackingMode.ALL if plan.traced else TrackingMode.OFF,
            circuit_breaker=breaker_of(plan),
            filters=FILTERS if plan.filtered else (),
        )
        made = in_batches(made, plan.batch)
        if plan.dead_lettered:
            made = with_dead_letters(made)
        if self.plan.tokens is None or not plan.authorized:
            return made
        return with_tokens(made, self.plan.tokens, f"http://{self._address(TOKENS)}:{PORT}/token")

    # ---- processes ------------------------------------------------------------------------------

    def start_worker(self, place: str) -> None:
        """Start a worker with the name `place`, unless one runs there."""
        if place in self.workers and not self.workers[place].is_over:
            return
        self._starts += 1
        process = SimulatedProcess(f"{place}.{self._starts}")
        worker = self.workers[place] = WorkerProcess(process, asyncio.Event())
        worker.running = self.loop.create_task(
            self._work(process.name, worker.stopping), context=context_of(process)
        )
        worker.running.add_done_callback(self._ended, context=context_of(process))

    async def _work(self, name: str, stopping: asyncio.Event) -> None:
        async with Sender(egress=EVERYWHERE) as sender:
            await Worker(self._seams(name, sender)).run(stopping)

    def _ended(self, running: "asyncio.Task[None]") -> None:
        if not running.cancelled() and running.exception() is not None:
            self.witness.complain(f"a worker ended: {running.exception()!r}")

    def _seams(self, name: str, sender: Sender) -> Seams:
        remote = Remote(name, self.database_service, StorageUnavailableError)
        database = SimulatedDatabase(self.plane, remote, self.history)
        database.applied = self.applied
        return Seams(
            worker_id=name,
            log=self.log.client(name),
            changes=database,
            status=database,
            suspensions=database,
            notes=database,
            circuits=SimulatedCircuits(self.plane, remote),
            undelivered=database,
            traces=SimulatedTraces(self.plane, remote),
            endpoints=sender,
            pings=PingDesk(name, Unpinged(), Unpinged()),
            sending=self._sending(name, remote),
            connections=sender.transport,
        )

    def _sending(self, name: str, remote: Remote) -> RetransmissionStore:
        # A worker asks for retransmissions every second. A plan without them does without this.
        return self.resends.of(name, remote) if self.plan.resends else self.sendings.of(name)

    def running(self) -> Iterator[tuple[str, WorkerProcess]]:
        """Yield the workers that have not ended, each with its place."""
        return ((place, each) for place, each in self.workers.items() if not each.is_over)

    def kill(self, place: str) -> None:
        """End a worker as `kill -9` does."""
        worker = self.workers[place]
        worker.process.dead = True
        # Close the worker's connections, as its machine would. Subscribers notice that.
        for connection in [*self.network.open]:
            if connection.process == worker.process.name:
                self.network.open.remove(connection)

    # ---- publishing -----------------------------------------------------------------------------

    def publisher(self, number: int) -> SimulatedProcess:
        """Return the process of a publisher. It is created when it is first needed."""
        if number not in self._publishers:
            process = SimulatedProcess(f"p{number}")
            publisher = Publisher(self.log.client(process.name))
            self._publishers[number] = process, publisher
            self.loop.create_task(self._serve(publisher), context=context_of(process))
        return self._publishers[number][0]

    async def _serve(self, publisher: Publisher) -> None:
        async with publisher:
            await asyncio.get_running_loop().create_future()

    def publish(self, message: MessagePlan) -> None:
        """Publish a message now."""
        process = self.publisher(message.publisher)
        self.loop.create_task(self._publish(message), context=context_of(process))

    async def _publish(self, message: MessagePlan) -> None:
        topic = self.plane.topics[message.topic]
        publication = Publication(
            id=message.name.encode(),
            body=body_of(message),
            content_type=b"application/json",
            partition_key=None if message.key is None else message.key.encode(),
        )
        self.history.add(
            Published(
                at=self.loop.time(), message=message.name, topic=message.topic, key=message.key
            )
        )
        record = record_of(publication, now_ms=int(self.loop.wall_s() * 1_000))
        _, publisher = self._publishers[message.publisher]
        try:
            await publisher.publish(topic, record)
        except AngeliaError as error:
            self.history.add(
                Unacknowledged(at=self.loop.time(), message=message.name, why=type(error).__name__)
            )
        else:
            self.history.add(Acknowledged(at=self.loop.time(), message=message.name))

    # ---- the end --------------------------------------------------------------------------------

    def unfinished(self) -> Iterator[str]:
        """Yield descriptions of everything that is not finished yet."""
        for subscription in self.plane.subscriptions.values():
            for partition in self.log.partitions_of(subscription.topic):
                if left := self._unfinished_in(subscription, partition):
                    yield f"{subscription.id} has {left} in {partition.topic}/{partition.index}"
        for partition in self.log.partitions_of(UNDELIVERED) + self.log.partitions_of(TRACES):
            if self.plane.stream.get(partition, 0) < self.log.stored[partition].high:
                yield f"the recorder is behind in {partition}"
        for retransmission in self.resends.unfinished():
            yield f"retransmission {int(retransmission, 16)} is not finished"

    def _unfinished_in(self, subscription: Subscription, partition: Partition) -> str:
        stored = self.log.stored[partition]
        committed = self.log.commits.get(subscription.group, {}).get(partition)
        found = (
            parse_progress(subscription.id, committed.offset, committed.metadata)
            if committed
            else None
        )
        # Use the highest commit: a late commit may have replaced it by an older one.
        place = subscription.id, partition
        best = 0 if subscription.seek else self.witness.furthest.get(place, 0)
        start = subscription.start.get(partition.index, 0)
        offset = found.offset if found else start
        if max(offset, best) < stored.high and (stored.high > stored.start):
            return f"committed {offset} of {stored.high}"
        if found and subscription.seek and (found.seek or 0) < subscription.seek.number:
            sought = subscription.seek.offset_in(partition.index)
            return "" if sought is None or sought >= stored.high else "not moved"
        reported = self.plane.statuses.get((subscription.id, partition))
        # The worker that committed may have been killed before its report. The next owner reports
        # when it has opened the partition, which it tries again some seconds after an outage.
        if _counted(reported) < _counted(found):
            return f"reported {_counted(reported)} messages of {_counted(found)}"
        return ""

    def complain(self, what: str) -> None:
        """Record an error that belongs to no process."""
        self.history.add(Complained(at=self.loop.time(), process="", what=what))


def _counted(of: Progress | CursorStatus | None) -> int:
    """Return how many messages were counted, whatever became of them."""
    return of.delivered + of.discarded + of.filtered if of else 0


FILTERS: Final = (Filter(type=FilterType.JSONPATH, path="$.keep", matcher="true"),)


def keeps(message: str) -> bool:
    """Whether the filters let a message with this name pass."""
    return int(original(message)[1:]) % 3 != 0


def body_of(message: MessagePlan) -> bytes:
    """Return the body of a message."""
    keep = "true" if keeps(message.name) else "false"
    return f'{{"id": "{message.name}", "keep": {keep}, "pad": "{"x" * message.size}"}}'.encode()


def policy_of(plan: SubscriptionPlan) -> DeliveryPolicy:
    """Return the delivery policy of a plan."""
    return DeliveryPolicy(
        rate=plan.rate,
        in_flight_max=plan.in_flight,
        message_ttl=timedelta(seconds=plan.ttl_s),
        request_timeout=timedelta(seconds=plan.timeout_s),
        message_backoff=timedelta(seconds=plan.backoff_s),
        max_retries=plan.max_retries,
        adaptive_rate=plan.adaptive,
        retry_buffer_max=plan.retry_buffer,
        on_exhausted=OnExhausted(plan.on_exhausted),
        heartbeat_max=timedelta(seconds=5),
    )


def breaker_of(plan: SubscriptionPlan) -> CircuitBreaker | None:
    """Return the circuit breaker of a plan; None without one."""
    if not plan.breaker:
        return None
    name = "together" if plan.breaker == "shared" else None
    return CircuitBreaker(errors_threshold=3, trip_timeout=4, circuit_name=name)


def log_topic(topic: Topic) -> LogTopic:
    """Return the topic in the form that the log needs."""
    return LogTopic(
        name=topic.name,
        partitions=topic.partitions,
        retention=topic.retention,
        message_size_max=topic.message_size_max,
    )


def resumed(subscription: Subscription) -> Subscription:
    """Return the subscription in the state ACTIVE."""
    return replace(subscription, state=State.ACTIVE)
