"""Brokers of older Kafka versions, which `make test-long` tests besides the newest version.

`python -m tests.servers.old_kafka install` fetches their jars. The broker of version 3.0 stores its
metadata in a ZooKeeper, as was usual then. The broker of version 3.9 needs no ZooKeeper.
"""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.servers.jars import MissingError
from tests.servers.kafka import KafkaBroker, SharedBroker, install, shared_broker, start_shared
from tests.servers.ports import free_port
from tests.servers.runs import run_folder

# The oldest version that Angelia supports, and the last one before 4.
VERSIONS: Final = {"kafka_3_0": "3.0.2", "kafka_3_9": "3.9.1"}
# The names of the fixtures in this module, as parameters of tests.
OLD_KAFKAS: Final = [pytest.param(name, marks=pytest.mark.long) for name in VERSIONS]
_WITHOUT_ZOOKEEPER: Final = ("process.roles=", "node.id=", "controller.", "listeners=")


class ZooKeeperBroker(KafkaBroker):
    """A broker with a ZooKeeper of its own. Both run from the same jars."""

    def __init__(self, libs: Path, home: Path) -> None:
        super().__init__(libs, home)
        self._place = home / "zookeeper"
        self._zookeeper_port = free_port()
        self._zookeeper: subprocess.Popen[bytes] | None = None

    @property
    def pids(self) -> tuple[int, ...]:
        zookeeper = () if self._zookeeper is None else (self._zookeeper.pid,)
        return (self.pid, *zookeeper)

    def format(self) -> None:
        """Write the settings of the broker and of the ZooKeeper."""
        self._properties.write_text(self._configuration())
        self._place.mkdir()
        address = f"clientPortAddress=127.0.0.1\nclientPort={self._zookeeper_port}\n"
        text = f"dataDir={self._place}\nadmin.enableServer=false\n{address}"
        (self._place / "zoo.cfg").write_text(text)

    def launch(self) -> None:
        """Start the ZooKeeper and the broker. The broker itself waits for the ZooKeeper."""
        program = "org.apache.zookeeper.server.ZooKeeperServerMain"
        with (self._place / "log").open("wb") as log:
            command = self._java(program, str(self._place / "zoo.cfg"))
            self._zookeeper = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True
            )
        super().launch()

    def _end(self, number: signal.Signals) -> None:
        super()._end(number)
        if self._zookeeper is not None:
            self._zookeeper.kill()
            self._zookeeper.wait()
            self._zookeeper = None

    def _configuration(self) -> str:
        lines = super()._configuration().splitlines()
        kept = [line for line in lines if not line.startswith(_WITHOUT_ZOOKEEPER)]
        kept += ["broker.id=1", f"zookeeper.connect=127.0.0.1:{self._zookeeper_port}"]
        return "\n".join([*kept, f"listeners=PLAINTEXT://{self.bootstrap}"])


@pytest.fixture(scope="session")
def kafka_3_0(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedBroker]:
    """Yield this test run's broker of the oldest supported version."""
    yield from _shared(tmp_path_factory, "kafka_3_0")


@pytest.fixture(scope="session")
def kafka_3_9(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedBroker]:
    """Yield this test run's broker of the last version before 4."""
    yield from _shared(tmp_path_factory, "kafka_3_9")


def _shared(tmp_path_factory: pytest.TempPathFactory, name: str) -> Iterator[SharedBroker]:
    home, program = run_folder(tmp_path_factory) / name, "tests.servers.old_kafka"
    with shared_broker(home, by=program, version=VERSIONS[name]) as broker:
        yield broker


def _start(home: Path, version: str) -> None:
    kind = ZooKeeperBroker if version == VERSIONS["kafka_3_0"] else KafkaBroker
    place = home / "broker"
    place.mkdir()
    start_shared(home, kind(install(version), place))


if __name__ == "__main__":
    try:
        match sys.argv[1:]:
            case ["start", folder, wanted]:
                _start(Path(folder), wanted)
            case _:
                for each in VERSIONS.values():
                    print(install(each))  # noqa: T201 - this is a command
    except MissingError as error:
        sys.exit(str(error))
