"""Requests of a process to the log or to the database. They take time, and may be lost."""

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Any, Final, Generic, TypeVar

from tests.simulation.conditions import Service

T = TypeVar("T")

# How many seconds a process waits for an answer: about as long as the product's adapters.
TIMEOUT_S: Final = 5.0


def later(delay_s: float, act: Callable[..., object], *args: Any) -> asyncio.TimerHandle:  # noqa: ANN401 - as `call_later`
    """Call `act` after a delay, outside of all simulated processes."""
    loop = asyncio.get_running_loop()
    return loop.call_later(delay_s, act, *args, context=Context())


class Reply(Generic[T]):
    """The answer of a service to one request. It may be lost, and only the first one counts."""

    def __init__(self, service: Service, process: str, answer: "asyncio.Future[T]") -> None:
        self._service = service
        self._process = process
        self._answer = answer

    def give(self, result: T) -> None:
        """Answer with a result."""
        self._send(lambda: self._answer.set_result(result))

    def fail(self, error: Exception) -> None:
        """Answer with an error."""
        self._send(lambda: self._answer.set_exception(error))

    def _send(self, settle: Callable[[], None]) -> None:
        delay_s = self._service.answer_s(self._process)
        if delay_s is not None:
            later(delay_s, self._arrive, settle)

    def _arrive(self, settle: Callable[[], None]) -> None:
        if not self._answer.done():
            settle()


class Remote:
    """The connection of one process to one service.

    `unavailable` makes the error that is raised if no answer comes.
    """

    def __init__(
        self,
        process: str,
        service: Service,
        unavailable: Callable[[str], Exception],
        *,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.process = process
        self.service = service
        self._unavailable = unavailable
        self._timeout_s = timeout_s

    async def call(self, act: Callable[[], T]) -> T:
        """Let the service call `act`, which does not wait, and return the result.

        If the error says that no answer came, the service may have called `act`, or may call it
        later.
        """

        def serve(reply: Reply[T]) -> None:
            try:
                result = act()
            except Exception as error:  # noqa: BLE001 - it is the answer
                reply.fail(error)
            else:
                reply.give(result)

        return await self.ask(serve)

    async def ask(self, serve: Callable[[Reply[T]], None], *, timeout_s: float = 0.0) -> T:
        """Let the service run `serve`, which may answer later; return the answer."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        delay_s = self.service.request_s(self.process)
        if delay_s is not None:
            later(delay_s, serve, Reply(self.service, self.process, answer))
        try:
            async with asyncio.timeout(timeout_s or self._timeout_s):
                return await answer
        except TimeoutError:
            raise self._unavailable(f"no answer for {self.process}") from None
