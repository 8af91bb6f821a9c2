"""What publishing costs the API process: CPU per message, rate and latency, on both logs.

Single publishes on 1 and on 64 connections, batches of 500 on 1 and on 16, driven by `wrk` when it
is installed and by plain sockets otherwise. CPU is the user and system time of the API process; it
is the figure to compare, because it hardly depends on what else the machine does. Also written to
`build/bench/publish-*.json`.
"""

import asyncio
import json
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import psutil
import pytest

from tests.benchmarks.percentiles import percentile
from tests.e2e.service import Service

REPORTS: Final = Path("build/bench")
SECONDS: Final = 5
WARM_UP_SECONDS: Final = 1
BATCH: Final = 500
MESSAGE: Final = b'{"order":4711,"filler":"' + b"x" * 975 + b'"}'
_UNITS_MS: Final = {"us": 0.001, "ms": 1.0, "s": 1000.0}


class Load(NamedTuple):
    """What is sent again and again: `messages` in each request."""

    name: str
    path: str
    content_type: str
    body: bytes
    messages: int = 1
    connections: Sequence[int] = (1, 64)


class Answered(NamedTuple):
    """What a client saw: answers that were good, and how long they took."""

    requests: int
    failed: int
    p50_ms: float
    p99_ms: float


SINGLE: Final = Load("single", "/topics/bench.publish", "application/json", MESSAGE)
# More batches at once are more than may wait for the log.
FEW: Final = (1, 16)
BATCHES: Final = (
    Load(
        "array",
        "/topics/bench.publish/batch",
        "application/json",
        b"[" + b",".join([MESSAGE] * BATCH) + b"]",
        BATCH,
        FEW,
    ),
    Load(
        "ndjson",
        "/topics/bench.publish/batch",
        "application/x-ndjson",
        b"\n".join([MESSAGE] * BATCH),
        BATCH,
        FEW,
    ),
)


async def driven(service: Service, load: Load, *, connections: int, seconds: float) -> Answered:
    """The load for so many seconds, as fast as it is answered."""
    drive = _by_wrk if shutil.which("wrk") else _by_sockets
    return await drive(service.port, load, connections=connections, seconds=seconds)


async def _by_wrk(port: int, load: Load, *, connections: int, seconds: float) -> Answered:
    script = REPORTS / f"{load.name}.lua"
    body = REPORTS / f"{load.name}.body"
    body.write_bytes(load.body)
    script.write_text(
        f'wrk.method = "POST"\nlocal file = io.open("{body}", "rb")\n'
        'wrk.body = file:read("*a")\nfile:close()\n'
        f'wrk.headers["Content-Type"] = "{load.content_type}"\n'
    )
    arguments = [f"-d{seconds}s", f"-c{connections}", "-t1", "--latency", "-s", str(script)]
    process = await asyncio.create_subprocess_exec(
        "wrk",
        *arguments,
        f"http://127.0.0.1:{port}{load.path}",
        stdout=asyncio.subprocess.PIPE,
    )
    said = (await process.communicate())[0].decode()
    requests = re.search(r"(\d+) requests in", said)
    failed = re.search(r"Non-2xx or 3xx responses: (\d+)", said)
    assert requests, said
    return Answered(
        int(requests[1]), int(failed[1]) if failed else 0, _latency(said, 50), _latency(said, 99)
    )


def _latency(said: str, percent: int) -> float:
    found = re.search(rf"{percent}%\s+([\d.]+)(us|ms|s)", said)
    assert found, said
    return float(found[1]) * _UNITS_MS[found[2]]


async def _by_sockets(port: int, load: Load, *, connections: int, seconds: float) -> Answered:
    head = (
        f"POST {load.path} HTTP/1.1\r\nHost: x\r\nContent-Type: {load.content_type}\r\n"
        f"Content-Length: {len(load.body)}\r\n\r\n"
    )
    until = time.monotonic() + seconds
    took: list[float] = []
    failed = 0

    async def client() -> None:
        nonlocal failed
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.monotonic() < until:
            begun = time.monotonic()
            writer.write(head.encode() + load.body)
            answer = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", answer.lower())
            await reader.readexactly(int(length[1]) if length else 0)
            took.append((time.monotonic() - begun) * 1000)
            failed += not answer.startswith(b"HTTP/1.1 201")
        writer.close()

    await asyncio.gather(*(client() for _ in range(connections)))
    return Answered(len(took), failed, percentile(took, 50), percentile(took, 99))


@pytest.mark.parametrize("load", [SINGLE, *BATCHES], ids=lambda load: load.name)
async def test_publishing(
    configuration: Mapping[str, str],
    logs: Path,
    request: pytest.FixtureRequest,
    load: Load,
) -> None:
    REPORTS.mkdir(parents=True, exist_ok=True)
    async with Service(configuration, logs) as service:
        api = await service.api()
        await service.topic("bench.publish")
        process = psutil.Process(api.pid)
        figures = [await measured(service, process, (load, each)) for each in load.connections]
    (REPORTS / f"publish-{request.node.callspec.id}.json").write_text(
        json.dumps(figures, indent=2) + "\n"
    )


async def measured(
    service: Service, api: psutil.Process, case: tuple[Load, int]
) -> dict[str, float]:
    """Measure after a warm-up, and print."""
    load, connections = case
    await driven(service, load, connections=connections, seconds=WARM_UP_SECONDS)
    before, begun = api.cpu_times(), time.monotonic()
    seen = await driven(service, load, connections=connections, seconds=SECONDS)
    after, took = api.cpu_times(), time.monotonic() - begun
    assert seen.requests, "nothing was answered"
    messages = seen.requests * load.messages
    cpu_s = after.user + after.system - before.user - before.system
    figures = {
        "connections": connections,
        "cpu_us_per_message": cpu_s / messages * 1e6,
        "messages_per_second": messages / took,
        "p50_ms": seen.p50_ms,
        "p99_ms": seen.p99_ms,
        "failed_requests": seen.failed,
    }
    print(f"\n{load.name}: " + "  ".join(f"{key} {value:.1f}" for key, value in figures.items()))
    return figures
