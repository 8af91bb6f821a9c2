"""A Spark cluster for tests: a standalone master and its workers, from the installed PySpark."""

import os
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
import pyspark

from tests.contract.logs import eventually
from tests.servers import java
from tests.servers.ports import free_port

_CLASS: Final = Path(pyspark.__file__).parent / "bin/spark-class"
_PACKAGE: Final = "org.apache.spark.deploy"
# How long the parts of a cluster may take to start, even on a busy machine.
_START_S: Final = 240.0
_FRUGAL: Final = " ".join(java.OPTIONS)


@dataclass(frozen=True, slots=True)
class ClusterWorker:
    """A worker of the cluster. The folder `place` has the output of its executors."""

    process: psutil.Process
    place: Path

    def family(self) -> Sequence[psutil.Process]:
        """The worker with its executors and their Python processes."""
        return [self.process, *self.process.children(recursive=True)]

    def kill(self) -> None:
        """Kill the worker and its executors together, as if their machine was switched off."""
        for each in self.family():
            each.kill()

    @property
    def tasks_done(self) -> int:
        """The number of tasks that the worker's executors have finished."""
        return self._said("Finished task ")

    @property
    def tasks_running(self) -> int:
        """The number of tasks that the worker's executors have begun, and not finished."""
        return self._said("Running task ") - self.tasks_done

    def _said(self, words: str) -> int:
        logs = [each.read_text() for each in self.place.glob("app-*/*/stderr")]
        return sum(text.count(words) for text in logs)


@dataclass(frozen=True, slots=True)
class SparkCluster:
    """The URL of a master (`spark://…`), and the workers of the cluster."""

    master: str
    workers: Sequence[ClusterWorker]


@asynccontextmanager
async def spark_cluster(
    place: Path, *, workers: int = 2, commands: Path | None = None
) -> AsyncIterator[SparkCluster]:
    """Run a cluster inside the block. Each worker has one core and one executor.

    After the block, all processes of the cluster are ended. If `commands` is set, the cluster finds
    commands in that folder before those of the same name in PATH.
    """
    port, started = free_port(), list[subprocess.Popen[bytes]]()
    master = f"spark://127.0.0.1:{port}"
    try:
        given = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        started.append(_start(place / "master", commands, "master.Master", *given))
        await _said(place / "master", "New state: ALIVE")
        for number in range(workers):
            work = place / f"worker-{number}"
            more = ("--cores", "1", "--memory", "600m", "--work-dir", str(work))
            here = ("--host", "127.0.0.1", "--webui-port", "0")
            started.append(_start(work, commands, "worker.Worker", *here, *more, master))
        for number in range(workers):
            await _said(place / f"worker-{number}", "Successfully registered with master")
        yield SparkCluster(
            master,
            [
                ClusterWorker(psutil.Process(each.pid), place / f"worker-{number}")
                for number, each in enumerate(started[1:])
            ],
        )
    finally:
        _end(started)


def _start(
    place: Path, commands: Path | None, part: str, *arguments: str
) -> subprocess.Popen[bytes]:
    place.mkdir(parents=True)
    ours = {
        "SPARK_CONF_DIR": str(place),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(place / "local"),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": f"{_FRUGAL} -Djava.io.tmpdir={place}",
        # Switch off the REST server of the master, which would always listen on the same port.
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
    }
    if commands is not None:
        ours["PATH"] = f"{commands}{os.pathsep}{os.environ['PATH']}"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ANGELIA_")} | ours
    with (place / "log").open("wb") as log:
        return subprocess.Popen(
            [_CLASS, f"{_PACKAGE}.{part}", *arguments], env=environment, stdout=log, stderr=log,
            cwd=place,
        )  # fmt: skip


async def _said(place: Path, words: str) -> None:
    async def is_there() -> bool:
        return words in (place / "log").read_text()

    await eventually(is_there, seconds=_START_S)


def _end(started: Sequence[subprocess.Popen[bytes]]) -> None:
    families = [
        psutil.Process(each.pid).children(recursive=True) for each in started if each.poll() is None
    ]
    for each in reversed(started):
        each.kill()
        each.wait()
    left = [one for family in families for one in family]
    for one in left:
        if one.is_running():
            one.kill()
    assert not psutil.wait_procs(left, timeout=30)[1]
