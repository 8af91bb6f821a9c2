"""Publishing: a body becomes a record of the log, acknowledged or refused within a bounded time."""

import asyncio
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Final, Self

import structlog

from app.domain.errors import AngeliaError, LogUnavailableError
from app.domain.message import (
    HEADER_CONTENT_TYPE,
    HEADER_ID,
    HEADER_PROPAGATED_PREFIX,
    HEADER_TIMESTAMP,
    NewRecord,
)
from app.domain.topic import Topic
from app.log.interface import MessageLog

_log = structlog.get_logger(__name__)

APPEND_TIMEOUT: Final = timedelta(milliseconds=1800)
# Bodies that wait for the log, over all requests: beyond it a publisher is refused at once.
WAITING_BYTES_MAX: Final = 64 * 1024 * 1024
WAITING_RECORDS_MAX: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """A message as its publisher sent it."""

    id: bytes
    body: bytes
    content_type: bytes | None
    partition_key: bytes | None
    propagated: tuple[tuple[bytes, bytes], ...] = ()


def record_of(publication: Publication, *, now_ms: int) -> NewRecord:
    """The log record of a publication (architecture.md, Kafka naming)."""
    headers = [(HEADER_ID, publication.id), (HEADER_TIMESTAMP, b"%d" % now_ms)]
    if publication.content_type:
        headers.append((HEADER_CONTENT_TYPE, publication.content_type))
    for name, value in publication.propagated:
        headers.append((HEADER_PROPAGATED_PREFIX + name, value))
    return NewRecord(
        value=publication.body,
        key=publication.partition_key,
        headers=tuple(headers),
        timestamp_ms=now_ms,
    )


class Publisher(AbstractAsyncContextManager["Publisher"]):
    """Appends records for requests that may end before the log has answered.

    Every append runs to its end in this object's own task group, so a client that goes away, or a
    time limit, never cuts one short; leaving the block waits for those under way.
    """

    def __init__(self, log: MessageLog, *, timeout: timedelta = APPEND_TIMEOUT) -> None:
        self._log = log
        self._timeout = timeout.total_seconds()
        self._stack = AsyncExitStack()
        self._tasks = asyncio.TaskGroup()
        self._waiting_records = 0
        self._waiting_bytes = 0

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self._tasks)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stack.__aexit__(kind, error, traceback)

    async def publish(self, topic: Topic, record: NewRecord) -> None:
        """Return once the log has acknowledged `record` as the topic's `ack` asks.

        Raises LogUnavailableError when it has not within the time limit; the record may then be
        stored all the same. TopicNotFoundError when the log has no such topic.
        """
        self._admit(record)
        append = self._tasks.create_task(self._append(topic, record))
        done, _ = await asyncio.wait((append,), timeout=self._timeout)
        if not done:
            raise _unavailable("Message not acknowledged in time")
        if error := append.result():
            raise error

    async def _append(self, topic: Topic, record: NewRecord) -> AngeliaError | None:
        # Errors are returned: one that was raised would end the group, and every other append.
        try:
            await self._log.append(topic.name, (record,), ack=topic.ack)
        except AngeliaError as error:
            return error
        except Exception:  # noqa: BLE001 - a defect of an adapter is this message's alone
            _log.exception("append_broke", topic=topic.name)
            return _unavailable("The message log failed")
        finally:
            self._waiting_records -= 1
            self._waiting_bytes -= len(record.value)
        return None

    def _admit(self, record: NewRecord) -> None:
        size = len(record.value)
        full = self._waiting_records >= WAITING_RECORDS_MAX
        if full or self._waiting_bytes + size > WAITING_BYTES_MAX:
            raise _unavailable("Too many messages wait for the message log")
        self._waiting_records += 1
        self._waiting_bytes += size


def _unavailable(message: str) -> LogUnavailableError:
    return LogUnavailableError(message)
