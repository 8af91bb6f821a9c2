"""Chooses what a consumer sends next: a new message or a retry."""

import math
import time
from typing import Final

from app.domain.catalogue.subscription import DeliveryPolicy, OnExhausted
from app.domain.delivery import PUBLISH_TTL_ELAPSED, TTL_ELAPSED, Discarded
from workers.consumer.defects import Defects
from workers.consumer.schedule.breaker import Breaker  # noqa: TC001 - TYPE_CHECKING would gain nothing
from workers.consumer.schedule.delivery_job import DeliveryJob, job_of
from workers.consumer.schedule.eviction import Eviction
from workers.consumer.schedule.retry_queue import RetryQueue
from workers.consumer.source.message_source import MessageSource
from workers.consumer.source.message_times import delay_left_ms, is_stale, ttl_starts_ms
from workers.consumer.source.order import Opened
from workers.delivery.deferral import Deferral

# After this many new messages one after another, a retry that is due is sent before the next new
# message.
NEW_PER_RETRY: Final = 4
# If the oldest deferred message is due within this many seconds, no other message is sent before
# it. The message may be due a little later than the subscriber requested.
WAIT_FOR_OLDEST_S: Final = 1.0


class Scheduler:
    """Chooses between the `source` and the `retry_queue`. It never waits.

    Deferred messages are sent before all others, the oldest first, because their times to live are
    running. The times to live of new messages in the log are not running yet.
    """

    def __init__(
        self,
        policy: DeliveryPolicy,
        source: MessageSource,
        retry_queue: RetryQueue,
        *,
        deferral: Deferral,
        defects: Defects,
    ) -> None:
        self.deferral = deferral
        self._defects = defects
        self._eviction = Eviction(policy, source, retry_queue)
        self.configure(policy)
        # The effect of a circuit breaker on the messages. It is None until the subscription gets a
        # circuit breaker for the first time.
        self.breaker: Breaker | None = None
        self.source = source
        self.retry_queue = retry_queue
        self._new_in_a_row = 0

    def configure(self, policy: DeliveryPolicy) -> None:
        """Use the settings of `policy` from now on."""
        self.policy = policy
        self._ttl_s = policy.message_ttl.total_seconds()
        delayed = bool(policy.sending_delay)
        self._waits_for_room = delayed or policy.waits_for_room
        self._eviction.configure(policy)
        # Whether the time of publication matters: for a delay, or for `publishTtl`.
        self._is_timed = delayed or policy.publish_ttl is not None

    @property
    def next_due(self) -> float | None:
        """Return when a message or batch can be sent that cannot be sent now; None if unknown."""
        if self._waits_for_deferred(time.monotonic()):
            # Return the time of the deferred message, because no other retry is sent before this
            # message.
            return self.retry_queue.deferred_due
        held_up, eviction = self._is_held_up(), self._eviction
        new = eviction.next_due(self.breaker) if held_up else self.source.next_due
        times = (self.retry_queue.next_due, new)
        return min((time for time in times if time is not None), default=None)

    @property
    def ready_at(self) -> float | None:
        """Return when a message or batch can be sent; -inf if this is now; None if none waits."""
        return -math.inf if self.has_new() else self.next_due

    def has_new(self) -> bool:
        """Whether a new message could probably be sent now."""
        return self.source.is_ready and not self._is_held_up()

    @property
    def is_full(self) -> bool:
        """Whether the retry buffer is full."""
        return len(self.retry_queue) >= self.policy.retry_buffer_max

    def take(self, now: float, *, cautious: bool) -> DeliveryJob | None:
        """Return the next message or batch to send; None if nothing can be sent now.

        `cautious` means that the subscriber is down, or was down.
        """
        if self._waits_for_deferred(now):
            return self._deferred_job(now)
        if not cautious and self._new_in_a_row >= NEW_PER_RETRY:
            return self._retried(now) or self._next_message(now)
        # Prefer a new message as the next one, because a message that always fails is a bad probe.
        self._new_in_a_row += 1
        return self._next_message(now) or self._retried(now)

    def is_over(self, job: DeliveryJob, at: float) -> bool:
        """Whether the time to live of `job` will have ended at `at`, as far as known now."""
        if self.breaker is None:
            return at > job.deadline
        return self.breaker.age(job, at) > job.deadline

    def _waits_for_deferred(self, now: float) -> bool:
        """Whether all other messages wait for the oldest deferred message."""
        deferral = self.deferral
        soon = now + WAIT_FOR_OLDEST_S if deferral.waits else now
        return self.retry_queue.has_deferred(soon) and not deferral.tries_another

    def _retried(self, now: float) -> DeliveryJob | None:
        self._new_in_a_row = 0
        due = self._retries_due(now)
        # Check the budget of this turn, so that live deliveries of other subscriptions do not wait
        # for many retries.
        if not self.retry_queue.has(due) or not self.source.take_start():
            return None
        return self._unless_over(self.retry_queue.take(due), now)

    def _deferred_job(self, now: float) -> DeliveryJob | None:
        # Check the budget of this turn, because a deferred message is also a retry.
        if not self.retry_queue.has_deferred(now) or not self.source.take_start():
            return None
        return self._unless_over(self.retry_queue.take_deferred(), now)

    def _unless_over(self, job: DeliveryJob | None, now: float) -> DeliveryJob | None:
        """Return `job`. Mark it as refused if its time to live has ended."""
        if job is not None and not job.refused and job.attempts > 0 and self.is_over(job, now):
            # Mark the message or batch as refused. It was due before its time to live ended, but
            # the rate or a deferral delayed it for too long.
            job.refused = Discarded(reason=TTL_ELAPSED, status=job.status)
        return job

    def _retries_due(self, now: float) -> float:
        """Return the time up to which retries count as due: usually `now`.

        If the retry buffer is full, and the subscription's settings say that retries are then sent
        early, all retries are due.
        """
        run = self.policy.on_exhausted is OnExhausted.RUN
        return math.inf if run and self.is_full else now

    def _next_message(self, now: float) -> DeliveryJob | None:
        """Return the next new message that may be sent now.

        New messages that must wait are put into the retry queue. While that queue is full, return a
        message that is evicted from it, or None if none may be evicted.
        """
        now_ms = time.time_ns() / 1e6
        while not (self._waits_for_room and self.is_full):
            opened = self.source.take()
            if opened is None:
                return None
            try:
                job = self._job(opened, now=now, now_ms=now_ms)
            except Exception as exc:  # noqa: BLE001 - an error must affect only this message
                job = self._broken(exc, opened, now)
            if job.due <= now:
                return job
            self.retry_queue.add(job, job.due)
        return self._eviction.evict(now, self.breaker)

    def _is_held_up(self) -> bool:
        """Whether new messages must wait until the retry buffer has space."""
        return self._waits_for_room and self.is_full

    def _job(self, opened: Opened, *, now: float, now_ms: float) -> DeliveryJob:
        if self._is_timed or self.breaker is not None:
            return self._timed_job(opened, now=now, now_ms=now_ms)
        cursor, message, opened_ms, refused, _ = opened
        elapsed = (now_ms - opened_ms) / 1e3
        deadline = now + self._ttl_s - elapsed if elapsed > 0 else now + self._ttl_s
        job = job_of(message, cursor, deadline)
        if cursor.attempts:
            job.recall_attempts()
        job.due, job.refused, job.opened_ms, job.ttl_s = now, refused, opened_ms, self._ttl_s
        return job

    def _broken(self, error: Exception, opened: Opened, now: float) -> DeliveryJob:
        """Return the message marked as refused: it is recorded as undelivered, and not sent."""
        cursor, message, _, refused, _ = opened
        reason = self._defects.found(error, step="choose", message=message)
        job = job_of(message, cursor, now)
        job.refused = refused or Discarded(reason=reason)
        return job

    def _timed_job(self, opened: Opened, *, now: float, now_ms: float) -> DeliveryJob:
        cursor, message, opened_ms, refused, _ = opened
        policy, breaker = self.policy, self.breaker
        if breaker is not None:
            opened_ms = breaker.opened_ms(opened, int(now_ms), batch_time=policy.batch_time)
        delay_ms = delay_left_ms(message, policy, now_ms=now_ms)
        elapsed = (now_ms - ttl_starts_ms(message, policy, opened_ms=opened_ms)) / 1e3
        due = now + delay_ms / 1e3
        job = job_of(message, cursor, due + self._ttl_s - max(elapsed, 0.0))
        job.recall_attempts()
        if breaker is not None:
            job.deadline -= breaker.clock.paused_for(now)
        job.due, job.refused, job.opened_ms, job.ttl_s = due, refused, opened.opened_ms, self._ttl_s
        if is_stale(message, policy, now_ms=now_ms + delay_ms):
            job.refused = Discarded(reason=PUBLISH_TTL_ELAPSED)
        return job
