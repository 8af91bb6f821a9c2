"""Appends discarded messages to the dead-letter topics of their subscriptions."""

import asyncio
import time
from datetime import timedelta
from typing import Final, Protocol

import structlog

from app.domain.catalogue.dead_letter import dead_letter_record
from app.domain.discards.undelivered import Undelivered
from app.domain.errors import (
    AngeliaError,
    MessageRefusedError,
    MessageTooLargeError,
    TopicNotFoundError,
)
from app.domain.message import Message
from app.log.interface import MessageLog
from workers.consumer.outcome.undelivered import of_message

RETRY_PAUSE: Final = timedelta(seconds=1)

_log = structlog.get_logger()


class DeadLetters(Protocol):
    """Dead-letter topics, to which discarded messages are copied."""

    async def append(self, message: Message, discarded: Undelivered, topic: str) -> None:
        """Append the message to `topic`, and wait until it is stored.

        While the log is down, wait and try again. Do not append a message that would circulate
        forever, is too large for the topic, or is refused as invalid.

        Raises:
            TopicNotFoundError: The topic does not exist.
        """


class DeadLetterTopics:
    """Dead-letter topics in the log.

    While the log is down, a discarded message stays open, so deliveries must wait.
    """

    def __init__(self, log: MessageLog) -> None:
        self._log = log

    async def append(self, message: Message, discarded: Undelivered, topic: str) -> None:
        """Append the message, and repeat this until the log acknowledges it.

        A repeated append has the same message id.
        """
        log = _log.bind(topic=topic, **of_message(discarded))
        record = dead_letter_record(message, discarded, now_ms=time.time_ns() // 1_000_000)
        if record is None:
            # Do not append a message that would circulate between topics forever. It is stored as
            # undelivered, like every discarded message.
            log.warning("dead_letter_in_a_circle")
            return
        while True:
            try:
                await self._log.append(topic, [record])
            except TopicNotFoundError:
                raise
            except MessageTooLargeError as exc:
                # Do not append a message that is too large for the topic. Only a foreign producer
                # can have written it. It is still stored as undelivered.
                log.warning("dead_letter_too_large", error=exc.message)
                return
            except MessageRefusedError as exc:
                # Another try would not help: a compacted topic takes no message without a key, for
                # example. The message is still stored as undelivered.
                log.warning("dead_letter_refused", error=exc.message)
                return
            except AngeliaError as exc:
                log.warning("dead_letter_not_appended", error=exc.message)
                await asyncio.sleep(RETRY_PAUSE.total_seconds())
            else:
                return
