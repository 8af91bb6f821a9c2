"""Attempts of fake endpoints that are called back, as those of a real one are."""

import asyncio
from collections.abc import Awaitable, Callable

from app.domain.delivery import Outcome
from workers.delivery.in_flight import Landing

_in_air: set[asyncio.Task[None]] = set()


class Flight:
    """An attempt in the air; it lands when what `attempt` returns is through."""

    def __init__(self, attempt: Callable[[], Awaitable[Outcome]], landing: Landing) -> None:
        self._landing = landing
        self._task = asyncio.get_running_loop().create_task(self._fly(attempt))
        _in_air.add(self._task)
        self._task.add_done_callback(_in_air.discard)

    @property
    def peer(self) -> str:
        """As `InAir.peer`."""
        return ""

    def forsake(self) -> None:
        """As `InAir.forsake`."""
        self._task.cancel()

    async def _fly(self, attempt: Callable[[], Awaitable[Outcome]]) -> None:
        try:
            outcome = await attempt()
        except Exception as exc:  # noqa: BLE001 - the consumer is to hear of it
            self._landing.broke(exc)
        else:
            self._landing.landed(outcome)
