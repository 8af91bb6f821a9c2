"""Publishing: makes a record from a message, and appends the record to the log in limited time."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from datetime import timedelta
from time import perf_counter
from types import TracebackType
from typing import Final, NamedTuple, Self
from zlib import crc32

import structlog

from app.domain.catalogue.topic import Topic
from app.domain.errors import AngeliaError, LogUnavailableError
from app.domain.message import (
    HEADER_CONTENT_TYPE,
    HEADER_ID,
    HEADER_PROPAGATED_PREFIX,
    HEADER_RECEIPT,
    HEADER_TIMESTAMP,
    NewRecord,
)
from app.log.deadlines import CallDeadline
from app.log.interface import MessageLog
from app.metrics.publish_counts import PublishCounts
from app.services.publishing.quota import ThroughputQuotas
from app.services.publishing.writability import Writability

_log = structlog.get_logger(__name__)

# The time limit of an append, so that a publisher gets a response within two seconds.
APPEND_TIMEOUT: Final = timedelta(milliseconds=1700)
# The maximum size of all message bodies that wait for the log. Further messages are refused
# immediately.
WAITING_BYTES_MAX: Final = 64 * 1024 * 1024
WAITING_RECORDS_MAX: Final = 20_000
# The maximum number of records without a key in one call to the log.
CALL_RECORDS_MAX: Final = 100
KEYED_CALLS_MAX: Final = 16

_LATE: Final = "Message not acknowledged in time"


class Publication(NamedTuple):
    """A message that will be stored. `schema` has the headers that name the message's schema."""

    id: bytes
    body: bytes
    content_type: bytes | None
    partition_key: bytes | None
    propagated: tuple[tuple[bytes, bytes], ...] = ()
    schema: tuple[tuple[bytes, bytes], ...] = ()


def record_of(publication: Publication, *, now_ms: int, receipt: bytes | None = None) -> NewRecord:
    """Return the log record of a publication (docs/kafka.md has its headers).

    `receipt` is the value of a header. It names the API process that waits for the receipts of this
    message (app.domain.runtime.receipt).
    """
    headers = [(HEADER_ID, publication.id), (HEADER_TIMESTAMP, b"%d" % now_ms)]
    if publication.content_type:
        headers.append((HEADER_CONTENT_TYPE, publication.content_type))
    if publication.schema:
        headers += publication.schema
    if receipt is not None:
        headers.append((HEADER_RECEIPT, receipt))
    for name, value in publication.propagated:
        headers.append((HEADER_PROPAGATED_PREFIX + name, value))
    return NewRecord(
        value=publication.body,
        key=publication.partition_key,
        headers=tuple(headers),
        timestamp_ms=now_ms,
    )


class Publisher(AbstractAsyncContextManager["Publisher"]):
    """Appends the records of requests to the log. Each append has a time limit.

    After the time limit, the append is cancelled. Records that the log has not begun to store are
    then never stored. If a client disconnects, its append is not cancelled.
    """

    def __init__(
        self,
        log: MessageLog,
        *,
        timeout: timedelta = APPEND_TIMEOUT,
        counts: PublishCounts | None = None,
        writability: Writability | None = None,
    ) -> None:
        self._log = log
        self._counts = counts or PublishCounts()
        self._writability = writability or Writability()
        self._quotas = ThroughputQuotas()
        self._patience = CallDeadline(timeout)
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
        """Append the record, and wait until the log has acknowledged it as `topic.ack` requires.

        Raises:
            LogUnavailableError: The log did not acknowledge in time; the record may be stored
                anyway.
            TopicNotFoundError: The log has no such topic.
            ThroughputQuotaError: The topic has used up its quota.
        """
        size = len(record.value)
        self._quotas.admit(topic, size)
        self._admit(1, size)
        # Append the record in the task of the request. No new task is needed, because the task of a
        # request is never cancelled.
        if error := await self._append(topic, (record,), size=size):
            raise error

    async def publish_all(
        self, topic: Topic, records: Sequence[NewRecord]
    ) -> Sequence[AngeliaError | None]:
        """Append the records. Return an error for each record that is not acknowledged.

        The result has None for an acknowledged record. Records with the same key keep their order.
        The records are divided into several calls to the log (see `calls_of`). If a call fails, its
        records may be stored anyway, but they are not reported as stored.

        Raises:
            ThroughputQuotaError: The topic has used up its quota; nothing is stored.
        """
        self._quotas.admit(topic, sum(len(record.value) for record in records))
        answers: list[AngeliaError | None] = [None] * len(records)
        calls: dict[asyncio.Task[AngeliaError | None], Sequence[int]] = {}
        for indexes in calls_of(records):
            try:
                calls[self._begun(topic, [records[index] for index in indexes])] = indexes
            except LogUnavailableError as error:
                _set_answers(answers, indexes, error)
        for call, of_call in calls.items():
            _set_answers(answers, of_call, await call)
        return answers

    def _begun(
        self, topic: Topic, records: Sequence[NewRecord]
    ) -> asyncio.Task[AngeliaError | None]:
        size = sum(len(record.value) for record in records)
        self._admit(len(records), size)
        return self._tasks.create_task(self._append(topic, records, size=size))

    async def _append(
        self, topic: Topic, records: Sequence[NewRecord], *, size: int
    ) -> AngeliaError | None:
        # Return errors. A raised error would cancel the task group, and with it all other appends.
        began = perf_counter()
        try:
            with self._patience.limit():
                await self._log.append(topic.name, records, ack=topic.ack)
        except LogUnavailableError as unavailable:
            self._writability.failed(unavailable.message)
            return unavailable
        except AngeliaError as error:
            return error
        except TimeoutError:
            self._writability.failed(_LATE)
            return _unavailable(_LATE)
        except Exception:  # noqa: BLE001 - a bug affects only this message
            _log.exception("append_broke", topic=topic.name)
            return _unavailable("The message log failed")
        finally:
            self._waiting_records -= len(records)
            self._waiting_bytes -= size
        self._writability.stored_at = began
        self._counts.of(topic).add(len(records), size, began)
        return None

    def _admit(self, count: int, size: int) -> None:
        full = self._waiting_records + count > WAITING_RECORDS_MAX
        if full or self._waiting_bytes + size > WAITING_BYTES_MAX:
            raise _unavailable("Too many messages wait for the message log")
        self._waiting_records += count
        self._waiting_bytes += size


def calls_of(records: Sequence[NewRecord]) -> list[list[int]]:
    """Divide the records into calls to the log. Return the indexes of the records of each call.

    The calls are few, because each call takes time. A single call would not be enough, because all
    records of a call fail together. Records with the same key are in the same call, so that they
    keep their order.
    """
    without_key: list[list[int]] = []
    with_key: dict[int, list[int]] = {}
    for index, record in enumerate(records):
        if record.key is not None:
            with_key.setdefault(crc32(record.key) % KEYED_CALLS_MAX, []).append(index)
        elif without_key and len(without_key[-1]) < CALL_RECORDS_MAX:
            without_key[-1].append(index)
        else:
            without_key.append([index])
    return [*without_key, *with_key.values()]


def _set_answers(
    answers: list[AngeliaError | None], indexes: Sequence[int], answer: AngeliaError | None
) -> None:
    for index in indexes:
        answers[index] = answer


def _unavailable(message: str) -> LogUnavailableError:
    return LogUnavailableError(message)
