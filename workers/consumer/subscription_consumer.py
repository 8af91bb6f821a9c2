"""Delivers the messages of one subscription on one worker, from its cursors to its endpoint.

Decisions (what to send, what an outcome means) are synchronous, so nothing can happen between them.
Only attempts and records of discards are awaited, in slots (`workers.consumer.request_slot`).
"""

import asyncio
import time
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

from app.domain.catalogue.subscription import Subscription
from app.domain.delivery import Discarded, Outcome, Retry
from app.domain.status import Output, RateMode
from workers.consumer.commit.cursor import Cursor
from workers.consumer.commit.tally import Finished, Tally
from workers.consumer.consumer_parts import ConsumerParts
from workers.consumer.defects import Defects
from workers.consumer.endpoint import BrokenEndpoint, Endpoint
from workers.consumer.outcome.attempt_counts import RecentCounts
from workers.consumer.outcome.discard_handler import Discard, DiscardHandler
from workers.consumer.outcome.failing_messages import FailingMessages
from workers.consumer.outcome.latency import Latency
from workers.consumer.outcome.reported_attempts import ReportedAttempts
from workers.consumer.outcome.response_handler import ResponseHandler
from workers.consumer.outcome.subscription_trace import SubscriptionTrace, SubscriptionTraces
from workers.consumer.request_slot import RequestSlot
from workers.consumer.schedule.breaker import Breaker
from workers.consumer.schedule.delivery_job import DeliveryJob
from workers.consumer.schedule.retry_queue import RetryQueue
from workers.consumer.schedule.scheduler import Scheduler
from workers.consumer.schedule.suspension import Suspension
from workers.consumer.source.fetches import Fetches
from workers.consumer.source.message_source import MessageSource
from workers.consumer.wakeup_timer import WakeupTimer
from workers.delivery.deferral import Deferral
from workers.delivery.oauth.destination import AuthorizedDestination
from workers.delivery.oauth.token_pace import TokenPace
from workers.delivery.pace import Pace, Pacing
from workers.delivery.share import Demand, Share
from workers.reading.holds import Hold
from workers.transport.late_start import set_may_start

# How many seconds a consumer waits after an unexpected error before it takes messages again. This
# is only for errors that were not caused by one message.
_RECOVER_S: Final = 1.0


class SubscriptionConsumer:
    """Delivers the messages of its cursors, within the subscription's rate and `in_flight_max`.

    `pump` sends what may be sent, and `on_response` handles each outcome. All other methods lead to
    these two. Cursors report new messages (`readable`) and new positions (`moved`). The owner of
    the consumer opens, configures and stops it.
    """

    def __init__(
        self, subscription: Subscription, endpoint: Endpoint, parts: ConsumerParts
    ) -> None:
        self.subscription = subscription
        self.endpoint = endpoint
        self._parts = parts
        self.tasks = parts.tasks
        self._loop = asyncio.get_running_loop()
        self._pace = Pace(subscription.policy, time.monotonic(), watchdog=parts.watchdog)
        self.fetches = Fetches(parts.reader, subscription.fetch)
        self.defects = Defects(subscription.group)
        self._source = MessageSource(parts, self.fetches, self.pump, defects=self.defects)
        self._source.configure(subscription)
        self._retry_queue = RetryQueue()
        self._deferral = Deferral(learns=subscription.policy.adaptive_rate)
        self._scheduler = Scheduler(
            subscription.policy,
            self._source,
            self._retry_queue,
            deferral=self._deferral,
            defects=self.defects,
        )
        self._suspension = Suspension(subscription, parts.suspensions)
        self._discards = DiscardHandler(
            parts,
            subscription=subscription,
            source=self._source,
            retry_queue=self._retry_queue,
            suspension=self._suspension,
            defects=self.defects,
        )
        self._responses = ResponseHandler(
            subscription,
            scheduler=self._scheduler,
            suspension=self._suspension,
            pace=self._pace,
            defects=self.defects,
            wake=self._pump_soon,
        )
        self.attempts = ReportedAttempts(self._responses.counts, self._responses.latency)
        self._cursors: set[Cursor] = set()
        self._tally = Tally()
        # The trace to which attempts are written; None if attempts are not traced.
        self._trace: SubscriptionTrace | None = None
        self._traced(subscription)
        self._wakeup_timer = WakeupTimer(self._loop, self.pump)
        # Whether the rate allows no further request now. This is checked again when the timer is
        # due.
        self._paced_out = False
        # The reason why the settings could not be applied. While there is a reason, nothing is
        # sent.
        self.unapplied = ""
        self._stopped = False
        self._pacing = self._responses.pacing = self._paced()
        self._in_flight_max = subscription.policy.in_flight_max
        # The number of requests in flight. A request also counts during the work that follows its
        # response.
        self.in_flight = 0
        # All slots of this consumer.
        self._slots: list[RequestSlot] = []
        # The slots without work.
        self._free: list[RequestSlot] = []

    @property
    def counts(self) -> RecentCounts:
        """The counts of this subscription's attempts."""
        return self._responses.counts

    @property
    def latency(self) -> Latency:
        """The durations of this subscription's requests."""
        return self._responses.latency

    @property
    def failing(self) -> FailingMessages:
        """The messages that failed last."""
        return self._responses.failing

    @property
    def waiting_retries(self) -> int:
        """The number of messages that wait for another attempt."""
        return len(self._retry_queue)

    @property
    def unjudged(self) -> int:
        """The number of messages filtered out because the filters could not judge them."""
        return self._source.unjudged

    @property
    def is_held(self) -> bool:
        """Whether the subscription's circuit is not closed."""
        breaker = self._scheduler.breaker
        return breaker is not None and breaker.clock.is_paused

    @property
    def hold(self) -> Hold | None:
        """Return the oldest reason why messages must wait before they can be decoded.

        Return None if no message of this subscription waits to be decoded.
        """
        holds = [hold for cursor in self._cursors if (hold := cursor.hold) is not None]
        return min(holds, key=lambda hold: hold.since, default=None)

    @property
    def is_stopped(self) -> bool:
        """Whether this consumer starts nothing until it gets new settings."""
        return self._stopped

    @property
    def is_broken(self) -> bool:
        """Whether an unexpected error prevented creating the endpoint or the filters."""
        return isinstance(self.endpoint, BrokenEndpoint) or self._source.is_broken

    def finished(self) -> Finished:
        """Return the counts of messages that were finished since the worker started."""
        return self._tally.total(self._cursors)

    def configure(self, subscription: Subscription, endpoint: Endpoint) -> None:
        """Use new settings from the next attempt on. A stopped consumer starts again."""
        # Stop the consumer first, because nothing may be sent with incomplete settings. If an error
        # is raised below, the consumer stays stopped.
        self._stopped = True
        if subscription.endpoint != self.subscription.endpoint:
            self._forget_deferrals()
        self.subscription = subscription
        self._discards.subscription = self._responses.subscription = subscription
        self.endpoint = endpoint
        self._in_flight_max = subscription.policy.in_flight_max
        self._scheduler.configure(subscription.policy)
        self._suspension.configure(subscription)
        self._pace.configure(subscription.policy, time.monotonic())
        self._deferral.learns = subscription.policy.adaptive_rate
        self._pacing = self._responses.pacing = self._paced()
        self._source.configure(subscription)
        self._traced(subscription)
        self._stopped, self.unapplied = False, ""
        self.pump()

    def _forget_deferrals(self) -> None:
        """Forget which pauses the subscriber asked for, because there is another one now."""
        self._deferral.forget()
        self._retry_queue.hasten(time.monotonic())

    def forget_share(self) -> None:
        """Send nothing until `share` is called again."""
        self._pace.forget_share()

    def share(self, share: Share) -> None:
        """Send at most this share of the subscription's rate from now on."""
        self._pace.share(share, time.monotonic())
        self.pump()

    def demand(self) -> Demand | None:
        """Return how much of its share this worker uses, and how much more it could send.

        None means that the consumer is idle.
        """
        now = time.monotonic()
        if not (self._pace.used(now) or self._source or self._retry_queue):
            return None
        due = self._retry_queue.next_due
        waiting = self._source.waiting + (
            len(self._retry_queue) if due is not None and due <= now else 0
        )
        breaker = self._scheduler.breaker
        # Report no waiting messages while nothing may be sent, so that no share is requested. A
        # half-open circuit is different: without a share, its probe could never be sent.
        quiet = self._deferral.is_quiet(now) or (breaker is not None and breaker.is_open(now))
        return Demand(self._pace.lowest_part(now), self._pace.used(now), 0 if quiet else waiting)

    def output(self) -> Output:
        """Return how much this subscription may send now, and what limits it."""
        if self.unapplied:
            reason = f"Its settings could not be applied: {self.unapplied}"
            return Output(reason=reason, unapplied=True)
        now = time.monotonic()
        output = self._pacing.output(now)
        if self._deferral.active:
            output = self._deferral.seen(output, now)
        if (probe := self._next_probe()) is not None:
            # Round the time, so that it rarely differs between two reports of the same probe.
            at = round(time.time() + probe - now, 1)
            output = replace(output, next_probe_at=datetime.fromtimestamp(at, UTC))
        return output if self.hold is None else _held(output, self.hold)

    def _next_probe(self) -> float | None:
        """Return when the next message may be tried (monotonic seconds).

        Return None if the pace allows more than probes, or if no message waits.
        """
        allowed_at = self._pacing.next_probe
        ready_at = None if allowed_at is None else self._scheduler.ready_at
        if allowed_at is None or ready_at is None:
            return None
        return max(allowed_at, self._deferral.quiet_until, ready_at)

    def _traced(self, subscription: Subscription) -> None:
        traces = SubscriptionTraces(self._parts.traces, subscription)
        self._trace = self._source.trace = self._responses.trace = traces.attempts
        self._discards.trace = traces.discards
        for cursor in self._cursors:
            # Keep the cursor traced if it was traced before. Its earlier messages must also be
            # committed after their traces.
            cursor.traced = cursor.traced or traces.discards is not None

    def _paced(self) -> Pacing:
        """Return the pace, limited by the circuit breaker and by OAuth tokens."""
        guarded, endpoint = self._guarded(), self.endpoint
        if isinstance(endpoint, AuthorizedDestination):
            return TokenPace(guarded, endpoint.bearer, self._pump_soon)
        return guarded

    def _guarded(self) -> Pacing:
        """Return the pace, limited by the circuit breaker, if there is one."""
        scheduler = self._scheduler
        if scheduler.breaker is None:
            if self.subscription.circuit_breaker is None:
                return self._pace
            scheduler.breaker = Breaker(
                self._parts.circuits, self._cursors, self._pump_soon, has_new=scheduler.has_new
            )
        return scheduler.breaker.guarded(self._pace, self.subscription)

    # ---- called by cursors ----------------------------------------------------------------------

    def opened(self, cursor: Cursor) -> None:
        """Add `cursor` to this consumer."""
        self._cursors.add(cursor)
        cursor.traced = self._discards.trace is not None
        if self._scheduler.breaker is not None:
            self._scheduler.breaker.opened(cursor)

    def readable(self, cursor: Cursor) -> None:
        """Called when `cursor` may have a message to take."""
        self._source.add(cursor)
        self.pump()

    def moved(self, cursor: Cursor) -> None:
        """Called when `cursor` has a new position to commit."""
        self._parts.moved(self.subscription.group, cursor)

    def release(self, cursors: AbstractSet[Cursor]) -> None:
        """Drop the waiting messages of closing `cursors`. The messages stay unfinished."""
        self._cursors -= cursors
        for cursor in cursors:
            self._tally.leave(cursor)
        self._source.release(cursors)
        self._retry_queue.remove(lambda job: job.leave(cursors))
        # Check soon for messages that may be sent now. Some may have waited for an earlier message
        # that was dropped by this method, or for space in the retry buffer.
        self._pump_soon()

    def stop(self) -> None:
        """Start no more requests, until `configure` is called."""
        self._stopped = True
        if self._scheduler.breaker is not None:
            self._scheduler.breaker.rest()
        self._wakeup_timer.cancel()

    def abandon(self) -> None:
        """End the requests in flight without a result, because the worker ends."""
        self.stop()
        for slot in self._slots:
            slot.abandon()

    # ---- sending messages -----------------------------------------------------------------------

    def pump(self) -> None:
        """Send messages that may be sent now, as long as the limit of requests in flight allows."""
        self._paced_out = False
        try:
            while not self._stopped and self.in_flight < self._in_flight_max:
                job = self._take()
                if job is None:
                    return
                self.in_flight += 1
                self._slot().send(job)
        except Exception as exc:  # noqa: BLE001 - an error must affect no other subscription
            self.recover(exc)

    def _slot(self) -> RequestSlot:
        if self._free:
            return self._free.pop()
        slot = RequestSlot(self)
        self._slots.append(slot)
        return slot

    def _take(self) -> DeliveryJob | None:
        """Return the next message or batch to send. From now on, it counts against the rate.

        Returns:
            None if nothing may be sent now. Then a timer or an event starts the next try.
        """
        if self._suspension.holds:
            return None
        now, pacing = time.monotonic(), self._pacing
        wait = self._deferral.wait(now) if self._deferral.active else 0.0
        if wait <= 0:
            wait = pacing.wait(now)
        if wait > 0:
            if pacing.reads_ahead:
                self._source.read_ahead()
            self._paced_out = self._wake_at(now + wait, now)
            return None
        job = self._scheduler.take(now, cautious=pacing.cautious)
        if job is None:
            self._wake_at(self._scheduler.next_due, now)
            return None
        job.request_started()
        try:
            self._begin(job, now)
        except Exception as exc:  # noqa: BLE001 - an error must affect only this message
            # The job failed before it was sent. After a deferral, only one request is sent at
            # first. If the failed job was this request, let another job be that request.
            self._deferral.failed(sent_at=job.sent_at)
            reason = self.defects.found(exc, step="begin", message=job.message)
            job.refused = job.refused or Discarded(reason=reason)
        return job

    def _begin(self, job: DeliveryJob, now: float) -> None:
        if job.failing is not None and self._scheduler.breaker is not None:
            self._scheduler.breaker.tried_again(job, now)
        if self._source.polling is not None and not job.sent_at:
            self._source.polling.started(job.message)
        if job.refused is None:
            job.sent_at, job.pace_epoch = now, self._pacing.sent(now)
            if self._deferral.active:
                self._deferral.sent(now)
            if self._trace is not None:
                self._trace.began(job)

    def recover(self, error: Exception) -> None:
        """Take messages again after a pause, because `error` was not caused by one message."""
        self.defects.found(error, step="take")
        if not self._stopped:
            now = time.monotonic()
            self._wakeup_timer.set(now + _RECOVER_S, now)

    def _wake_at(self, due: float | None, now: float) -> bool:
        """Call `pump` again at the time `due`. Return whether `pump` will be called.

        It is not called if `due` is None, or if there is nothing to send.
        """
        if due is None or not (self._source or self._retry_queue):
            return False
        self._wakeup_timer.set(due, now)
        return True

    # ---- called by request slots ----------------------------------------------------------------

    def next_job(self) -> DeliveryJob | None:
        """Return the next message or batch for a slot that is free; None if there is none."""
        if self._paced_out or self._stopped or self._source.waits_for_budget:
            return None
        # Send no more in this slot if the limit of requests in flight was lowered.
        if self.in_flight > self._in_flight_max:
            return None
        try:
            return self._take()
        except Exception as exc:  # noqa: BLE001 - an error must affect no other subscription
            self.recover(exc)
            return None

    def slot_freed(self, slot: RequestSlot) -> None:
        """Called when the slot has no work. The owner may use it again."""
        self.in_flight -= 1
        self._free.append(slot)

    def on_response(
        self, job: DeliveryJob, outcome: Outcome, sent_as: Subscription
    ) -> Discard | None:
        """Decide what happens to a message or batch. Return the discard to record, if there is one.

        This method never waits. So no request starts before the outcome has taken full effect.
        """
        full = self.in_flight >= self._in_flight_max
        try:
            return self._responses.on_response(job, outcome, sent_as, full=full)
        except Exception as exc:  # noqa: BLE001 - an error must affect only this message
            return self._responses.on_error(exc, job)

    async def record(self, discard: Discard) -> None:
        """Record the discard, and wait until it is recorded."""
        await self._discards.record(discard)

    def job_ended(self, job: DeliveryJob) -> None:
        """Called when the slot has finished its work for this message or batch."""
        job.request_ended()
        if self._source.polling is not None and self._source.polling.ended(job.message):
            # No message of the poll is in delivery any more. Fill all free slots, because the next
            # poll may start now.
            self._pump_soon()

    def _pump_soon(self) -> None:
        self._loop.call_soon(self.pump)

    async def attempt(self, job: DeliveryJob) -> Outcome:
        """Attempt to deliver a message or batch. Every error is returned as an outcome."""
        if self._trace is not None:
            self._trace.opens(job)
        set_may_start(partial(self._may_start, job))
        try:
            return await self.endpoint.attempt(job.message, retry_count=job.attempts)
        except Exception as exc:  # noqa: BLE001 - an error must affect only this message
            return self.defect(exc, job)

    def _may_start(self, job: DeliveryJob) -> bool:
        """Whether the request of `job` may be sent now, after it had to wait for its connection.

        If true, the request counts against the rate from now on.
        """
        now = time.monotonic()
        if self._stopped or self._suspension.holds or job.cursor.closing:
            return False
        if self._deferral.forbids(sent_at=job.sent_at, now=now):
            return False
        # Let a request miss at most one time slot. If it has missed one, send it even outside of a
        # slot, because its connection may not stay open until the next slot.
        return self._pace.moved(job.sent_at, now, out_of_turn=job.unsent)

    def defect(self, error: Exception, job: DeliveryJob) -> Outcome:
        """Return the outcome of an attempt that has failed with an unexpected error."""
        # Return an outcome instead of raising the error, so that the error does not stop other
        # subscriptions. The message is retried, and finally recorded as undelivered.
        return Retry(reason=self.defects.found(error, step="attempt", message=job.message))


def _held(output: Output, hold: Hold) -> Output:
    if output.mode is not RateMode.NORMAL:
        return replace(output, held=str(hold))
    return replace(output, held=str(hold), reason=str(hold), since=hold.since)
