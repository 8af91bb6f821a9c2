"""Discarded messages onto the dead-letter topics of their subscriptions."""

import asyncio
import time
from datetime import timedelta
from typing import Final, Protocol

import structlog

from app.domain.catalogue.dead_letter import dead_letter_record
from app.domain.discards.undelivered import Undelivered
from app.domain.errors import AngeliaError, MessageTooLargeError, TopicNotFoundError
from app.domain.message import Message
from app.log.interface import MessageLog
from workers.consumer.outcome.undelivered import of_message

RETRY_PAUSE: Final = timedelta(seconds=1)

_log = structlog.get_logger()


class DeadLetters(Protocol):
    """Where discards go that somebody wants as messages."""

    async def append(self, message: Message, discarded: Undelivered, topic: str) -> None:
        """Return once the message is durable in `topic`; waits as long as that takes.

        One that goes round in a circle, or is too large for the topic, is not appended.
        TopicNotFoundError: there is no such topic.
        """


class DeadLetterTopics:
    """Topics of the log. While the log is down delivery waits: no offset closes."""

    def __init__(self, log: MessageLog) -> None:
        self._log = log

    async def append(self, message: Message, discarded: Undelivered, topic: str) -> None:
        """Append until it is acknowledged; a repeat has the same message id."""
        log = _log.bind(topic=topic, **of_message(discarded))
        record = dead_letter_record(message, discarded, now_ms=time.time_ns() // 1_000_000)
        if record is None:
            # It would never end. It is among the undelivered all the same, as each of its discards.
            log.warning("dead_letter_in_a_circle")
            return
        while True:
            try:
                await self._log.append(topic, [record])
            except TopicNotFoundError:
                raise
            except MessageTooLargeError as exc:
                # The API keeps the topic large enough for what is published, so this is a foreign
                # producer's message. Among the undelivered there is room for it.
                log.warning("dead_letter_too_large", error=exc.message)
                return
            except AngeliaError as exc:
                log.warning("dead_letter_not_appended", error=exc.message)
                await asyncio.sleep(RETRY_PAUSE.total_seconds())
            else:
                return
