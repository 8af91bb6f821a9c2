"""The line a message travels: one subscription on one worker, from its cursors to its endpoint.

Decisions are synchronous (what to take, what an outcome means), so nothing can come between them;
only the attempt and the undelivered record are waited for. A slot is a task that goes from message
to message while there is work, so a backlog costs no task per message and an idle subscription
costs none at all.
"""

import asyncio
import time
from typing import assert_never

import structlog

from app.domain.delivery import Delivered, Discarded, Outcome, Retry
from app.domain.status import Output
from app.domain.subscription import Subscription
from workers.consumer.alarm import Alarm
from workers.consumer.breaker import Breaker
from workers.consumer.choice import Choice
from workers.consumer.counts import RecentCounts
from workers.consumer.cursor import Cursor
from workers.consumer.fate import Fate
from workers.consumer.fetches import Fetches
from workers.consumer.intake import Intake
from workers.consumer.line_parts import Endpoint, LineParts
from workers.consumer.retries import Job, RetryPark
from workers.consumer.suspension import Suspension
from workers.consumer.tracing import LineTrace, Tracks
from workers.delivery.pace import Landed, Pace, Pacing
from workers.delivery.share import Demand, Share

_log = structlog.get_logger()


class DeliveryLine:
    """Delivers what its cursors read: at most at the rate, at most `in_flight_max` in the air."""

    def __init__(self, subscription: Subscription, endpoint: Endpoint, parts: LineParts) -> None:
        self.subscription = subscription
        self._endpoint = endpoint
        self._parts = parts
        self._loop = asyncio.get_running_loop()
        self._pace = Pace(subscription.policy, time.monotonic(), pulse=parts.pulse)
        self.fetches = Fetches(parts.reader, subscription.fetch)
        self._intake = Intake(parts, self.fetches, self.pump)
        self._intake.configure(subscription)
        self._park = RetryPark()
        self._choice = Choice(subscription.policy, self._intake, self._park)
        self._suspension = Suspension(subscription, parts.suspensions)
        self._fate = Fate(
            parts,
            subscription=subscription,
            intake=self._intake,
            park=self._park,
            choice=self._choice,
            suspension=self._suspension,
        )
        # Who is told of attempts.
        self._trace: LineTrace | None = None
        self._traced(subscription)
        self._alarm = Alarm(self._loop, self.pump)
        self._stopped = False
        self._cursors: set[Cursor] = set()
        self._pacing = self._guarded()
        self.counts = RecentCounts(time.monotonic())
        self.in_air = 0

    @property
    def parked(self) -> int:
        """Messages that wait for another attempt."""
        return len(self._park)

    @property
    def is_held(self) -> bool:
        """Whether its circuit is not closed."""
        breaker = self._choice.breaker
        return breaker is not None and breaker.clock.stands

    def configure(self, subscription: Subscription, endpoint: Endpoint) -> None:
        """Deliver by new settings from the next attempt on."""
        self.subscription = self._fate.subscription = subscription
        self._endpoint = endpoint
        self._choice.policy = subscription.policy
        self._suspension.configure(subscription)
        self._pace.configure(subscription.policy, time.monotonic())
        self._pacing = self._guarded()
        self._intake.configure(subscription)
        self._traced(subscription)
        self.pump()

    def resume(self, subscription: Subscription, endpoint: Endpoint) -> None:
        """Work again, on what was known when it stopped."""
        self._stopped = False
        self._pace.forget_share()
        self.configure(subscription, endpoint)

    def share(self, share: Share) -> None:
        """Send at most this worker's share of the rate from now on."""
        self._pace.share(share, time.monotonic())
        self.pump()

    def demand(self) -> Demand | None:
        """What it does with its share, and what could be sent with more; None: it rests."""
        now = time.monotonic()
        if not (self._pace.used(now) or self._intake or self._park):
            return None
        due = self._park.next_due
        waiting = self._intake.waiting + (len(self._park) if due is not None and due <= now else 0)
        breaker = self._choice.breaker
        # Half open it needs its share, or the one message would never leave.
        quiet = now < self._fate.quiet_until or (breaker is not None and breaker.is_open(now))
        return Demand(self._pace.lowest_part(now), self._pace.used(now), 0 if quiet else waiting)

    def output(self) -> Output:
        """What may leave now, and why no more."""
        return self._pacing.output(time.monotonic())

    def _traced(self, subscription: Subscription) -> None:
        tracks = Tracks(self._parts.traces, subscription)
        self._trace = self._intake.trace = tracks.attempts
        self._fate.trace = tracks.discards

    def _guarded(self) -> Pacing:
        """The pace, as the circuit breaker lets it, if there is one."""
        choice = self._choice
        if choice.breaker is None:
            if self.subscription.circuit_breaker is None:
                return self._pace
            choice.breaker = Breaker(self._parts.circuits, self._cursors, self._pump_soon)
        return choice.breaker.guarded(self._pace, self.subscription)

    # ---- what cursors say -----------------------------------------------------------------------

    def opened(self, cursor: Cursor) -> None:
        """`cursor` is one of ours from now on."""
        self._cursors.add(cursor)
        if self._choice.breaker is not None:
            self._choice.breaker.opened(cursor)

    def readable(self, cursor: Cursor) -> None:
        """`cursor` may have a message to take."""
        self._intake.add(cursor)
        self.pump()

    def moved(self, cursor: Cursor) -> None:
        """`cursor` has something new to commit."""
        self._parts.moved(self.subscription.group, cursor)

    def release(self, cursor: Cursor) -> None:
        """Forget what waits of `cursor`, which is closing: it stays unfinished."""
        self._cursors.discard(cursor)
        self._intake.release(cursor)
        self._park.remove(lambda job: job.cursor is cursor)

    def stop(self) -> None:
        """Begin nothing more."""
        self._stopped = True
        if self._choice.breaker is not None:
            self._choice.breaker.rest()
        self._alarm.cancel()

    # ---- deciding -------------------------------------------------------------------------------

    def pump(self) -> None:
        """Fill free slots with what may be sent now."""
        while not self._stopped and self.in_air < self.subscription.policy.in_flight_max:
            job = self._take()
            if job is None:
                return
            self.in_air += 1
            self._parts.tasks.create_task(self._slot(job))

    def _take(self) -> Job | None:
        """The next job, counted against the rate; or None, and then a timer or a wake follows."""
        if self._suspension.holds:
            return None
        now, pacing = time.monotonic(), self._pacing
        wait = self._fate.quiet_until - now
        if wait <= 0:
            wait = pacing.wait(now)
        if wait > 0:
            if pacing.reads_ahead:
                self._intake.look_ahead()
            self._wake_at(now + wait, now)
            return None
        job = self._choice.take(now, cautious=pacing.cautious)
        if job is None:
            self._wake_at(self._choice.next_due, now)
            return None
        self._begin(job, now)
        return job

    def _begin(self, job: Job, now: float) -> None:
        job.cursor.started()
        if job.failing is not None and self._choice.breaker is not None:
            self._choice.breaker.tried_again(job, now)
        if self._intake.polling is not None and job.attempts == 0:
            self._intake.polling.started(job.message)
        if job.refused is None:
            job.sent_at, job.epoch = now, self._pacing.sent(now)
            if self._trace is not None:
                self._trace.began(job)

    def _wake_at(self, due: float | None, now: float) -> None:
        """Look again at `due`, if there is anything to wait for."""
        if due is not None and (self._intake or self._park):
            self._alarm.set(due, now)

    # ---- acting ---------------------------------------------------------------------------------

    async def _slot(self, first: Job) -> None:
        job: Job | None = first
        try:
            while job is not None:
                await self._deliver(job)
                # Fewer may be allowed by now than when this slot began.
                spare = self.in_air > self.subscription.policy.in_flight_max
                job = None if spare else self._take()
        finally:
            self.in_air -= 1

    async def _deliver(self, job: Job) -> None:
        try:
            if job.refused is not None:
                await self._fate.discard(job, job.refused)
                return
            asked = self.subscription
            outcome = await self._attempt(job)
            self.counts.add(outcome, size=len(job.message.body or b""), retried=job.attempts > 0)
            self._learn(job, outcome)
            if self._trace is not None:
                self._trace.ended(job, outcome)
            job.attempts += 1
            job.status = outcome.status
            match outcome:
                case Delivered():
                    job.delivered()
                    self._intake.finished(job.cursor, job.message)
                case Retry():
                    await self._fate.retry(job, outcome)
                case Discarded():
                    if outcome.suspension is not None:
                        self._suspension.suspend(asked, outcome.suspension)
                    await self._fate.discard(job, outcome)
                case _:
                    assert_never(outcome)
        finally:
            job.cursor.landed()
            if self._intake.polling is not None and self._intake.polling.landed(job.message):
                # The next poll may begin, in more than this slot.
                self._pump_soon()

    def _learn(self, job: Job, outcome: Outcome) -> None:
        now = time.monotonic()
        full = self.in_air >= self.subscription.policy.in_flight_max
        landed = Landed(job.epoch, outcome, now - job.sent_at, job.attempts > 0, full)
        if self._pacing.landed(landed, now):
            # Not before this outcome is dealt with: it may ask for quiet.
            self._pump_soon()

    def _pump_soon(self) -> None:
        self._loop.call_soon(self.pump)

    async def _attempt(self, job: Job) -> Outcome:
        try:
            return await self._endpoint.attempt(job.message, retry_count=job.attempts)
        except Exception as exc:  # noqa: BLE001 - whatever it is, only this message shall suffer
            # A defect of ours must not stop other subscriptions; this message is retried, then
            # recorded.
            _log.exception("attempt_failed_unexpectedly", subscription=self.subscription.group)
            return Retry(reason=f"Internal error: {type(exc).__name__}")
