"""A log that is down, waits or refuses messages when a test of redrives says so."""

import asyncio
from collections.abc import Collection
from typing import Any

from app.domain.errors import LogUnavailableError, MessageTooLargeError
from app.domain.message import HEADER_ID
from app.services.discards.redrives import CALL_MESSAGES_MAX
from tests.fakes.memory_log import MemoryLog


class Gate(MemoryLog):
    """A log that takes so many messages, and then is down; or waits before it takes one.

    It may close behind each group of messages that it takes. As Kafka does, it stores what is
    appended together with a message that it refuses.
    """

    messages_left = 10**9
    closes = False
    acknowledges = True
    taken = 0
    waiting = 0
    too_large: Collection[bytes] = ()

    def __init__(self) -> None:
        super().__init__()
        self.open = asyncio.Event()
        self.open.set()
        self.asked = asyncio.Event()
        self.held_up = asyncio.Event()

    async def append(self, topic: str, records: Any, **how: Any) -> Any:  # noqa: ANN401 - as the log's
        self.asked.set()
        if not self.open.is_set():
            self.held_up.set()
        self.waiting += len(records)
        await self.open.wait()
        self.waiting -= len(records)
        self.down = self.down or self.messages_left <= 0
        self.messages_left -= len(records)
        fitting = [each for each in records if dict(each.headers)[HEADER_ID] not in self.too_large]
        appended = await super().append(topic, fitting, **how)
        self.taken += len(fitting)
        if self.closes and self.taken % CALL_MESSAGES_MAX == 0:
            self.open.clear()
        if not self.acknowledges:
            message = "stored, but nobody hears of it"
            raise LogUnavailableError(message)
        if len(fitting) < len(records):
            message = "the message with its headers is larger than its topic allows"
            raise MessageTooLargeError(message)
        return appended
