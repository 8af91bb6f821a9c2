"""What is published again and again as fast as it is answered, and by whom."""

import asyncio
import re
import shutil
import time
from typing import Final, NamedTuple

from tests.benchmarks import cores
from tests.benchmarks.figures import FOLDER
from tests.benchmarks.percentiles import percentile

_UNITS_MS: Final = {"us": 0.001, "ms": 1.0, "s": 1000.0}


class Load(NamedTuple):
    """One request; `messages` are in it."""

    name: str
    path: str
    content_type: str
    body: bytes
    messages: int = 1


class Answered(NamedTuple):
    """What a client saw: answers that were good, and how long they took."""

    requests: int
    failed: int
    p50_ms: float
    p99_ms: float


async def driven(port: int, load: Load, *, connections: int, seconds: int) -> Answered:
    """The load for so many seconds on so many connections: by wrk, or by plain sockets."""
    drive = _by_wrk if shutil.which("wrk") else _by_sockets
    with cores.on_cores(cores.OTHERS):
        return await drive(port, load, connections=connections, seconds=seconds)


async def _by_wrk(port: int, load: Load, *, connections: int, seconds: int) -> Answered:
    FOLDER.mkdir(parents=True, exist_ok=True)
    script, body = FOLDER / f"{load.name}.lua", FOLDER / f"{load.name}.body"
    body.write_bytes(load.body)
    script.write_text(
        f'wrk.method = "POST"\nlocal file = io.open("{body}", "rb")\n'
        'wrk.body = file:read("*a")\nfile:close()\n'
        f'wrk.headers["Content-Type"] = "{load.content_type}"\n'
    )
    process = await asyncio.create_subprocess_exec(
        "wrk",
        *(f"-d{seconds}s", f"-c{connections}", "-t1", "--latency", "-s", str(script)),
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


async def _by_sockets(port: int, load: Load, *, connections: int, seconds: int) -> Answered:
    head = (
        f"POST {load.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {load.content_type}\r\n"
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
