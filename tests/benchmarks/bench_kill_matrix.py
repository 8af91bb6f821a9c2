"""Nothing that was acknowledged is lost: each process killed, stopped and restarted under load.

Three brokers, three replicas, `ack` left out; 300 messages a second all the while. Every message
that was answered with 201 must be delivered or be listed as undelivered: a cell in which one is
neither fails the run.
"""

import asyncio
import itertools
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Protocol

import httpx
import pytest

from tests.benchmarks import pace
from tests.benchmarks.figures import Report
from tests.e2e.service import Process, Service
from tests.fakes.egress import LOOPBACK
from tests.fakes.keys import KEY
from tests.fakes.subscriber import Subscriber
from tests.servers.kafka import KafkaBroker, running_cluster
from tests.servers.postgres import PostgresServer
from workers.transport.transport import DeliveryTransport

# Twenty-one cells of up to half a minute, and what then is to be delivered.
pytestmark = pytest.mark.timeout(3_600)

TOPIC: Final = "bench.matrix"
RATE: Final = 300
BROKERS: Final = 3
# Under load before something happens, dead before it is started again, and under load after that.
BEFORE_S: Final = 3.0
DEAD_S: Final = 4.0
STOPPED_S: Final = 20.0
AFTER_S: Final = 4.0
PATIENCE_S: Final = 120.0
# So long the others stand still before a broker that is ahead of them is killed. They are in sync
# for Kafka, and may lead.
BEHIND_S: Final = 1.0
# Where some are expected to be lost: nothing comes after so long.
LOST_AFTER_S: Final = 30.0
ANSWER_WITHIN_S: Final = 10.0


class Victim(Protocol):
    """A process of the service, or of what it stands on."""

    async def kill(self) -> None:
        """End it as kill -9 does."""

    async def end(self) -> None:
        """End it as an operator does."""

    async def start(self) -> None:
        """Start it again, where it was."""

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""


@dataclass(slots=True)
class OwnProcess:
    """An API process or a worker."""

    begin: Callable[[], Awaitable[Process]]
    process: Process

    async def kill(self) -> None:
        await self.process.kill()

    async def end(self) -> None:
        await self.process.stop()

    async def start(self) -> None:
        self.process = await self.begin()

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker, which is a controller too; `behind` are others that are late when it is killed."""

    broker: KafkaBroker
    behind: Sequence[KafkaBroker] = ()

    async def kill(self) -> None:
        for other in self.behind:
            os.kill(other.pid, signal.SIGSTOP)
        if self.behind:
            await pace.until(time.monotonic() + BEHIND_S)
        await asyncio.to_thread(self.broker.kill)
        for other in self.behind:
            os.kill(other.pid, signal.SIGCONT)

    async def end(self) -> None:
        await asyncio.to_thread(self.broker.stop)

    async def start(self) -> None:
        await asyncio.to_thread(self.broker.restart)

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.broker.pid, number)


@dataclass(frozen=True, slots=True)
class Postgres:
    """The server of the database, with all of its processes."""

    server: PostgresServer

    async def kill(self) -> None:
        await asyncio.to_thread(self.server.kill)

    async def end(self) -> None:
        await asyncio.to_thread(self.server.stop)

    async def start(self) -> None:
        await asyncio.to_thread(self.server.start)

    def signal(self, number: signal.Signals) -> None:
        (self.server.freeze if number is signal.SIGSTOP else self.server.thaw)()


async def killed(victim: Victim) -> None:
    await victim.kill()
    await pace.until(time.monotonic() + DEAD_S)
    await victim.start()


async def stopped(victim: Victim) -> None:
    victim.signal(signal.SIGSTOP)
    await pace.until(time.monotonic() + STOPPED_S)
    victim.signal(signal.SIGCONT)


async def restarted(victim: Victim) -> None:
    await victim.end()
    await victim.start()


UPSETS: Final[Mapping[str, Callable[[Victim], Awaitable[None]]]] = {
    "kill -9": killed,
    "stop 20 s": stopped,
    "restart": restarted,
}


@dataclass(slots=True)
class Published:
    """What was sent, and the ids of what was acknowledged."""

    sent: int = 0
    acknowledged: set[str] = field(default_factory=set)


async def test_kill_matrix(logs: Path) -> None:
    report = Report("kill-matrix", "Three brokers, 300/s, ack left out: what became of messages")
    lost = await _matrix(logs, report, patience_s=PATIENCE_S)
    assert not {row: count for row, count in lost.items() if count}


@pytest.mark.parametrize("ack", ["ALL", "LEADER"])
async def test_kill_matrix_of_brokers_that_are_ahead(logs: Path, ack: str) -> None:
    """With LEADER a control: what only the leader has is lost with it, and the matrix sees that."""
    name = f"kill-matrix-ahead-{ack.lower()}"
    report = Report(name, f"ack: {ack}, brokers killed when the others are a second behind")
    lost = await _matrix(
        logs,
        report,
        wanted=lambda row: row.startswith("broker") and row.endswith("kill -9"),
        behind=True,
        patience_s=LOST_AFTER_S,
        ack=ack,
    )
    assert bool(sum(lost.values())) == (ack == "LEADER")


async def _matrix(
    logs: Path,
    report: Report,
    *,
    wanted: Callable[[str], bool] = lambda _: True,
    behind: bool = False,
    patience_s: float,
    **topic: str,
) -> Mapping[str, float]:
    """The cells that are `wanted`, each in turn; how many messages were lost in which."""
    lost: dict[str, float] = {}
    with PostgresServer() as database, running_cluster(BROKERS) as brokers:
        async with Service(_configuration(database, brokers), logs) as service:
            victims = await _victims(service, database, brokers, behind=behind)
            async with Subscriber() as receiver:
                await service.topic(TOPIC, **topic)
                path = await service.subscribe(TOPIC, "s", receiver.url)
                await _warmed_up(service, receiver)
                for (name, victim), upset in itertools.product(victims.items(), UPSETS):
                    row = f"{name}, {upset}"
                    if not wanted(row):
                        continue
                    cell = Cell(service, path, receiver, patience_s)
                    found = await cell.found(partial(UPSETS[upset], victim))
                    print(row, dict(found), flush=True)
                    report.add(row, [found])
                    lost[row] = found["lost"]
    report.write()
    return lost


def _configuration(database: PostgresServer, brokers: Sequence[KafkaBroker]) -> Mapping[str, str]:
    return {
        "ANGELIA_DATABASE_URL": database.url,
        "ANGELIA_KAFKA_BOOTSTRAP": ",".join(each.bootstrap for each in brokers),
        "ANGELIA_REPLICATION_FACTOR": str(BROKERS),
        "ANGELIA_AUTH": "off",
        "ANGELIA_SECRET_KEY": KEY,
    }


async def _victims(
    service: Service, database: PostgresServer, brokers: Sequence[KafkaBroker], *, behind: bool
) -> Mapping[str, Victim]:
    own = {"API": service.api, "worker 1": service.worker, "worker 2": service.worker}
    victims: dict[str, Victim] = {
        name: OwnProcess(begin, await begin()) for name, begin in own.items()
    }
    for each in brokers:
        others = [other for other in brokers if other is not each] if behind else []
        victims[f"broker {each.node_id}"] = Broker(each, others)
    return {**victims, "PostgreSQL": Postgres(database)}


async def _warmed_up(service: Service, receiver: Subscriber) -> None:
    """Publish until all that it takes is there: connections, leaders, shares of the workers."""
    async with _publishing(service) as published:
        await receiver.wait_for(RATE, PATIENCE_S)
    await receiver.wait_for(len(published.acknowledged), PATIENCE_S)


@dataclass(frozen=True, slots=True)
class Cell:
    """A subscription with its receiver, and how long what is not there yet is waited for."""

    service: Service
    path: str
    receiver: Subscriber
    patience_s: float

    async def found(self, upset: Callable[[], Awaitable[None]]) -> dict[str, float]:
        """What became of what was published while that happened."""
        self.receiver.received.clear()
        async with _publishing(self.service) as published:
            await pace.until(time.monotonic() + BEFORE_S)
            await upset()
            await pace.until(time.monotonic() + AFTER_S)
        listed = await self._settled(published.acknowledged)
        received = Counter(self.receiver.message_ids)
        return {
            "sent": published.sent,
            "acknowledged": len(published.acknowledged),
            "delivered": len(published.acknowledged & received.keys()),
            "listed": len(listed),
            "lost": len(published.acknowledged - received.keys() - listed),
            "duplicates": received.total() - len(received),
        }

    async def _settled(self, acknowledged: set[str]) -> set[str]:
        """Wait until all are delivered or listed, or for long enough; those that are listed."""
        listed: set[str] = set()

        async def settled() -> bool:
            if acknowledged <= set(self.receiver.message_ids) | listed:
                return True
            try:
                found = await self.service.undelivered(self.path, 0)
            except httpx.HTTPError:
                return False
            listed.update(each["messageId"] for each in found)
            return False

        deadline = time.monotonic() + self.patience_s
        while not await settled() and time.monotonic() < deadline:
            await pace.until(time.monotonic() + 0.5)
        return listed & acknowledged


@asynccontextmanager
async def _publishing(service: Service) -> AsyncIterator[Published]:
    """Publish at RATE inside the block, whatever the answers; each is answered when it ends."""
    published = Published()
    async with (
        httpx.AsyncClient(
            base_url=service.url,
            transport=DeliveryTransport(egress=LOOPBACK),
            timeout=ANSWER_WITHIN_S,
        ) as http,
        asyncio.TaskGroup() as tasks,
    ):

        async def endlessly() -> None:
            start = time.monotonic()
            for number in itertools.count():
                await pace.until(start + number / RATE)
                published.sent += 1
                tasks.create_task(_publish(http, published))

        endless = tasks.create_task(endlessly())
        try:
            yield published
        finally:
            endless.cancel()


async def _publish(http: httpx.AsyncClient, published: Published) -> None:
    try:
        answer = await http.post(f"/topics/{TOPIC}", content=b'{"filler":"%s"}' % (b"x" * 200))
    except httpx.HTTPError:
        return  # not acknowledged: it may be stored or not
    if answer.status_code == httpx.codes.CREATED:
        published.acknowledged.add(answer.headers["Hermes-Message-Id"])
