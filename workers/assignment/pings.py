"""Test messages that somebody waits for: this worker sends those that are requested of it."""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

import structlog

from app.domain.catalogue.subscription import Subscription
from app.domain.errors import UnavailableError
from app.domain.runtime.ping import Ping, Pong, ping_in

# Requested and not begun; further requests wait in vain, which their senders are notified of.
WAITING_MAX: Final = 100
UNDER_WAY_MAX: Final = 10

_log = structlog.get_logger()


class Pinging(Protocol):
    """Sends test messages."""

    async def ping(self, subscription: Subscription) -> Pong:
        """What comes of one; never raises for what a subscriber or a network does."""


class PongBoard(Protocol):
    """Where those who requested a ping look."""

    async def post(self, ping: Ping, pong: Pong) -> None:
        """Post the result to who requested it; raises UnavailableError."""


class PingDesk:
    """Takes the pings that are requested of one worker: `receive` is called with each notice."""

    def __init__(self, worker_id: str, pinging: Pinging, board: PongBoard) -> None:
        self._worker_id = worker_id
        self._pinging = pinging
        self._board = board
        self._requests: asyncio.Queue[Ping] = asyncio.Queue(WAITING_MAX)
        self._free = asyncio.Semaphore(UNDER_WAY_MAX)

    def receive(self, payload: str) -> None:
        """Something was notified; what is not for this worker, or too much, is passed over."""
        ping = ping_in(payload) if payload else None
        if ping is not None and ping.worker == self._worker_id and not self._requests.full():
            self._requests.put_nowait(ping)

    async def run(self, known: Callable[[str], Subscription | None]) -> None:
        """Send what is requested until cancelled; `known` finds subscriptions by their ids."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                ping = await self._requests.get()
                subscription = known(ping.subscription_id)
                if subscription is not None:
                    await self._free.acquire()
                    tasks.create_task(self._answer(ping, subscription))

    async def _answer(self, ping: Ping, subscription: Subscription) -> None:
        try:
            pong = await self._pinging.ping(subscription)
            await self._board.post(ping, pong)
        except UnavailableError as exc:
            _log.warning("pong_not_posted", subscription=subscription.group, error=exc.message)
        except Exception:  # noqa: BLE001 - a test message is not to end a worker
            _log.exception("ping_broke", subscription=subscription.group)
        finally:
            self._free.release()
