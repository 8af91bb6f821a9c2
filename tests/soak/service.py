"""The service as operators run it: an API process, and a command that keeps two workers running."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx
import psutil

from tests.architecture.tree import ROOT
from tests.benchmarks import pace
from tests.fakes.egress import ALLOW_LOOPBACK
from tests.fakes.keys import KEY
from tests.servers.ports import free_port

WORKERS: Final = 2
# Between two looks at a process that tells nobody when it is ready or has ended.
LOOK_EVERY_S: Final = 0.5
# Then a process that was asked to end is killed.
END_WITHIN_S: Final = 120
# An address at which nothing else listens: each worker has the next port.
PAGES: Final = "127.77.0.1"


@dataclass(slots=True)
class SoakedService:
    """Its processes, and where they answer."""

    url: str
    pages: int
    api: subprocess.Popen[bytes]
    supervisor: subprocess.Popen[bytes]
    # Worker processes by number, as they were at the start. None may end.
    workers: dict[str, psutil.Process] = field(default_factory=dict)

    def processes(self) -> Mapping[str, psutil.Process]:
        """Return all processes by name."""
        return {
            "API": psutil.Process(self.api.pid),
            "supervisor": psutil.Process(self.supervisor.pid),
            **self.workers,
        }

    def metrics_pages(self) -> Mapping[str, str]:
        """Return the URLs of the metrics, by process. The supervisor has none."""
        of_workers = {
            name: f"http://{PAGES}:{self.pages + number}/metrics"
            for number, name in enumerate(sorted(self.workers))
        }
        return {"API": f"{self.url}/metrics", **of_workers}

    def ended(self) -> Sequence[str]:
        """Return the names of processes that have ended."""
        own = {"API": self.api, "supervisor": self.supervisor}
        gone = [name for name, process in own.items() if process.poll() is not None]
        return [*gone, *(name for name, each in self.workers.items() if not each.is_running())]


@asynccontextmanager
async def soaked_service(
    configuration: Mapping[str, str], folder: Path
) -> AsyncIterator[SoakedService]:
    """Run the service inside the block; its log output goes to `folder`."""
    port, pages = free_port(), free_port(PAGES)
    environment = {
        **{name: each for name, each in os.environ.items() if not name.startswith("ANGELIA_")},
        "ANGELIA_PORT": str(port),
        "ANGELIA_WORKER_ADDRESS": f"{PAGES}:{pages}",
        "ANGELIA_ALLOW_PRIVATE_ENDPOINTS": ALLOW_LOOPBACK,
        "ANGELIA_AUTH": "off",
        "ANGELIA_SECRET_KEY": KEY,
        "PYTHONPATH": str(ROOT),
        **configuration,
    }
    api = _start(folder / "api.log", environment, "app")
    workers = ("app.cli.main", "worker", "--processes", str(WORKERS))
    supervisor = _start(folder / "workers.log", environment, *workers)
    service = SoakedService(f"http://127.0.0.1:{port}", pages, api, supervisor)
    try:
        await _until_ready(service)
        yield service
    finally:
        await asyncio.to_thread(_end, [supervisor, api])


def _start(log: Path, environment: Mapping[str, str], *command: str) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", *command],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            # A session of its own: so a Ctrl-C reaches the soak alone, which ends it in order.
            start_new_session=True,
        )


async def _until_ready(service: SoakedService) -> None:
    """Wait until all processes are ready, for as long as that takes, unless one ends."""
    while not await _is_ready(service):
        if ended := service.ended():
            message = f"{', '.join(ended)} ended at the start: see the logs"
            raise RuntimeError(message)
        await pace.until(time.monotonic() + LOOK_EVERY_S)


async def _is_ready(service: SoakedService) -> bool:
    found = psutil.Process(service.supervisor.pid).children()
    service.workers = {f"worker {each.cmdline()[-1]}": each for each in found if each.cmdline()}
    if len(service.workers) < WORKERS:
        return False
    pages = service.metrics_pages().values()
    async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
        answers = [
            await _answers(http, page.replace("/metrics", "/status/ready")) for page in pages
        ]
    return all(answers)


async def _answers(http: httpx.AsyncClient, url: str) -> bool:
    try:
        return (await http.get(url)).is_success
    except httpx.HTTPError:
        return False


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End processes in order, and kill what does not end, with the processes that it started."""
    for process in processes:
        own = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(END_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for each in own:
            if each.is_running():
                each.kill()
