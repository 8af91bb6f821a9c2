"""A real Kafka broker for tests: Apache Kafka in KRaft mode, one node, on this machine.

`python -m tests.servers.kafka install [VERSION…]` fetches the broker's jars once (with Maven and
Java 17 or newer) to `build/`. If a part is missing, tests fail, and name the command to run.
"""

import contextlib
import fcntl
import os
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import pytest

from tests.servers import java
from tests.servers.jars import MissingError, fetch_jars, require_commands
from tests.servers.kafka_listeners import PROTOCOLS, SecuredListeners
from tests.servers.kafka_prepared import Prepared
from tests.servers.ports import free_port
from tests.servers.runs import run_folder
from tests.servers.token_endpoint import TokenEndpoint

VERSION: Final = "4.3.0"
_ROOT: Final = Path(__file__).resolve().parents[2]
INSTALL_JARS: Final = "python -m tests.servers.kafka install"

# A machine with ten times as many programs as cores takes more than a minute.
_START_TIMEOUT_S: Final = 180.0
_SECURED: Final = "secured"
_BY_RACK: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
_POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>angelia.tests</groupId>
  <artifactId>kafka-broker</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>%s</version>
    </dependency>
  </dependencies>
</project>
"""


def install(version: str = VERSION) -> Path:
    """Make sure that Java and the broker's jars are installed, and return the folder of the jars.

    Several processes may call this at the same time: the first fetches the jars, the others wait.
    MissingError says that Java or Maven is missing, and has the line to run.
    """
    cache = _ROOT / "build" / f"kafka-{version}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (cache / "complete").exists():
            require_commands("java", "javac")
        else:
            require_commands("java", "javac", "mvn")
            line = f"{INSTALL_JARS} {version}"
            fetch_jars(cache, _POM % version, what=f"Kafka {version}", install=line)
    return cache / "libs"


def prepare(libs: Path) -> None:
    """Make what all brokers of these jars share, by the start of one of them."""
    prepared = Prepared(libs)
    if prepared.exists:
        return
    with tempfile.TemporaryDirectory(prefix="angelia-kafka-", ignore_cleanup_errors=True) as home:
        broker = KafkaBroker(libs, Path(home), java_options=prepared.writing)
        broker.format()
        broker.start()
        broker.stop()
        prepared.keep(broker.data)


class Cluster:
    """The id of a cluster, and the ports of its controllers, which are its first brokers."""

    def __init__(self, controllers: int = 1) -> None:
        self.id = _new_id()
        self.controller_ports = [free_port() for _ in range(controllers)]

    @property
    def voters(self) -> str:
        """The controllers, in the form of the broker setting `controller.quorum.voters`."""
        places = enumerate(self.controller_ports, 1)
        return ",".join(f"{number}@127.0.0.1:{port}" for number, port in places)


class KafkaBroker:
    """One broker. Its data folder and its port stay the same after a restart.

    The broker is also the controller of a new cluster, unless it joins the cluster of `joins`. If
    `behind` is set, it tells its clients to connect to that port, where a proxy listens.
    """

    def __init__(
        self,
        libs: Path,
        home: Path,
        *,
        joins: "KafkaBroker | None" = None,
        cluster: Cluster | None = None,
        secured: SecuredListeners | None = None,
        behind: int | None = None,
        java_options: Sequence[str] | None = None,
    ) -> None:
        self._libs = libs
        self._prepared = Prepared(libs)
        self._java_options = self._prepared.reading if java_options is None else java_options
        self._secured = secured
        self._home = home
        self._properties = home / "server.properties"
        self._process: subprocess.Popen[bytes] | None = None
        self.node_id: int = 1 if joins is None else joins.node_id + 1
        self.port = free_port()
        self._behind = behind
        self.cluster: Cluster = (cluster or Cluster()) if joins is None else joins.cluster
        self._controls = self.node_id <= len(self.cluster.controller_ports)

    @property
    def bootstrap(self) -> str:
        """The address for clients, `host:port`."""
        return f"127.0.0.1:{self.port}"

    @property
    def data(self) -> Path:
        """The folder of the records."""
        return self._home / "data"

    @property
    def rack(self) -> str:
        """The name of the broker's rack. A consumer with this rack is sent to this broker."""
        return f"rack-{self.node_id}"

    @property
    def pid(self) -> int:
        """The process id of the running broker."""
        if self._process is None:
            message = "the broker is not running"
            raise RuntimeError(message)
        return self._process.pid

    @property
    def pids(self) -> tuple[int, ...]:
        """The ids of all processes of the broker, its main process first."""
        return (self.pid,)

    def format(self) -> None:
        """Write the settings, and make an empty data folder."""
        self._properties.write_text(self._configuration())
        if self._prepared.exists and self._secured is None:
            self._prepared.format(
                self.data, cluster=self.cluster.id, node=self.node_id, directory=_new_id()
            )
        else:
            self._format_by_kafka()

    def _format_by_kafka(self) -> None:
        # Write option and id as one word, because an id may begin with a hyphen.
        command = ["kafka.tools.StorageTool", "format", f"--cluster-id={self.cluster.id}"]
        if self._secured is not None:
            command += self._secured.users()
        done = subprocess.run(
            self._java(*command, "-c", str(self._properties)),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)

    def start(self) -> None:
        """Start the broker, and return when it answers requests."""
        self.launch()
        self.wait_until_it_answers()

    def launch(self) -> None:
        """Start the process. One of several controllers answers only when most of them run."""
        with (self._home / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._java("kafka.Kafka", str(self._properties)),
                stdout=log,
                stderr=log,
                # Start a separate session, so that a Ctrl-C reaches the tests first.
                start_new_session=True,
            )

    def stop(self) -> None:
        """Stop the broker in order. If the broker does not run, do nothing."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the broker as a crash would (SIGKILL)."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Start the broker again after `kill` or `stop`, with its data. If it runs, do nothing."""
        if self._process is None:
            self.start()

    def pause(self) -> None:
        """Freeze the broker: connections stay open, and nothing is answered."""
        os.kill(self.pid, signal.SIGSTOP)
        # Wait until the process has stopped. Until then it would still answer requests.
        os.waitpid(self.pid, os.WUNTRACED)

    def fill_disk(self) -> None:
        """Let each further write of the broker fail, as on a full disk, until it starts anew."""
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (1, 1))

    def resume(self) -> None:
        """Let the broker continue after `pause`."""
        os.kill(self.pid, signal.SIGCONT)

    def limit(self, client: str, quota: str) -> None:
        """Set a quota for a client id, for example `producer_byte_rate=1000`."""
        where = ["--bootstrap-server", self.bootstrap, "--alter", "--add-config", quota]
        command = ["kafka.admin.ConfigCommand", *where]
        command += ["--entity-type", "clients", "--entity-name", client]
        subprocess.run(self._java(*command), check=True, capture_output=True)

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _java(self, *arguments: str) -> list[str]:
        options = ["-Xmx512m", *java.OPTIONS, *self._java_options]
        # A killed broker would leave its native libraries in another folder.
        options += [f"-Djava.io.tmpdir={self._home}", "-XX:-UsePerfData"]
        if self._secured is not None:
            options += self._secured.java_options()
        return ["java", *options, "-cp", f"{self._libs}/*", *arguments]

    def _configuration(self) -> str:
        secured = self._secured.ports if self._secured is not None else {}
        listeners = [f"PLAINTEXT://{self.bootstrap}"]
        advertised = [f"PLAINTEXT://127.0.0.1:{self._behind or self.port}"]
        listeners += [f"{name}://127.0.0.1:{port}" for name, port in secured.items()]
        advertised += [f"{name}://127.0.0.1:{port}" for name, port in secured.items()]
        protocols = ["PLAINTEXT:PLAINTEXT", "CONTROLLER:PLAINTEXT"]
        protocols += [f"{name}:{PROTOCOLS[name]}" for name in secured]
        if self._controls:
            port = self.cluster.controller_ports[self.node_id - 1]
            listeners.append(f"CONTROLLER://127.0.0.1:{port}")
        settings = {
            "process.roles": "broker,controller" if self._controls else "broker",
            "node.id": str(self.node_id),
            "controller.quorum.voters": self.cluster.voters,
            "listeners": ",".join(listeners),
            "advertised.listeners": ",".join(advertised),
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": ",".join(protocols),
            "broker.rack": self.rack,
            "replica.selector.class": _BY_RACK,
            "log.dirs": str(self.data),
            # Kafka's default: even a question about a missing topic creates it. So tests notice
            # such questions.
            "auto.create.topics.enable": "true",
            # A killed broker can join again only when its old session has ended.
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "500",
            "controlled.shutdown.enable": "false",
            "group.initial.rebalance.delay.ms": "0",
            "log.cleaner.dedupe.buffer.size": "2097152",
            "offsets.topic.num.partitions": "4",
            "offsets.topic.replication.factor": str(len(self.cluster.controller_ports)),
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "2",
            "transaction.state.log.replication.factor": "1",
        } | dict(self._secured.settings() if self._secured is not None else ())
        return "".join(f"{name}={value}\n" for name, value in settings.items())

    def wait_until_it_answers(self) -> None:
        """Return when the broker answers requests."""
        deadline = time.monotonic() + _START_TIMEOUT_S
        while time.monotonic() < deadline and self._process and self._process.poll() is None:
            if _answers(self.port):
                return
            # Poll, because the process has no other way to tell that it is ready.
            time.sleep(0.05)
        log = (self._home / "broker.log").read_text(errors="replace")[-4000:]
        self.kill()
        message = f"Kafka did not start:\n{log}"
        raise RuntimeError(message)


def _new_id() -> str:
    """Return an id as Kafka makes them: 16 bytes in Base64."""
    return urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()


def _answers(port: int) -> bool:
    """Return whether a broker at this port answers an ApiVersions request (version 0, no body)."""
    request = struct.pack(">hhih", 18, 0, 1, -1)
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as peer:
        peer.sendall(struct.pack(">i", len(request)) + request)
        return len(peer.recv(8)) > 0
    return False


@contextlib.contextmanager
def running_broker(
    *, joins: KafkaBroker | None = None, behind: int | None = None
) -> Iterator[KafkaBroker]:
    """Run a broker inside the block, with a data folder that is deleted afterwards."""
    libs = install()
    with tempfile.TemporaryDirectory(prefix="angelia-kafka-", ignore_cleanup_errors=True) as home:
        broker = KafkaBroker(libs, Path(home), joins=joins, behind=behind)
        broker.format()
        try:
            broker.start()
            yield broker
        finally:
            broker.stop()


@contextlib.contextmanager
def running_cluster(size: int) -> Iterator[list[KafkaBroker]]:
    """Run brokers that are all controllers. The cluster works as long as most of them run."""
    libs, brokers = install(), list[KafkaBroker]()
    with contextlib.ExitStack() as stack:
        for _ in range(size):
            home = tempfile.TemporaryDirectory(prefix="angelia-kafka-", ignore_cleanup_errors=True)
            joins = brokers[-1] if brokers else None
            path = Path(stack.enter_context(home))
            brokers.append(KafkaBroker(libs, path, joins=joins, cluster=Cluster(size)))
            brokers[-1].format()
        for broker in brokers:
            stack.callback(broker.kill)
            broker.launch()
        for broker in brokers:
            broker.wait_until_it_answers()
        yield brokers


@dataclass(frozen=True, slots=True)
class SharedBroker:
    """The broker that all processes of a test run share. No test stops it."""

    port: int
    pid: int
    home: Path

    @property
    def secured(self) -> SecuredListeners:
        """The listeners with TLS and SASL, which only the broker of the newest version has."""
        return SecuredListeners(self.home / "broker" / _SECURED)

    @property
    def bootstrap(self) -> str:
        """The address for clients, `host:port`."""
        return f"127.0.0.1:{self.port}"


@contextlib.contextmanager
def shared_broker(
    home: Path, *, by: str = "tests.servers.kafka", version: str = VERSION
) -> Iterator[SharedBroker]:
    """Yield the broker in the folder `home`: the first process starts it, the last one ends it.

    The module `by`, run as a program, starts the broker by `start_shared`. Each process that uses
    the broker holds a shared lock on a file in `home`, which is released however the process ends.
    """
    home.mkdir(exist_ok=True)
    with (home / "users").open("a+") as users, (home / "turn").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if _is_alone(users):
            _remove_left(home)
            # A separate process starts the broker: this one may end before others that use the
            # broker.
            starting = [sys.executable, "-m", by, "start", str(home), version]
            subprocess.run(starting, check=True, cwd=_ROOT)
        fcntl.flock(users, fcntl.LOCK_SH)
        port, pid, *_ = map(int, (home / "place").read_text().split())
        fcntl.flock(turn, fcntl.LOCK_UN)
        try:
            yield SharedBroker(port, pid, home)
        finally:
            fcntl.flock(turn, fcntl.LOCK_EX)
            if _is_alone(users):
                _remove_left(home)


def _remove_left(home: Path) -> None:
    """Kill the broker in `home`, and remove what it or a failed start has left there."""
    place = home / "place"
    if place.exists():
        for pid in place.read_text().split()[1:]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        place.unlink()
    shutil.rmtree(home / "broker", ignore_errors=True)


def _is_alone(users: IO[str]) -> bool:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def start_shared(home: Path, broker: KafkaBroker) -> None:
    """Start a broker that outlives this process, and write its port and process ids to a file."""
    broker.format()
    broker.start()
    (home / "place").write_text(" ".join(map(str, (broker.port, *broker.pids))))


def _start_newest(home: Path) -> None:
    place = home / "broker"
    place.mkdir()
    secured = SecuredListeners.made(place / _SECURED)
    start_shared(home, KafkaBroker(install(), place, secured=secured))


@pytest.fixture(scope="session")
def kafka_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedBroker]:
    """The broker of this test run. Tests that stop or freeze a broker use `own_kafka_broker`."""
    with shared_broker(run_folder(tmp_path_factory) / "kafka") as broker:
        yield broker


@pytest.fixture
def tokens(kafka_broker: SharedBroker) -> Iterator[TokenEndpoint]:
    """Yield an endpoint that issues tokens for the broker's listener `oauth`."""
    with kafka_broker.secured.tokens() as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def own_kafka_broker() -> Iterator[KafkaBroker]:
    """A broker of the test module. A test that stops or freezes the broker starts it again."""
    with running_broker() as broker:
        yield broker


@pytest.fixture
def kafka_namespace() -> str:
    """Return a prefix for the names of topics and groups, another one for each test."""
    return f"t{uuid.uuid4().hex[:10]}."


if __name__ == "__main__":
    try:
        match sys.argv[1:]:
            case ["install"]:
                prepare(libs := install())
                print(libs)  # noqa: T201 - this is a command
            case ["install", *versions]:
                for each in versions:
                    print(install(each))  # noqa: T201 - this is a command
            case ["start", folder, _]:
                _start_newest(Path(folder))
            case _:
                sys.exit(f"usage: {INSTALL_JARS}")
    except MissingError as error:
        sys.exit(str(error))
