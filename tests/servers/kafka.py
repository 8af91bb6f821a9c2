"""A real Kafka broker for tests: Apache Kafka in KRaft mode, one node, on this machine.

`python -m tests.servers.kafka install [VERSION…]` gets the broker's jars once (Maven, Java 17 or
newer) and keeps them under `build/`; the fixture `kafka_broker` is a broker for the whole test run.
Nothing here is skipped when a part is missing: it fails with the line that installs it.
"""

import contextlib
import fcntl
import os
import re
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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import pytest

from tests.servers.kafka_listeners import PROTOCOLS, SecuredListeners
from tests.servers.ports import free_port
from tests.servers.runs import run_folder
from tests.servers.token_endpoint import TokenEndpoint

VERSION: Final = "4.3.0"
JAVA_MIN: Final = 17
_ROOT: Final = Path(__file__).resolve().parents[2]
INSTALL_PACKAGES: Final = "apt-get update && apt-get install -y openjdk-17-jdk-headless maven"
INSTALL_JARS: Final = "python -m tests.servers.kafka install"

_START_TIMEOUT_S: Final = 60.0
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


class MissingError(RuntimeError):
    """Something the broker needs is not on this machine; the message has the line to run."""


def install(version: str = VERSION) -> Path:
    """Make sure that Java and the broker's jars are there, and return the folder of the jars.

    Safe to call from several processes at once: the first fetches, the others wait for it.
    Raises MissingError with the line to run when Java or Maven is missing and cannot be installed.
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


def require_commands(*commands: str) -> None:
    """Return when they can be run, installed or not before; MissingError."""
    if all(_usable(command) for command in commands):
        return
    if os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["/bin/sh", "-c", INSTALL_PACKAGES], check=False)
    for command in commands:
        if not _usable(command):
            message = f"Kafka for tests needs {command} (Java ≥ {JAVA_MIN}): {INSTALL_PACKAGES}"
            raise MissingError(message)


def _usable(command: str) -> bool:
    if shutil.which(command) is None:
        return False
    return command != "java" or _java_version() >= JAVA_MIN


def _java_version() -> int:
    answer = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)  # noqa: S607 - java from PATH
    found = re.search(r'version "(\d+)', answer.stderr)
    return int(found.group(1)) if found else 0


def fetch_jars(
    cache: Path,
    pom_text: str,
    *,
    what: str,
    install: str,
    unpack: Callable[[Path], None] = lambda _: None,
) -> None:
    """Have Maven put what the POM depends on into `libs` of that folder; MissingError.

    Then `unpack` does with that folder what else there is to do.

    The file `complete` is written last, so a broken fetch is repeated. `install` is the line to
    run, should it fail.
    """
    pom = cache / "pom.xml"
    pom.write_text(pom_text)
    command = ["mvn", "--batch-mode", "--quiet", "-f", str(pom), "dependency:copy-dependencies"]
    fetched = subprocess.run(
        [*command, f"-DoutputDirectory={cache / 'libs'}", "-DincludeScope=runtime"],
        capture_output=True,
        text=True,
        check=False,
    )
    if fetched.returncode:
        raise MissingError(f"Maven could not fetch {what}; run: {install}\n{fetched.stdout}")
    unpack(cache)
    (cache / "complete").touch()


class Cluster:
    """What its brokers have in common: an id, and where the controllers are: its first brokers."""

    def __init__(self, controllers: int = 1) -> None:
        self.id = urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        self.controller_ports = [free_port() for _ in range(controllers)]

    @property
    def voters(self) -> str:
        """The controllers, as brokers have them in their settings."""
        places = enumerate(self.controller_ports, 1)
        return ",".join(f"{number}@127.0.0.1:{port}" for number, port in places)


class KafkaBroker:
    """One broker with a data directory and a port of its own; both stay through a restart.

    It is its cluster's controller too, unless it `joins` another one that is the only one. One that
    is `behind` another port tells its clients to come there.
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
    ) -> None:
        self._libs = libs
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
        """Address for clients, `host:port`."""
        return f"127.0.0.1:{self.port}"

    @property
    def rack(self) -> str:
        """One of its own: who reads from there is sent to it."""
        return f"rack-{self.node_id}"

    @property
    def pid(self) -> int:
        """Process id of the running broker."""
        if self._process is None:
            message = "the broker is not running"
            raise RuntimeError(message)
        return self._process.pid

    @property
    def pids(self) -> tuple[int, ...]:
        """Of all its processes, the broker first."""
        return (self.pid,)

    def format(self) -> None:
        """Write the configuration and the empty data directory."""
        self._properties.write_text(self._configuration())
        # As one word: an id may begin with a hyphen.
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
        """Start it and return when it answers requests."""
        self.launch()
        self.wait_until_it_answers()

    def launch(self) -> None:
        """Start it: one of several controllers answers when most of them are there."""
        with (self._home / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._java("kafka.Kafka", str(self._properties)),
                stdout=log,
                stderr=log,
                # A Ctrl-C of the test run must reach the tests first.
                start_new_session=True,
            )

    def stop(self) -> None:
        """Stop it in order; nothing happens when it is not running."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a crash would (SIGKILL)."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Start it again where it was, after `kill` or `stop`; keep it when it is running."""
        if self._process is None:
            self.start()

    def pause(self) -> None:
        """Freeze it: connections stay open and nothing is answered."""
        os.kill(self.pid, signal.SIGSTOP)
        # It may go on for a moment: what is sent then would still be answered.
        os.waitpid(self.pid, os.WUNTRACED)

    def resume(self) -> None:
        """Go on after `pause`."""
        os.kill(self.pid, signal.SIGCONT)

    def limit(self, client: str, quota: str) -> None:
        """Set a quota of a client id: `producer_byte_rate=1000`."""
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
        options = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        # Killed as it is, it would leave its native libraries behind, elsewhere.
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
            "log.dirs": str(self._home / "data"),
            # Kafka's default: whoever makes a topic by only looking at it is found out.
            "auto.create.topics.enable": "true",
            # A broker that was killed comes back when the session it had is over.
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
        """Return when it answers requests."""
        deadline = time.monotonic() + _START_TIMEOUT_S
        while time.monotonic() < deadline and self._process and self._process.poll() is None:
            if _answers(self.port):
                return
            # Polling a process that has no other way to say that it is ready.
            time.sleep(0.05)
        log = (self._home / "broker.log").read_text(errors="replace")[-4000:]
        self.kill()
        message = f"Kafka did not start:\n{log}"
        raise RuntimeError(message)


def _answers(port: int) -> bool:
    """Whether a broker there answers an ApiVersions request (v0: no body)."""
    request = struct.pack(">hhih", 18, 0, 1, -1)
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as peer:
        peer.sendall(struct.pack(">i", len(request)) + request)
        return len(peer.recv(8)) > 0
    return False


@contextlib.contextmanager
def running_broker(
    *, joins: KafkaBroker | None = None, behind: int | None = None
) -> Iterator[KafkaBroker]:
    """A broker with a data directory of its own, which goes away with it."""
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
    """Brokers that are all controllers too: it goes on without any minority of them."""
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
    """The broker that all processes of a test run have in common: nobody stops it."""

    port: int
    pid: int
    home: Path

    @property
    def secured(self) -> SecuredListeners:
        """Its listeners with TLS and SASL, which only the newest version has."""
        return SecuredListeners(self.home / "broker" / _SECURED)

    @property
    def bootstrap(self) -> str:
        """Address for clients, `host:port`."""
        return f"127.0.0.1:{self.port}"


@contextlib.contextmanager
def shared_broker(
    home: Path, *, by: str = "tests.servers.kafka", version: str = VERSION
) -> Iterator[SharedBroker]:
    """The broker in the folder `home`: the first to come starts it, the last to go ends it.

    The program `by` starts it, and calls `start_shared`.
    Who uses it holds a shared lock on a file there, which is freed however its process ends.
    """
    home.mkdir(exist_ok=True)
    with (home / "users").open("a+") as users, (home / "turn").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if _is_alone(users):
            _remove_left(home)
            # Not by this process: it may be over long before those that use the broker, too.
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
    """Kill the broker in `home`, and remove what a start that failed has left."""
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
    """Start a broker that goes on when this process ends, and write down where it is."""
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
    """The broker of this test run. Who stops or freezes one has another: `own_kafka_broker`."""
    with shared_broker(run_folder(tmp_path_factory) / "kafka") as broker:
        yield broker


@pytest.fixture
def tokens(kafka_broker: SharedBroker) -> Iterator[TokenEndpoint]:
    """An endpoint of tokens for its listener `oauth`."""
    with kafka_broker.secured.tokens() as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def own_kafka_broker() -> Iterator[KafkaBroker]:
    """A broker of the module's own. Who stops or freezes it starts it again."""
    with running_broker() as broker:
        yield broker


@pytest.fixture
def kafka_namespace() -> str:
    """A prefix of its own for each test's topics and groups."""
    return f"t{uuid.uuid4().hex[:10]}."


if __name__ == "__main__":
    try:
        match sys.argv[1:]:
            case ["install", *versions]:
                for each in versions or [VERSION]:
                    print(install(each))  # noqa: T201 - this is a command
            case ["start", folder, _]:
                _start_newest(Path(folder))
            case _:
                sys.exit(f"usage: {INSTALL_JARS}")
    except MissingError as error:
        sys.exit(str(error))
