"""The streams that workers write and read. Every worker creates them when it starts."""

import asyncio
from datetime import timedelta
from typing import Final

import structlog

from app.domain import streams
from app.domain.catalogue.topic import MESSAGE_SIZE_MAX
from app.domain.errors import AngeliaError, ValidationFailedError
from app.log.interface import LogTopic, MessageLog
from app.outages import Outage

RETRY_PAUSE: Final = timedelta(seconds=1)
# The stream of undelivered messages. A record has the whole body of a message, and at most 64 KiB
# that say why the message was discarded.
UNDELIVERED_TOPIC: Final = LogTopic(
    name=streams.UNDELIVERED,
    partitions=streams.UNDELIVERED_PARTITIONS,
    retention=timedelta(days=2),
    message_size_max=MESSAGE_SIZE_MAX + 64 * 1024,
)
TRACES_TOPIC: Final = LogTopic(
    name=streams.TRACES,
    partitions=streams.TRACES_PARTITIONS,
    retention=timedelta(days=2),
    message_size_max=MESSAGE_SIZE_MAX,
)
OWN_TOPICS: Final = (UNDELIVERED_TOPIC, TRACES_TOPIC)

_log = structlog.get_logger()


class OwnStreams:
    """Creates the streams. While the log is down, it waits and tries again.

    `waits_for` says which streams are missing.
    """

    def __init__(self) -> None:
        self._left = {topic.name: "is not made yet" for topic in OWN_TOPICS}

    @property
    def waits_for(self) -> str:
        """The missing streams, and why they are missing. Empty when all streams exist."""
        return "; ".join(f"{name}: {why}" for name, why in self._left.items())

    async def make(self, log: MessageLog) -> None:
        """Create the streams, and wait until all of them exist.

        Raises:
            ValidationFailedError: A setting is wrong.
        """
        async with asyncio.TaskGroup() as tasks:
            for topic in OWN_TOPICS:
                tasks.create_task(self._make(log, topic))

    async def _make(self, log: MessageLog, topic: LogTopic) -> None:
        outage = Outage(_log, "stream_not_created")
        while True:
            try:
                await log.create_topic(topic)
            except ValidationFailedError:
                # Raise the error, because waiting would not help: the namespace or the number of
                # replicas is wrong.
                raise
            except AngeliaError as exc:
                self._left[topic.name] = exc.message
                outage.failed(stream=topic.name, error=exc.message)
                await asyncio.sleep(RETRY_PAUSE.total_seconds())
            else:
                outage.ended(stream=topic.name)
                del self._left[topic.name]
                return
