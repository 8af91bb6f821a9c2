"""Attempts of fake endpoints, which report their outcome to a listener as real attempts do."""

import asyncio
from collections.abc import Awaitable, Callable

from app.domain.delivery import Outcome
from workers.delivery.in_flight import ResponseListener

_in_flight: set[asyncio.Task[None]] = set()


class InFlightRequest:
    """An attempt in flight. It ends when the coroutine that `attempt` returns has ended."""

    def __init__(
        self, attempt: Callable[[], Awaitable[Outcome]], listener: ResponseListener
    ) -> None:
        self._listener = listener
        self._task = asyncio.get_running_loop().create_task(self._run(attempt))
        _in_flight.add(self._task)
        self._task.add_done_callback(_in_flight.discard)

    @property
    def peer(self) -> str:
        """The same as `StartedRequest.peer`: here no address is known."""
        return ""

    def cancel(self) -> None:
        """Cancel the attempt, as `StartedRequest.cancel` does."""
        self._task.cancel()

    async def _run(self, attempt: Callable[[], Awaitable[Outcome]]) -> None:
        try:
            outcome = await attempt()
        except Exception as exc:  # noqa: BLE001 - the consumer is to hear of it
            self._listener.on_defect(exc)
        else:
            self._listener.on_response(outcome)
