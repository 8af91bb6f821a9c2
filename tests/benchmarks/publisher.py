"""A publisher in a process of its own, whose pace does not depend on the answers.

    python -m tests.benchmarks.publisher <messages a second> <kept connections> <URL of a topic>…

Message after message goes to the next topic, by the next connection; with 0 for the connections, by
as many as it takes. For each line with a number it publishes for so many seconds, and says
meanwhile, a JSON list a line, ids of what was acknowledged; when all is, how many that were. Bodies
are timed (`tests.benchmarks.stopwatch`) from when they were to be published.
"""

import asyncio
import json
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from itertools import cycle
from typing import Final, cast

import httpx
import uvloop

from tests.benchmarks import pace
from tests.benchmarks.stopwatch import timed
from tests.fakes.egress import LOOPBACK
from workers.transport.limits import TransportLimits
from workers.transport.transport import DeliveryTransport

IDS_MAX: Final = 20_000
# Seconds between two lines of ids.
_SAID_EVERY_S: Final = 0.5


class Publisher:
    """The publisher, from where the measuring is done."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._asked = cast("asyncio.StreamWriter", process.stdin)
        self._said = cast("asyncio.StreamReader", process.stdout)
        self.ids: deque[str] = deque(maxlen=IDS_MAX)

    async def publish(self, seconds: float) -> int:
        """Publish, and return when all are acknowledged; how many that is."""
        self._asked.write(b"%f\n" % seconds)
        while isinstance(said := json.loads(await self._said.readline()), list):
            self.ids += said
        return int(said)


@asynccontextmanager
async def publisher(*urls: str, rate: int, connections: int = 0) -> AsyncIterator[Publisher]:
    """A publisher as long as the block runs."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", __name__, str(rate), str(connections), *urls),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 20,
    )
    try:
        yield Publisher(process)
    finally:
        process.kill()
        await process.wait()


class _Messages:
    def __init__(
        self, rate: int, urls: Sequence[str], transports: Sequence[DeliveryTransport]
    ) -> None:
        self._rate = rate
        self._urls = cycle(map(httpx.URL, urls))
        self._transports = cycle(transports)
        self._ids: list[str] = []

    async def publish(self, seconds: float) -> int:
        count, start = int(self._rate * seconds), time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            telling = tasks.create_task(self._tell())
            async with asyncio.TaskGroup() as messages:
                for number in range(count):
                    due = start + number / self._rate
                    if due > time.monotonic():
                        await pace.until(due)
                    messages.create_task(self._publish(timed(due)))
            telling.cancel()
        return count

    async def _publish(self, body: bytes) -> None:
        url, transport = next(self._urls), next(self._transports)
        headers = {"Host": url.netloc.decode(), "Content-Type": "application/json"}
        request = httpx.Request("POST", url, headers=headers, content=body)
        request.extensions = {"timeout": {"read": 30.0}}
        response = await transport.handle_async_request(request)
        assert response.status_code == httpx.codes.CREATED
        self._ids.append(response.headers["Hermes-Message-Id"])

    async def _tell(self) -> None:
        while True:
            await pace.until(time.monotonic() + _SAID_EVERY_S)
            ids, self._ids = self._ids, []
            _say(ids)


def _say(said: object) -> None:
    print(json.dumps(said), flush=True)


async def _serve(rate: int, connections: int, urls: Sequence[str]) -> None:
    limits = TransportLimits(connections_max=1) if connections else TransportLimits()
    async with AsyncExitStack() as stack:
        transports = [
            await stack.enter_async_context(
                aclosing(DeliveryTransport(egress=LOOPBACK, limits=limits))
            )
            for _ in range(connections or 1)
        ]
        messages = _Messages(rate, urls, transports)
        while line := await asyncio.to_thread(sys.stdin.readline):
            _say(await messages.publish(float(line)))


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
