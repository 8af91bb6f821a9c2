"""Writes trace entries for published messages. Publishers do not wait for these entries."""

import time
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, Final

from app.domain.catalogue.topic import Topic
from app.domain.errors import AngeliaError, DuplicateMessageError
from app.domain.message import HEADER_ID, NewRecord
from app.domain.trace import (
    TEXT_LENGTH_MAX,
    TraceSource,
    TraceStatus,
    TrackingMode,
    traced_id,
)
from app.services.publishing.deduplication import Claims, IdempotentPublisher
from app.services.publishing.publisher import Publisher
from app.tracing.buffer import TraceBuffer, TraceStats

DUPLICATE: Final = "Stored before, under this id"

_SUCCESS: Final = TraceStatus.SUCCESS.value
_ERROR: Final = TraceStatus.ERROR.value


class TracedPublisher(IdempotentPublisher):
    """An `IdempotentPublisher` that writes traces for topics with tracing."""

    def __init__(self, publisher: Publisher, claims: Claims, traces: TraceBuffer) -> None:
        super().__init__(publisher, claims)
        self._traces = traces

    @property
    def stats(self) -> TraceStats:
        """The statistics of the trace entries of this publisher."""
        return self._traces.stats

    def publish(
        self, topic: Topic, record: NewRecord, own_id: bytes | None
    ) -> Coroutine[Any, Any, bool]:
        """Publish the record, unless it is a duplicate, and write its trace entry."""
        # Return the coroutine of the base class directly if the topic is not traced. This saves the
        # time of a further coroutine.
        if topic.tracking is TrackingMode.OFF:
            return super().publish(topic, record, own_id)
        return self._traced(topic, record, own_id)

    def publish_all(
        self, topic: Topic, records: Sequence[NewRecord], own_ids: Sequence[bytes | None]
    ) -> Coroutine[Any, Any, Sequence[AngeliaError | bool]]:
        """Publish the records, except duplicates, and write their traces."""
        if topic.tracking is TrackingMode.OFF:
            return super().publish_all(topic, records, own_ids)
        return self._all_traced(topic, records, own_ids)

    def refused(self, topic: Topic, message_id: bytes, error: Exception) -> None:
        """Record that a message was refused before it was stored, and why."""
        if topic.tracking is not TrackingMode.OFF:
            known = error if isinstance(error, AngeliaError) else AngeliaError("Internal error")
            self._record(topic, [message_id], [known], began=time.monotonic())

    async def _traced(self, topic: Topic, record: NewRecord, own_id: bytes | None) -> bool:
        began = time.monotonic()
        try:
            duplicate = await super().publish(topic, record, own_id)
        except AngeliaError as error:
            self._record(topic, [_id_of(record)], [error], began=began)
            raise
        self._record(topic, [_id_of(record)], [duplicate], began=began)
        return duplicate

    async def _all_traced(
        self, topic: Topic, records: Sequence[NewRecord], own_ids: Sequence[bytes | None]
    ) -> Sequence[AngeliaError | bool]:
        began = time.monotonic()
        try:
            answers = await super().publish_all(topic, records, own_ids)
        except AngeliaError as error:
            self._record(topic, map(_id_of, records), [error] * len(records), began=began)
            raise
        self._record(topic, map(_id_of, records), answers, began=began)
        return answers

    def _record(
        self,
        topic: Topic,
        ids: Iterable[bytes],
        answers: Sequence[AngeliaError | bool],
        *,
        began: float,
    ) -> None:
        everything = topic.tracking is TrackingMode.ALL
        source = TraceSource(topic=topic.name)
        at, took = time.time_ns() // 1_000, int((time.monotonic() - began) * 1e6)
        for message_id, answer in zip(ids, answers, strict=True):
            status, reason = _outcome(answer, message_id)
            if not everything and status != _ERROR:
                continue
            self._traces.add(
                (
                    source,
                    at,
                    status,
                    traced_id(message_id),
                    -1,
                    -1,
                    0,
                    None,
                    reason,
                    None,
                    None,
                    None,
                    took,
                    "",
                    "",
                    "",
                )
            )


def _outcome(
    answer: AngeliaError | bool,  # noqa: FBT001 - the result of `publish`: a duplicate
    message_id: bytes,
) -> tuple[str, str]:
    if isinstance(answer, DuplicateMessageError) and _is_of(answer, message_id):
        # Write SUCCESS in the trace entry of a refused duplicate with the same message id. The
        # trace is about the message that is already stored.
        return _SUCCESS, DUPLICATE
    if isinstance(answer, AngeliaError):
        return _ERROR, answer.message[:TEXT_LENGTH_MAX]
    return _SUCCESS, DUPLICATE if answer else ""


def _is_of(answer: DuplicateMessageError, message_id: bytes) -> bool:
    return answer.duplicate_of is not None and answer.duplicate_of.encode() == message_id


def _id_of(record: NewRecord) -> bytes:
    return next((value for name, value in record.headers if name == HEADER_ID), b"")
