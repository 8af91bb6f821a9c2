"""Takes retransmissions whose messages are chosen, and sends several of them at the same time."""

import asyncio
from datetime import timedelta
from typing import Final

import structlog

from app.domain.errors import (
    MessageRefusedError,
    MessageTooLargeError,
    NotFoundError,
    UnavailableError,
)
from app.domain.replay.retransmission import RetransmissionState
from app.domain.replay.sending_rate import Sending
from app.log.interface import MessageLog
from app.outages import Outage
from workers.retransmission.feed import LEASE, RetransmissionFeed, RetransmissionLostError
from workers.retransmission.store import RetransmissionStore

TAKE_EVERY: Final = timedelta(seconds=1)
FEEDS_MAX: Final = 20

_log = structlog.get_logger()


class RetransmissionFeeder:
    """Sends retransmissions until cancelled. Other workers continue the unfinished ones."""

    def __init__(self, log: MessageLog, store: RetransmissionStore) -> None:
        self._log = log
        self._store = store
        self._outage = Outage(_log, "no_retransmission_taken")

    async def run(self) -> None:
        """Take one retransmission after another, and send each in a task of its own."""
        async with asyncio.TaskGroup() as tasks:
            slots = asyncio.Semaphore(FEEDS_MAX)
            while True:
                await slots.acquire()
                sending = await self._taken()
                if sending is None:
                    slots.release()
                    await asyncio.sleep(TAKE_EVERY.total_seconds())
                else:
                    feeding = tasks.create_task(self._feed(sending))
                    feeding.add_done_callback(lambda _: slots.release())

    async def _taken(self) -> Sending | None:
        try:
            taken = await self._store.take(LEASE)
        except UnavailableError as exc:
            self._outage.failed(error=exc.message)
            return None
        self._outage.ended()
        return taken

    async def _feed(self, sending: Sending) -> None:
        _log.info("retransmitting", retransmission=sending.id, messages=sending.matched)
        try:
            await RetransmissionFeed(self._log, self._store, sending).run()
        except RetransmissionLostError:
            _log.info("retransmission_left", retransmission=sending.id)
        except (UnavailableError, TimeoutError) as exc:
            # After a pause, let any worker take the retransmission. The outcome of the last append
            # is unknown, so the worker that takes the retransmission first reads the appended
            # messages back.
            _log.warning("retransmission_interrupted", retransmission=sending.id, error=str(exc))
            await asyncio.sleep(TAKE_EVERY.total_seconds())
            await self._released(sending)
        except (NotFoundError, MessageRefusedError, MessageTooLargeError) as exc:
            await self._failed(sending, exc.message)

    async def _released(self, sending: Sending) -> None:
        try:
            await self._store.release(sending)
        except UnavailableError:
            _log.info("retransmission_not_released", retransmission=sending.id)

    async def _failed(self, sending: Sending, reason: str) -> None:
        try:
            await self._store.end(sending, RetransmissionState.FAILED, reason)
        except UnavailableError:
            _log.info("retransmission_not_ended", retransmission=sending.id)
