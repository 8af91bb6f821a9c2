"""Writes the traces of one subscription: its attempts and discards."""

import time
from typing import Final

from app.domain.catalogue.subscription import Subscription
from app.domain.delivery import Delivered, Discarded, Outcome
from app.domain.message import Message
from app.domain.trace import (
    TEXT_LENGTH_MAX,
    TraceSource,
    TraceStatus,
    TrackingMode,
    traced_id,
)
from app.tracing.buffer import TraceBuffer
from workers.consumer.schedule.delivery_job import DeliveryJob
from workers.delivery.batch import MessageBatch
from workers.transport.used_connection import USED_CONNECTION, UsedConnection

_INFLIGHT: Final = TraceStatus.INFLIGHT.value
_SUCCESS: Final = TraceStatus.SUCCESS.value
_FAILED: Final = TraceStatus.FAILED.value
_DISCARDED: Final = TraceStatus.DISCARDED.value
_FILTERED: Final = TraceStatus.FILTERED.value

# The longest duration in a trace entry: about a hundred years, in microseconds.
SPAN_MAX: Final = 1 << 52

# The end of an attempt: its time, status, status code, reason, and duration.
_Ended = tuple[int, str, int | None, str, int | None]


class SubscriptionTrace:
    """Writes traces of one subscription's messages. It never waits, and raises no errors.

    Each attempt has one entry, which is written when the attempt ends. If an attempt takes long,
    another entry is written before, which says that the attempt is in flight.
    """

    __slots__ = ("_buffer", "_open_attempts", "_source")

    def __init__(self, buffer: TraceBuffer, subscription: Subscription) -> None:
        self._buffer = buffer
        self._open_attempts = buffer.open_attempts
        self._source = TraceSource(
            topic=subscription.topic,
            subscription_id=subscription.id,
            subscription=subscription.name,
        )

    def began(self, job: DeliveryJob) -> None:
        """Remember the start of an attempt."""
        open_attempts = self._open_attempts
        if not open_attempts:
            self._buffer.wake()
        open_attempts[job] = self

    def opens(self, job: DeliveryJob) -> None:
        """Called before an attempt that may have to open a connection first.

        The trace entry of this attempt then says how long the connection took.
        """
        job.used_connection = UsedConnection()
        USED_CONNECTION.set(job.used_connection)

    def ended(self, job: DeliveryJob, outcome: Outcome) -> None:
        """Called when an attempt has ended. `job.attempts` does not count this attempt yet."""
        now = time.monotonic()
        self._open_attempts.pop(job, None)
        self._write_end(job, outcome, now)
        job.ended_at, job.used_connection = now, None

    def unsent(self, job: DeliveryJob, outcome: Outcome) -> None:
        """Called instead of `ended` if nothing was sent.

        Nothing is traced, unless an entry says already that the attempt is in flight. Then another
        entry says how it ended.
        """
        if self._open_attempts.pop(job, None) is None:
            self._write_end(job, outcome, time.monotonic())
        job.used_connection = None

    def _write_end(self, job: DeliveryJob, outcome: Outcome, now: float) -> None:
        status, reason = _SUCCESS, ""
        if not isinstance(outcome, Delivered):
            status, reason = _FAILED, outcome.reason[:TEXT_LENGTH_MAX]
        at, took = int((now + self._buffer.wall) * 1e6), int((now - job.sent_at) * 1e6)
        ended = (at, status, outcome.status, reason, took)
        message = job.message
        if message.__class__ is Message:
            self._write(job, message, ended)
        else:
            self._write_all(job, ended)

    def still(self, attempt: DeliveryJob, before: float) -> bool:
        """Write an entry that the attempt is in flight, if it started before the time `before`.

        Return whether an entry was written.
        """
        if attempt.sent_at >= before:
            return False
        at = int((attempt.sent_at + self._buffer.wall) * 1e6)
        self._write_all(attempt, (at, _INFLIGHT, None, "", None))
        return True

    def discarded(self, job: DeliveryJob, discarded: Discarded) -> None:
        """Called when the message is durably recorded as undelivered."""
        reason = discarded.reason[:TEXT_LENGTH_MAX]
        self._write_decision(job.message, _DISCARDED, (job.attempts, discarded.status, reason))

    def filtered(self, message: Message, why: str) -> None:
        """Called when the message is filtered out.

        `why` is not empty if the filters could not judge the message.
        """
        self._write_decision(message, _FILTERED, (0, None, why[:TEXT_LENGTH_MAX]))

    def _write_all(self, job: DeliveryJob, ended: _Ended) -> None:
        message = job.message
        if not isinstance(message, MessageBatch):
            self._write(job, message, ended)
            return
        for each in message.messages:
            self._write(job, each, ended)

    def _write(self, job: DeliveryJob, message: Message, ended: _Ended) -> None:
        at, status, code, reason, took = ended
        queued, attempts, whole = None, job.attempts, job.message
        if job.ended_at:
            waited = int((job.sent_at - job.ended_at) * 1e6)
        else:
            opened = job.opened_ms * 1_000
            queued = opened - message.published_ms * 1_000
            waited = int((job.sent_at + self._buffer.wall) * 1e6) - opened
            if not 0 <= queued <= SPAN_MAX or waited < 0:
                # Replace times that are negative or too long. Clocks may differ, and producers may
                # set any time.
                queued, waited = min(max(queued, 0), SPAN_MAX), max(waited, 0)
        connect, address, used_connection = None, "", job.used_connection
        if used_connection is not None:
            address = used_connection.address
            if used_connection.opened_at is not None and took is not None:
                connect = int((used_connection.opened_at - job.sent_at) * 1e6)
        elif job.request is not None:
            address = job.request.peer
        self._buffer.add(
            (
                self._source,
                at,
                status,
                traced_id(message.id),
                message.partition.index,
                message.offset,
                attempts + 1,
                code,
                reason,
                queued,
                waited,
                connect,
                took,
                address,
                "" if whole is message else whole.id.decode("ascii"),
                "" if message.record_target is None else message.record_target.job_id,
            )
        )

    def _write_decision(
        self, message: Message, status: str, why: tuple[int, int | None, str]
    ) -> None:
        attempts, code, reason = why
        self._buffer.add(
            (
                self._source,
                time.time_ns() // 1_000,
                status,
                traced_id(message.id),
                message.partition.index,
                message.offset,
                attempts,
                code,
                reason,
                None,
                None,
                None,
                None,
                "",
                "",
                "" if message.record_target is None else message.record_target.job_id,
            )
        )


class SubscriptionTraces:
    """Where a consumer writes the traces of its attempts, and the traces of its discards.

    `attempts` or `discards` is None if the subscription does not request it (`TrackingMode`).
    """

    __slots__ = ("attempts", "discards")

    def __init__(self, buffer: TraceBuffer, subscription: Subscription) -> None:
        mode = subscription.tracking
        trace = None if mode is TrackingMode.OFF else SubscriptionTrace(buffer, subscription)
        # The trace of attempts also gets the messages that are filtered out.
        self.attempts = trace if mode is TrackingMode.ALL else None
        self.discards = trace
