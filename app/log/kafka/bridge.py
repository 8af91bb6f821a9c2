"""Connects the asyncio loop with kafka-python's own I/O thread.

kafka-python runs its coroutines itself, on a separate thread, and asyncio cannot await the futures
of kafka-python. So work for Kafka is a coroutine function that runs completely on this thread. Only
its result is passed to asyncio. The work must not block, because heartbeats and all other requests
use the same thread.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from kafka.net.selector import NetworkSelector

from app.domain.errors import LogUnavailableError

T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, T]]
# The arguments and results of kafka-python have no types.
Untyped: TypeAlias = Any

_STOP_TIMEOUT_MS: Final = 5000


class IoThread:
    """One kafka-python event loop on a separate thread. Create and close it on the asyncio loop."""

    def __init__(self, name: str) -> None:
        # Switch off kafka-python's warning about slow tasks. A task may be slow only because it
        # waits for the interpreter's lock.
        self.net = NetworkSelector(client_id=name, slow_task_threshold_secs=0)
        self._loop = asyncio.get_running_loop()
        self.net.start()

    async def run(self, work: Work[T], *, seconds: float | None = None) -> T:
        """Run `work()` on the thread, and return its result.

        `work` must limit its own waits, because it continues if the caller is cancelled.

        Raises:
            LogUnavailableError: The work took longer than `seconds`, or the thread ended first.
        """
        result: asyncio.Future[T] = self._loop.create_future()
        self.post(lambda: _settle(self, work, result))
        try:
            async with asyncio.timeout(seconds):
                return await result
        except TimeoutError as error:
            message = f"Kafka did not answer within {seconds} s"
            raise LogUnavailableError(message) from error

    def post(self, work: Callable[[], object]) -> None:
        """Start a function or coroutine function on the thread without waiting.

        Can be called on any thread.
        """
        try:
            self.net.call_soon_threadsafe(lambda: work())  # noqa: PLW0108 - a lambda, because kafka-python refuses functools.partial
        except RuntimeError as error:
            message = "the connection to Kafka is closed"
            raise LogUnavailableError(message) from error

    def hand_over(self, action: Callable[..., object], *arguments: object) -> None:
        """Call `action` on the asyncio loop. Call this only on the I/O thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(action, *arguments)

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds`, while other work runs. Call this only on the I/O thread."""
        await self.net.sleep(seconds)

    async def gather(self, works: Sequence[Work[T]]) -> list[T]:
        """Run all `works` at the same time. When all of them have ended, raise the first error.

        Call this only on the I/O thread.
        """
        futures = [self.net.call_soon_with_future(work) for work in works]
        for future in futures:
            await _ended(future)
        return [await future for future in futures]

    async def close(self) -> None:
        """Stop the thread and close its sockets; running work fails."""
        await asyncio.to_thread(self.net.stop, _STOP_TIMEOUT_MS)
        await asyncio.to_thread(self.net.close)


async def _settle(io: IoThread, work: Work[T], result: asyncio.Future[T]) -> None:
    """Run `work`, and pass its result or error to `result`."""
    try:
        value = await work()
    except GeneratorExit:
        gone = LogUnavailableError("the connection to Kafka was closed meanwhile")
        io.hand_over(_fail, result, gone)
        raise
    except BaseException as error:  # noqa: BLE001 - passed to the caller, which raises it on the other thread
        io.hand_over(_fail, result, error)
    else:
        io.hand_over(_succeed, result, value)


async def _ended(future: Untyped) -> None:
    """Wait until a future of kafka-python has ended. Its error is not raised."""
    # Ignore the error of the future here. It is raised where the result is read.
    with contextlib.suppress(Exception):
        await future


def _succeed(result: asyncio.Future[T], value: T) -> None:
    if not result.done():
        result.set_result(value)


def _fail(result: asyncio.Future[T], error: BaseException) -> None:
    if not result.done():
        result.set_exception(error)
