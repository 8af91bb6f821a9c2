"""Faults of real processes and networks, each under load: the simulation's checker judges.

The service is an API process, a worker, and a command that keeps two workers running. In each cell
one part is upset: a process, the database, one broker of three or all of them, a network, or the
service is changed. Sixty messages a second go to four subscriptions all the while. The checker of
`tests/simulation` then judges the history (`tests/benchmarks/real_history.py` says by which rules),
and a violation fails the run. How long nothing was taken, nothing was delivered, and when all was
there again, is printed, and written for docs/reliability.md:

    make bench ARGS="-k faults"                                # BENCH_CELLS='worker|broker': some
    .venv/bin/python -m tests.benchmarks.fault_page
"""

import asyncio
import itertools
import os
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote, urlsplit

import pytest

from app.config import Settings
from app.domain.message import Partition
from app.log.factory import LogLocation, log_at
from app.log.interface import Committed, MessageLog
from tests.benchmarks import pace
from tests.benchmarks.bench_kill_matrix import (
    Broker,
    OwnProcess,
    Postgres,
    Victim,
    killed,
    restarted,
    stopped,
)
from tests.benchmarks.fault_scene import Scene, Upset
from tests.benchmarks.figures import Report
from tests.benchmarks.real_history import reply_of, subscriptions
from tests.e2e.service import Service
from tests.e2e.test_store_failures import full_disk
from tests.fakes.faulty_network import (
    FAULTS,
    GOOD,
    FaultyNetwork,
    network_before,
    network_before_socket,
)
from tests.fakes.keys import KEY
from tests.fakes.subscriber import Subscriber
from tests.servers.kafka import KafkaBroker, running_broker, running_cluster
from tests.servers.ports import free_port
from tests.servers.postgres import PostgresServer
from tests.servers.warm import ROOT

# Fifty cells of up to half a minute, and what then is to be delivered.
pytestmark = pytest.mark.timeout(7_200)

# A pattern of the cells that are run.
CELLS: Final = os.environ.get("BENCH_CELLS", "")
BROKERS: Final = 3
DEAD_S: Final = 4.0
FULL_S: Final = 8.0
NETWORK_S: Final = 8.0
SCALED_S: Final = 4.0
# What is stored in this time is lost when PostgreSQL fails over, or old offsets are restored.
LOST_S: Final = 2.0
# Longer than workers keep the addresses of a host.
NAMELESS_S: Final = 40.0
BREAK_EVERY_S: Final = 1.0
SOCKET: Final = ".s.PGSQL.5432"


async def ended(victim: Victim) -> None:
    """Stopped in order, and away for as long as one that was killed."""
    await victim.end()
    await pace.until(time.monotonic() + DEAD_S)
    await victim.start()


UPSETS: Final[Mapping[str, Callable[[Victim], Awaitable[None]]]] = {
    "kill -9": killed,
    "stop 20 s": stopped,
    "TERM": ended,
    "restart": restarted,
}


class All(Victim):
    """Several at once."""

    def __init__(self, *victims: Victim) -> None:
        self._victims = victims

    async def kill(self) -> None:
        await asyncio.gather(*(each.kill() for each in self._victims))

    async def end(self) -> None:
        await asyncio.gather(*(each.end() for each in self._victims))

    async def start(self) -> None:
        await asyncio.gather(*(each.start() for each in self._victims))

    def signal(self, number: int) -> None:
        for each in self._victims:
            each.signal(number)  # type: ignore[arg-type]  # the same


class InTurn(All):
    """Several at once, which are started in turn: each when those before it run."""

    async def start(self) -> None:
        for each in self._victims:
            await each.start()


@pytest.mark.parametrize("log", ["kafka", "postgres"])
async def test_faults_of_processes(logs: Path, log: str) -> None:
    with PostgresServer() as database, brokers(log) as cluster:
        places = place_of(database.url, [each.bootstrap for each in cluster])
        async with Subscriber() as receiver, scene(places, logs, receiver) as of:
            own = await started(of.service)
            victims = {**own, "PostgreSQL": Postgres(database)}
            if cluster:
                victims["a broker"] = Broker(cluster[0])
                victims["all brokers"] = All(*map(Broker, cluster))
            servers = All(Postgres(database), *map(Broker, cluster))
            victims["everything"] = InTurn(servers, All(*own.values()))
            cells: dict[str, Upset] = {
                f"{name}: {how}": partial(upset, victim)
                for (name, victim), (how, upset) in itertools.product(
                    victims.items(), UPSETS.items()
                )
            }
            cells |= changes(of, database, victims)
            await report(f"faults-processes-{log}", f"Processes, log in {log}", of=of, cells=cells)


@pytest.mark.parametrize("log", ["kafka", "postgres"])
async def test_faults_of_networks(logs: Path, tmp_path: Path, log: str) -> None:
    port = free_port()
    with PostgresServer() as database, broker_behind(port, log) as broker:
        async with (
            Subscriber() as receiver,
            network_before(receiver.port) as (to_subscribers, entrance),
            postgres_behind(database, tmp_path) as (to_postgres, url),
            kafka_behind(broker, port) as to_kafka,
        ):
            places = place_of(url, [f"127.0.0.1:{port}"] if broker else [])
            endpoint = f"http://127.0.0.1:{entrance}/"
            async with scene(places, logs, receiver, endpoint=endpoint) as of:
                await started(of.service)
                networks = {"subscribers": to_subscribers, "PostgreSQL": to_postgres}
                if to_kafka is not None:
                    networks["Kafka"] = to_kafka
                cells: dict[str, Upset] = {
                    f"network to {place}: {fault}": partial(faulty, network, fault)
                    for (place, network), fault in itertools.product(networks.items(), FAULTS)
                }
                await report(
                    f"faults-networks-{log}", f"Networks, log in {log}", of=of, cells=cells
                )


@pytest.mark.parametrize("log", ["kafka", "postgres"])
async def test_faults_of_names(logs: Path, tmp_path: Path, log: str) -> None:
    gone = tmp_path / "names-are-gone"
    with PostgresServer() as database, brokers(log) as cluster:
        async with (
            Subscriber() as receiver,
            network_before(receiver.port) as (network, entrance),
        ):
            place = place_of(database.url, [each.bootstrap for each in cluster])
            places = {**place, **without_names(tmp_path, gone)}
            endpoint = f"http://{HOST}:{entrance}/"
            async with scene(places, logs, receiver, endpoint=endpoint) as of:
                await of.service.api()
                await of.service.workers(2)
                cells = {"names of subscribers gone for 40 s": partial(nameless, network, gone)}
                await report(f"faults-names-{log}", f"Names, log in {log}", of=of, cells=cells)


async def report(name: str, title: str, *, of: Scene, cells: Mapping[str, Upset]) -> None:
    """Each cell in turn, its figures printed and written; a violation fails the run at the end."""
    written = Report(name, f"{title}: what became of messages")
    await of.cell("nothing", warmed_up)
    of.violations.clear()
    try:
        for row, upset in cells.items():
            if not re.search(CELLS, row):
                continue
            found = await of.cell(row, upset)
            print(row, {key: round(value, 1) for key, value in found.items()}, flush=True)
            written.add(row, [found])
    finally:
        written.write()
    assert not of.violations, "\n".join(of.violations)


async def warmed_up() -> None:
    """Nothing: connections, leaders and shares of the workers come up meanwhile."""


async def faulty(network: FaultyNetwork, fault: str) -> None:
    network.faults = FAULTS[fault]
    try:
        await pace.until(time.monotonic() + NETWORK_S)
    finally:
        network.faults = GOOD


async def nameless(network: FaultyNetwork, gone: Path) -> None:
    """No name is found, and connections break, so that names are needed."""
    over = time.monotonic() + NAMELESS_S
    await asyncio.to_thread(gone.touch)
    try:
        while time.monotonic() < over:
            await network.end()
            await pace.until(time.monotonic() + BREAK_EVERY_S)
    finally:
        await asyncio.to_thread(gone.unlink)


HOST: Final = "localhost"
NO_NAMES: Final = f"""
import os, socket

found = socket.getaddrinfo

def getaddrinfo(host, *how, **more):
    if host == {HOST!r} and os.path.exists(os.environ["NAMES_ARE_GONE"]):
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
    return found(host, *how, **more)

socket.getaddrinfo = getaddrinfo
"""


def without_names(folder: Path, gone: Path) -> Mapping[str, str]:
    """The environment of processes that find no names while the file `gone` is there."""
    (folder / "sitecustomize.py").write_text(NO_NAMES)
    return {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "NAMES_ARE_GONE": str(gone)}


async def disk_filled(victim: Victim | None) -> None:
    """A broker cannot write any more, and gives up. It is started again when there is room."""
    assert isinstance(victim, Broker)
    victim.broker.fill_disk()
    await pace.until(time.monotonic() + FULL_S)
    await victim.kill()
    await victim.start()


def changes(
    of: Scene, database: PostgresServer, victims: Mapping[str, Victim]
) -> Mapping[str, Upset]:
    """What operators do, a disk that is full, a replica that was behind, and offsets set back."""
    service = of.service
    broker = victims.get("a broker")

    async def scaled() -> None:
        more = [await service.worker() for _ in range(3)]
        await pace.until(time.monotonic() + SCALED_S)
        for each in more:
            await each.stop()

    async def rolled() -> None:
        for name in ("API", "worker", "supervisor"):
            await restarted(victims[name])

    async def filled() -> None:
        with full_disk(database.url):
            await pace.until(time.monotonic() + FULL_S)

    async def failed_over() -> None:
        await asyncio.to_thread(database.copy)
        await pace.until(time.monotonic() + LOST_S)
        await asyncio.to_thread(database.fail_over)

    async def restored() -> None:
        workers = All(victims["worker"], victims["supervisor"])
        async with of.open_log() as log:
            old = await committed(log, of.topic)
            await pace.until(time.monotonic() + LOST_S)
            await workers.end()
            assert not await log.commit(old)
        await workers.start()

    async def deleted() -> None:
        await service.topic("bench.away", partitions=PARTITIONS_AWAY)
        await service.publish("bench.away", b"{}")
        gone = await service.http.delete("/topics/bench.away")
        gone.raise_for_status()

    async def grown() -> None:
        grown = await of.service.http.put(f"/topics/{of.topic}", json={"partitions": 6})
        grown.raise_for_status()

    # With its log in PostgreSQL, a service loses the messages that the replica lacks.
    only_on_kafka: Mapping[str, Upset] = {
        "PostgreSQL fails over to a replica 2 s behind": failed_over,
        "a broker's disk full for 8 s": partial(disk_filled, broker),
    }
    return {
        "scaled from 3 workers to 6 and back": scaled,
        "rolling restart": rolled,
        "PostgreSQL's disk full for 8 s": filled,
        "another topic deleted": deleted,
        "partitions added": grown,
        "offsets 2 s old restored by another tool": restored,
        **({} if broker is None else only_on_kafka),
    }


PARTITIONS_AWAY: Final = 2


async def committed(log: MessageLog, topic: str) -> Mapping[str, Mapping[Partition, Committed]]:
    """What all subscriptions of the topic have committed."""
    partitions = await log.partitions(topic)
    return await log.committed({f"{topic}_{each.name}": partitions for each in subscriptions("")})


# ---- what it runs on ----------------------------------------------------------------------------


def place_of(url: str, bootstrap: list[str]) -> Mapping[str, str]:
    """The settings of the service."""
    kafka = {
        "ANGELIA_KAFKA_BOOTSTRAP": ",".join(bootstrap),
        "ANGELIA_REPLICATION_FACTOR": str(len(bootstrap)),
    }
    return {
        "ANGELIA_DATABASE_URL": url,
        "ANGELIA_AUTH": "off",
        "ANGELIA_SECRET_KEY": KEY,
        **(kafka if bootstrap else {}),
    }


@asynccontextmanager
async def scene(
    places: Mapping[str, str], logs: Path, receiver: Subscriber, *, endpoint: str = ""
) -> AsyncIterator[Scene]:
    bootstrap = places.get("ANGELIA_KAFKA_BOOTSTRAP")
    namespace: str = Settings.model_fields["namespace"].default
    place = LogLocation(kafka_bootstrap=bootstrap, namespace=namespace)
    receiver.reply = reply_of
    async with Service(places, logs) as service:
        yield Scene(
            service,
            receiver,
            endpoint or receiver.url,
            partial(log_at, places["ANGELIA_DATABASE_URL"], place),
        )


async def started(service: Service) -> dict[str, Victim]:
    """An API process, a worker, and two workers that a supervisor keeps running."""
    own: dict[str, Callable[[], Awaitable[object]]] = {
        "API": service.api,
        "worker": service.worker,
        "supervisor": partial(service.workers, 2),
    }
    return {name: OwnProcess(begin, await begin()) for name, begin in own.items()}  # type: ignore[arg-type]  # each begins a Process


@contextmanager
def brokers(log: str) -> Iterator[list[KafkaBroker]]:
    if log == "postgres":
        yield []
        return
    with running_cluster(BROKERS) as cluster:
        yield cluster


@contextmanager
def broker_behind(port: int, log: str) -> Iterator[KafkaBroker | None]:
    if log == "postgres":
        yield None
        return
    with running_broker(behind=port) as broker:
        yield broker


@asynccontextmanager
async def kafka_behind(
    broker: KafkaBroker | None, port: int
) -> AsyncIterator[FaultyNetwork | None]:
    if broker is None:
        yield None
        return
    async with network_before(broker.port, at=port) as (network, _):
        yield network


@asynccontextmanager
async def postgres_behind(
    database: PostgresServer, folder: Path
) -> AsyncIterator[tuple[FaultyNetwork, str]]:
    """The network before a PostgreSQL on a socket, and its URL from there."""
    parts = urlsplit(database.url)
    there = Path(unquote(parts.query.removeprefix("host=")))
    async with network_before_socket(there / SOCKET, at=folder / SOCKET) as network:
        yield network, parts._replace(query=f"host={quote(str(folder), safe='')}").geturl()
