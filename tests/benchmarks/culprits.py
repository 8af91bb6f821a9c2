"""A hostile subscriber in a process of its own, so that what it does to itself is not measured.

    python -m tests.benchmarks.culprits <name>

prints its endpoint.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, cast

from tests.fakes.hostile import (
    MEGABYTE,
    OK,
    Act,
    Hostile,
    drips,
    floods,
    hangs,
    keeps_alive,
    never_accepting,
    repeats,
    resets,
    says,
)

ACTS: Final[dict[str, Act]] = {
    "healthy, for comparison": keeps_alive(),
    "hangs": hangs,
    "hangs in the body": says(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),
    "drips": drips(OK, interval_s=0.1),
    "closes in the body": says(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfour", close=True),
    "garbage": says(b"SSH-2.0-OpenSSH_9.2\r\n"),
    "continues for ever": repeats(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "headers for ever": repeats(b"HTTP/1.1 200 OK\r\n", b"X-More: and more\r\n"),
    "resets": resets,
    "two answers to one request": says(OK + OK),
    "50 MB": floods(50 * MEGABYTE),
}
NEVER_ACCEPTING: Final = "takes up no connection"
CULPRITS: Final = (*ACTS, NEVER_ACCEPTING)


@asynccontextmanager
async def culprit(name: str) -> AsyncIterator[str]:
    """The endpoint of a hostile subscriber, as long as the block runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, name, stdout=asyncio.subprocess.PIPE
    )
    try:
        said = await cast("asyncio.StreamReader", process.stdout).readline()
        yield said.decode().strip()
    finally:
        process.kill()
        await process.wait()


async def _serve(name: str) -> None:
    async with AsyncExitStack() as stack:
        if name == NEVER_ACCEPTING:
            url = await stack.enter_async_context(never_accepting())
        else:
            url = (await stack.enter_async_context(Hostile(ACTS[name]))).url
        print(url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
