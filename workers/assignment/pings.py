"""Answers pings for this worker. A ping asks a worker to send a test message to a subscriber.

A user waits for the result of the test message.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

import structlog

from app.domain.catalogue.subscription import Subscription
from app.domain.errors import UnavailableError
from app.domain.runtime.ping import Ping, Pong, ping_in

# The maximum number of ping requests that wait. Further requests are ignored.
WAITING_MAX: Final = 100
# The maximum number of test messages that are sent at the same time.
UNDER_WAY_MAX: Final = 10

_log = structlog.get_logger()


class Pinging(Protocol):
    """Sends test messages to subscribers."""

    async def ping(self, subscription: Subscription) -> Pong:
        """Send a test message to the subscriber, and return the result.

        Errors of the subscriber or of the network are returned as results.
        """


class PongBoard(Protocol):
    """The place where a process that requested a ping gets the result."""

    async def post(self, ping: Ping, pong: Pong) -> None:
        """Post the result to the requester.

        Raises:
            UnavailableError: The board cannot be reached.
        """


class PingDesk:
    """Takes the ping requests for one worker. `receive` must be called with each notice."""

    def __init__(self, worker_id: str, pinging: Pinging, board: PongBoard) -> None:
        self._worker_id = worker_id
        self._pinging = pinging
        self._board = board
        self._requests: asyncio.Queue[Ping] = asyncio.Queue(WAITING_MAX)
        self._free = asyncio.Semaphore(UNDER_WAY_MAX)

    def receive(self, payload: str) -> None:
        """Take a ping request. It is ignored if it is for another worker, or if too many wait."""
        ping = ping_in(payload) if payload else None
        if ping is not None and ping.worker == self._worker_id and not self._requests.full():
            self._requests.put_nowait(ping)

    async def run(self, known: Callable[[str], Subscription | None]) -> None:
        """Send the requested test messages until cancelled. `known` finds subscriptions by id."""
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
        except Exception:  # noqa: BLE001 - a test message must not end a worker
            _log.exception("ping_broke", subscription=subscription.group)
        finally:
            self._free.release()
