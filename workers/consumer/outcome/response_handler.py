"""Decides what follows from an outcome: for the message, later messages, counts and traces."""

import random
import time
from collections.abc import Callable
from datetime import timedelta
from typing import assert_never

from app.domain.backoff import retry_delay
from app.domain.catalogue.subscription import OnExhausted, Subscription
from app.domain.delivery import (
    BUFFER_FULL,
    RETRIES_EXHAUSTED,
    TTL_ELAPSED,
    Delivered,
    Discarded,
    LastFailure,
    Outcome,
    Retry,
    last_failure,
)
from workers.consumer.defects import Defects
from workers.consumer.outcome.attempt_counts import RecentCounts
from workers.consumer.outcome.discard_handler import Discard
from workers.consumer.outcome.failing_messages import FailingMessages
from workers.consumer.outcome.latency import Latency
from workers.consumer.outcome.subscription_trace import (
    SubscriptionTrace,  # noqa: TC001 - TYPE_CHECKING would gain nothing
)
from workers.consumer.schedule.delivery_job import DeliveryJob
from workers.consumer.schedule.scheduler import Scheduler
from workers.consumer.schedule.suspension import Suspension
from workers.delivery.deferral import ANOTHER_AFTER
from workers.delivery.pace import EndedRequest, Pace, Pacing


class ResponseHandler:
    """Decides what happens to a message after each attempt. It never waits.

    `wake` is called after an outcome is handled, if more messages may be sent now.
    """

    def __init__(
        self,
        subscription: Subscription,
        *,
        scheduler: Scheduler,
        suspension: Suspension,
        pace: Pace,
        defects: Defects,
        wake: Callable[[], object],
    ) -> None:
        self.subscription = subscription
        # The pace of the subscription, further limited by the circuit breaker and by OAuth tokens.
        self.pacing: Pacing = pace
        # The trace to which attempts are written; None if attempts are not traced.
        self.trace: SubscriptionTrace | None = None
        self.counts = RecentCounts(time.monotonic())
        self.latency = Latency()
        self.failing = FailingMessages()
        self._scheduler = scheduler
        self._source = scheduler.source
        self._retry_queue = scheduler.retry_queue
        self._deferral = scheduler.deferral
        self._suspension = suspension
        self._pace = pace
        self._defects = defects
        self._wake = wake

    def on_response(
        self, job: DeliveryJob, outcome: Outcome, sent_as: Subscription, *, full: bool
    ) -> Discard | None:
        """Decide what follows from an outcome. Return the discard to record, if there is one.

        Args:
            job: The message or batch that was attempted.
            outcome: The outcome of the attempt.
            sent_as: The settings of the subscription when the message or batch was sent.
            full: Whether as many requests as allowed were in flight.
        """
        now, size = time.monotonic(), len(job.message.body or b"")
        if job.attempts == 0 and isinstance(outcome, Delivered):
            self.counts.delivered(size)
        elif isinstance(outcome, Retry) and outcome.unsent:
            self._unsent(job, outcome, now)
            return None
        else:
            self.counts.add(outcome, size=size, retried=job.attempts > 0)
        self.latency.add(now - job.sent_at)
        if self._pace.adapts or self.pacing is not self._pace:
            self._learn(job, outcome, now, full=full)
        if self.trace is not None:
            self.trace.ended(job, outcome)
        if self._deferral.active or isinstance(outcome, Retry):
            self._defer(job, outcome, now)
        job.attempts += 1
        job.status = outcome.status
        match outcome:
            case Delivered():
                job.delivered()
                if self._source.is_ordered:
                    self._source.finished(job.cursor, job.message)
                return None
            case Retry():
                return self._retry(job, outcome)
            case Discarded():
                return self._discard(job, outcome, sent_as)
        assert_never(outcome)

    def _discard(self, job: DeliveryJob, outcome: Discarded, sent_as: Subscription) -> Discard:
        job.last_failure = LastFailure(answer=outcome.answer)
        self.failing.forget(job)
        if outcome.suspension is not None:
            self._suspension.suspend(sent_as, outcome.suspension)
        return Discard(job, outcome)

    def _unsent(self, job: DeliveryJob, outcome: Retry, now: float) -> None:
        """Undo what was counted for a request of `job` that was not sent after all.

        Nothing was attempted, so nothing is counted, and the job is due immediately.
        """
        job.unsent = True
        self._pace.unsent(job.sent_at)
        self._deferral.unsent(sent_at=job.sent_at)
        # Report the outcome to the pace, although nothing was sent. The rate does not change. If
        # the request was a probe, another probe may be sent now.
        self._learn(job, outcome, now, full=False)
        if self.trace is not None:
            self.trace.unsent(job, outcome)
        if not job.is_left():
            # Let the retry buffer exceed its size, because a message that was not sent must not be
            # discarded.
            self._retry_queue.add(job, now)

    def on_error(self, error: Exception, job: DeliveryJob) -> Discard | None:
        """Handle an `error` of `on_response`. Return a discard, unless the message is finished."""
        reason = self._defects.found(error, step="outcome", message=job.message)
        self._deferral.failed(sent_at=job.sent_at)
        self._retry_queue.remove(lambda waiting: waiting is job)
        self.failing.forget(job)
        if not job.is_open:
            # The message is finished, so let the next message in its order be sent.
            self._source.finished(job.cursor, job.message)
            return None
        return Discard(job, Discarded(reason=reason, status=job.status))

    def _learn(self, job: DeliveryJob, outcome: Outcome, now: float, *, full: bool) -> None:
        ended = EndedRequest(job.pace_epoch, outcome, now - job.sent_at, job.attempts > 0, full)
        if self.pacing.learn(ended, now):
            # Wake the consumer only after the outcome is handled, because the outcome may still
            # request a pause.
            self._wake()

    def _defer(self, job: DeliveryJob, outcome: Outcome, now: float) -> None:
        deferral, waited = self._deferral, self._deferral.waits
        if isinstance(outcome, Retry):
            self._defer_message(job, outcome, now)
        elif outcome.status is None:
            deferral.failed(sent_at=job.sent_at)
        else:
            deferral.taken(sent_at=job.sent_at, now=now, limit=self._pace.part(now))
        if waited:
            self._wake()

    def _defer_message(self, job: DeliveryJob, outcome: Retry, now: float) -> None:
        deferral, job.deferred = self._deferral, False
        if outcome.retry_after is None:
            deferral.failed(sent_at=job.sent_at)
            return
        seconds = outcome.retry_after.total_seconds()
        if outcome.blameless:
            deferral.failed(sent_at=job.sent_at)
            deferral.stay_quiet(seconds, now)
            return
        rate = self._pace.rate
        job.deferred_alone += deferral.defer(seconds, sent_at=job.sent_at, now=now, rate=rate)
        # Do not count the deferral if the subscriber defers only this message, and accepts others.
        # Such a deferral says nothing about the subscriber's capacity.
        job.deferred = job.deferred_alone < ANOTHER_AFTER or deferral.refusals > job.deferred_alone

    def _retry(self, job: DeliveryJob, outcome: Retry) -> Discard | None:
        """Retry later, if the time to live allows it. Otherwise return the discard to record."""
        now = time.monotonic()
        self.failing.forget(job)
        if outcome.progress is not None:
            job.progress = outcome.progress
        job.unsent, job.last_failure = False, last_failure(outcome)
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
        return self._keep(job, outcome, due)

    def _keep(self, job: DeliveryJob, outcome: Retry, due: float) -> Discard | None:
        """Put the message or batch `job` into the retry queue until the time `due`.

        If the queue is full, return the discard to record.
        """
        on_exhausted, full = self.subscription.policy.on_exhausted, self._scheduler.is_full
        if full and on_exhausted is OnExhausted.DISCARD:
            return Discard(job, Discarded(reason=BUFFER_FULL, status=job.status))
        oldest = None
        if full and on_exhausted is OnExhausted.DISCARD_OLDEST:
            oldest = self._retry_queue.take_oldest()
        self._retry_queue.add(job, due)
        self.failing.failed(job, outcome)
        if full and on_exhausted is OnExhausted.ABORT:
            self._suspension.suspend(self.subscription, BUFFER_FULL)
        if oldest is None:
            return None
        self.failing.forget(oldest)
        oldest.request_started()  # make a closing cursor wait until this is recorded
        return Discard(
            oldest, Discarded(reason=BUFFER_FULL, status=oldest.status), was_waiting=True
        )

    def _given_up(self, job: DeliveryJob, due: float) -> str | None:
        """Return the reason not to retry the message or batch at `due`; None to retry it."""
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
