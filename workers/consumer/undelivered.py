"""Discarded messages onto the undelivered stream, from which the recorder takes them."""

import asyncio
from datetime import timedelta
from typing import Final, Protocol

import structlog

from app.domain.errors import AngeliaError
from app.domain.streams import UNDELIVERED
from app.domain.undelivered import Undelivered, to_record
from app.log.interface import MessageLog

RETRY_PAUSE: Final = timedelta(seconds=1)

_log = structlog.get_logger()


class UndeliveredLog(Protocol):
    """Where discards go."""

    async def write(self, undelivered: Undelivered) -> None:
        """Return only once the message is durable elsewhere; waits as long as that takes."""


class UndeliveredStream:
    """The log's undelivered stream. While the log is down delivery waits: no offset closes."""

    def __init__(self, log: MessageLog) -> None:
        self._log = log

    async def write(self, undelivered: Undelivered) -> None:
        """Append until it is acknowledged; a repeat is the same message to the recorder."""
        record = to_record(undelivered)
        while True:
            try:
                await self._log.append(UNDELIVERED, [record])
            except AngeliaError as exc:
                _log.warning(
                    "undelivered_write_failed", message_id=undelivered.message_id, error=exc.message
                )
                await asyncio.sleep(RETRY_PAUSE.total_seconds())
            else:
                return
