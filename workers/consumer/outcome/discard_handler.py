"""Records discarded messages: in the dead-letter topic, and as undelivered messages."""

import asyncio
import time
from typing import NamedTuple, Protocol

from app.domain.catalogue.subscription import Subscription
from app.domain.delivery import (
    DEAD_LETTER_TOPIC_GONE,
    Discarded,
)
from app.domain.discards.undelivered import Undelivered
from app.domain.errors import TopicNotFoundError
from workers.consumer.commit.cursor import Cursor
from workers.consumer.defects import Defects
from workers.consumer.outcome.dead_letters import RETRY_PAUSE, DeadLetters
from workers.consumer.outcome.subscription_trace import SubscriptionTrace  # noqa: TC001 - TYPE_CHECKING would gain nothing
from workers.consumer.outcome.undelivered import UndeliveredLog, bare_undelivered_of, undelivered_of
from workers.consumer.schedule.delivery_job import BatchJob, DeliveryJob
from workers.consumer.schedule.retry_queue import RetryQueue
from workers.consumer.schedule.suspension import Suspension
from workers.consumer.source.message_source import MessageSource


class Discard(NamedTuple):
    """A message or batch (`job`) that is discarded, with the reason.

    `was_waiting` is true if the message or batch was in the retry buffer until now, and is not in
    a slot.
    """

    job: DeliveryJob
    discarded: Discarded
    was_waiting: bool = False


class DiscardParts(Protocol):
    """The parts that the discard handlers of a worker share."""

    undelivered: UndeliveredLog
    dead_letters: DeadLetters

    async def begin_epoch(self, group: str, cursor: Cursor) -> None:
        """Wait until discards of `cursor` may be recorded, or the cursor is abandoned."""


class DiscardHandler:
    """Records discarded messages, and closes them when the record is durable."""

    def __init__(
        self,
        parts: DiscardParts,
        *,
        subscription: Subscription,
        source: MessageSource,
        retry_queue: RetryQueue,
        suspension: Suspension,
        defects: Defects,
    ) -> None:
        self._defects = defects
        self.subscription = subscription
        # The trace to which discards are written; None if discards are not traced.
        self.trace: SubscriptionTrace | None = None
        self._parts = parts
        self._source = source
        self._retry_queue = retry_queue
        self._suspension = suspension

    async def record(self, discard: Discard) -> None:
        """Record the message or batch of a discard as undelivered. After that it is finished."""
        job, discarded, was_waiting = discard
        try:
            if isinstance(job, BatchJob):
                await self._record_batch(job, discarded)
            else:
                await self._record_alone(job, discarded)
        finally:
            if was_waiting:
                job.request_ended()

    async def _record_batch(self, job: BatchJob, discarded: Discarded) -> None:
        async with asyncio.TaskGroup() as together:
            for single in job.singles():
                together.create_task(self._record_alone(single, discarded))
        self._finished(job)

    async def _record_alone(self, job: DeliveryJob, discarded: Discarded) -> None:
        """Record one message. An error does not affect other messages of the same batch."""
        try:
            await self._record(job, discarded)
        except Exception as exc:  # noqa: BLE001 - an error must affect only this message
            self._defects.found(exc, step="record", message=job.message)
            await self._record_bare(job, discarded)

    async def _record(self, job: DeliveryJob, discarded: Discarded) -> None:
        if not await self._may_discard(job.cursor):
            return
        record = undelivered_of(job, discarded, self.subscription)
        # Append to the dead-letter topic first. The discard is recorded only after the append has
        # succeeded.
        if not await self._lettered(job, discarded, record):
            return
        await self._parts.undelivered.write(record)
        # Close the message, so that commits pass it. Its discard is recorded now, and its copy is
        # in the dead-letter topic, if the subscription has one.
        job.cursor.discarded(job.message, discarded)
        if self.trace is not None:
            self.trace.discarded(job, discarded)
        self._finished(job)

    async def _record_bare(self, job: DeliveryJob, discarded: Discarded) -> None:
        """Record the message without reading its body or its headers.

        If recording fails, repeat it until it succeeds. Until then the message stays unfinished, so
        nothing is lost.
        """
        while job.is_open:
            try:
                if not await self._may_discard(job.cursor):
                    return
                record = bare_undelivered_of(job, discarded, self.subscription)
                await self._parts.undelivered.write(record)
                job.cursor.discarded(job.message, discarded)
            except Exception as exc:  # noqa: BLE001 - an error must affect only this message
                self._defects.found(exc, step="record", message=job.message)
                await asyncio.sleep(RETRY_PAUSE.total_seconds())
        self._finished(job)

    def _finished(self, job: DeliveryJob) -> None:
        """Tell the source that the message is finished, so that the next one may be sent."""
        try:
            self._source.finished(job.cursor, job.message)
        except Exception as exc:  # noqa: BLE001 - an error must affect no other subscription
            self._defects.found(exc, step="finish", message=job.message)

    async def _may_discard(self, cursor: Cursor) -> bool:
        """Return whether discards of `cursor` may be recorded.

        Wait until the cursor's producer epoch is committed. It must be committed before the first
        discard.
        """
        if not cursor.producer_epoch:
            await self._parts.begin_epoch(self.subscription.group, cursor)
        # Return False if the cursor is abandoned, because another worker owns the partition. That
        # worker sends the message again.
        return not cursor.abandoned

    async def _lettered(self, job: DeliveryJob, discarded: Discarded, record: Undelivered) -> bool:
        """Append to the dead-letter topic. If the topic does not exist, suspend the subscription.

        Returns:
            Whether the message is in the topic, or the subscription has no dead-letter topic.
        """
        subscription = self.subscription
        if subscription.dead_letter is None:
            return True
        try:
            await self._parts.dead_letters.append(
                job.message, record, subscription.dead_letter.topic
            )
        except TopicNotFoundError:
            # The dead-letter topic does not exist. Suspend the subscription, and keep the message
            # unfinished, so that nothing is lost. The people who own the subscription are notified.
            # If a user sets another topic, the suspension ends, and the message is discarded again.
            self._suspension.suspend(subscription, DEAD_LETTER_TOPIC_GONE)
            job.refused = discarded
            if not job.cursor.closing:
                self._retry_queue.add(job, time.monotonic() + RETRY_PAUSE.total_seconds())
            return False
        return True
