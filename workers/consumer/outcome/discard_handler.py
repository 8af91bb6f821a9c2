"""What becomes of a message that was not delivered: another attempt, or the undelivered."""

import asyncio
import random
import time
from datetime import timedelta
from typing import NamedTuple, Protocol

from app.domain.backoff import retry_delay
from app.domain.delivery import (
    BUFFER_FULL,
    DEAD_LETTER_TOPIC_GONE,
    RETRIES_EXHAUSTED,
    TTL_ELAPSED,
    Discarded,
    Retry,
)
from app.domain.errors import TopicNotFoundError
from app.domain.subscription import OnExhausted, Subscription
from app.domain.undelivered import Undelivered
from workers.consumer.commit.cursor import Cursor
from workers.consumer.defects import Defects
from workers.consumer.outcome.dead_letters import RETRY_PAUSE, DeadLetters
from workers.consumer.outcome.subscription_trace import SubscriptionTrace  # noqa: TC001 - hidden types help nobody
from workers.consumer.outcome.undelivered import UndeliveredLog, bare_undelivered_of, undelivered_of
from workers.consumer.schedule.delivery_job import BatchJob, DeliveryJob
from workers.consumer.schedule.retry_queue import RetryQueue
from workers.consumer.schedule.scheduler import Scheduler
from workers.consumer.schedule.suspension import Suspension
from workers.consumer.source.message_source import MessageSource


class Discard(NamedTuple):
    """A job that is given up, and why; `was_waiting`: it was waiting for another attempt."""

    job: DeliveryJob
    discarded: Discarded
    was_waiting: bool = False


class DiscardParts(Protocol):
    """What the discard handlers of a worker share."""

    undelivered: UndeliveredLog
    dead_letters: DeadLetters

    async def begin_epoch(self, group: str, cursor: Cursor) -> None:
        """Return when discards of `cursor` may be recorded, or it is abandoned."""


class DiscardHandler:
    """Queues what is tried again, and closes what is not once that is durable elsewhere."""

    def __init__(
        self,
        parts: DiscardParts,
        *,
        subscription: Subscription,
        source: MessageSource,
        retry_queue: RetryQueue,
        scheduler: Scheduler,
        suspension: Suspension,
        defects: Defects,
    ) -> None:
        self._defects = defects
        self.subscription = subscription
        # Who is told of discards.
        self.trace: SubscriptionTrace | None = None
        self._parts = parts
        self._source = source
        self._retry_queue = retry_queue
        self._scheduler = scheduler
        self._suspension = suspension

    def retry(self, job: DeliveryJob, outcome: Retry) -> Discard | None:
        """Try it again later, if there is a later; returns what is to be recorded instead."""
        now = time.monotonic()
        if outcome.progress is not None:
            job.progress = outcome.progress
        due = now + self._delay(job, outcome).total_seconds()
        if self._scheduler.breaker is not None:
            self._scheduler.breaker.failed(job, now)
        if reason := self._given_up(job, due):
            return Discard(job, Discarded(reason=reason, status=outcome.status))
        job.keep_attempts()
        if job.is_left():
            return None
        if not job.deferred:
            self._source.failed(job.cursor, job.message)
        return self._keep(job, due)

    async def record(self, discard: Discard) -> None:
        """Record all of it among the undelivered, then close it."""
        job, discarded, was_waiting = discard
        try:
            if isinstance(job, BatchJob):
                await self._record_batch(job, discarded)
            else:
                await self._record_alone(job, discarded)
        finally:
            if was_waiting:
                job.request_ended()

    def _keep(self, job: DeliveryJob, due: float) -> Discard | None:
        """Queue `job` until `due`, or do what is to be done when there is no room."""
        on_exhausted, full = self.subscription.policy.on_exhausted, self._scheduler.is_full
        if full and on_exhausted is OnExhausted.DISCARD:
            return Discard(job, Discarded(reason=BUFFER_FULL, status=job.status))
        oldest = None
        if full and on_exhausted is OnExhausted.DISCARD_OLDEST:
            oldest = self._retry_queue.take_oldest()
        self._retry_queue.add(job, due)
        if full and on_exhausted is OnExhausted.ABORT:
            self._suspension.suspend(self.subscription, BUFFER_FULL)
        if oldest is None:
            return None
        oldest.request_started()  # it is not handed over before this has been recorded
        return Discard(
            oldest, Discarded(reason=BUFFER_FULL, status=oldest.status), was_waiting=True
        )

    def _given_up(self, job: DeliveryJob, due: float) -> str | None:
        """Why there will be no retry at `due`, if there is a reason."""
        retries_max = self.subscription.policy.max_retries
        if retries_max is not None and job.attempts > retries_max:
            return RETRIES_EXHAUSTED
        return TTL_ELAPSED if self._scheduler.is_over(job, due) else None

    def _delay(self, job: DeliveryJob, outcome: Retry) -> timedelta:
        if outcome.retry_after is None:
            job.backoffs += 1
        return retry_delay(
            self.subscription.policy,
            backoffs=job.backoffs,
            retry_after=outcome.retry_after,
            jitter=random.random(),  # noqa: S311 - spreads retries; nothing depends on its secrecy
        )

    async def _record_batch(self, job: BatchJob, discarded: Discarded) -> None:
        async with asyncio.TaskGroup() as together:
            for single in job.singles():
                together.create_task(self._record_alone(single, discarded))
        self._finished(job)

    async def _record_alone(self, job: DeliveryJob, discarded: Discarded) -> None:
        """Record one message; an error costs no other message of its batch anything."""
        try:
            await self._record(job, discarded)
        except Exception as exc:  # noqa: BLE001 - only this message shall suffer
            self._defects.found(exc, step="record", message=job.message)
            await self._record_bare(job, discarded)

    async def _record(self, job: DeliveryJob, discarded: Discarded) -> None:
        if not await self._may_discard(job.cursor):
            return
        record = undelivered_of(job, discarded, self.subscription)
        # Its dead-letter topic first: while that cannot have it, it is not said to be discarded.
        if not await self._lettered(job, discarded, record):
            return
        await self._parts.undelivered.write(record)
        # Reached only when the message is durable in both: closing it lets the commit pass it.
        job.cursor.discarded(job.message, discarded)
        if self.trace is not None:
            self.trace.discarded(job, discarded)
        self._finished(job)

    async def _record_bare(self, job: DeliveryJob, discarded: Discarded) -> None:
        """Record what can be said of it without looking at it.

        Try until it is recorded: it stays unfinished, so nothing is lost meanwhile.
        """
        while job.is_open:
            try:
                if not await self._may_discard(job.cursor):
                    return
                record = bare_undelivered_of(job, discarded, self.subscription)
                await self._parts.undelivered.write(record)
                job.cursor.discarded(job.message, discarded)
            except Exception as exc:  # noqa: BLE001 - only this message shall suffer
                self._defects.found(exc, step="record", message=job.message)
                await asyncio.sleep(RETRY_PAUSE.total_seconds())
        self._finished(job)

    def _finished(self, job: DeliveryJob) -> None:
        """What comes after it in its order may go."""
        try:
            self._source.finished(job.cursor, job.message)
        except Exception as exc:  # noqa: BLE001 - no other subscription shall suffer
            self._defects.found(exc, step="finish", message=job.message)

    async def _may_discard(self, cursor: Cursor) -> bool:
        """Whether discards of `cursor` may be recorded: the commit is to know of the first."""
        if not cursor.producer_epoch:
            await self._parts.begin_epoch(self.subscription.group, cursor)
        # Another may have it by now: he sends it again.
        return not cursor.abandoned

    async def _lettered(self, job: DeliveryJob, discarded: Discarded, record: Undelivered) -> bool:
        """Whether its dead-letter topic has it; without one the subscription is suspended."""
        subscription = self.subscription
        if subscription.dead_letter is None:
            return True
        try:
            await self._parts.dead_letters.append(
                job.message, record, subscription.dead_letter.topic
            )
        except TopicNotFoundError:
            # It stays unfinished, so nothing is lost, and its owner is told. Who gives another
            # topic meanwhile overtakes the suspension: then it is discarded again.
            self._suspension.suspend(subscription, DEAD_LETTER_TOPIC_GONE)
            job.refused = discarded
            if not job.cursor.closing:
                self._retry_queue.add(job, time.monotonic() + RETRY_PAUSE.total_seconds())
            return False
        return True
