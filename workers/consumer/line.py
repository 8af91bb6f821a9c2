"""The line a message travels: one subscription on one worker, from its cursors to its endpoint.

Decisions are synchronous (what to take, what an outcome means), so nothing can come between them;
only the attempt and
the undelivered record are waited for. A slot is a task that goes from message to message while
there is work, so a
backlog costs no task per message and an idle subscription costs none at all.
"""

import asyncio
import math
import random
import time
from datetime import timedelta
from typing import Final, assert_never

import structlog

from app.domain.backoff import retry_delay
from app.domain.delivery import (
    BUFFER_FULL,
    DEAD_LETTER_TOPIC_GONE,
    PUBLISH_TTL_ELAPSED,
    RETRIES_EXHAUSTED,
    TTL_ELAPSED,
    Delivered,
    Discarded,
    Outcome,
    Retry,
)
from app.domain.errors import TopicNotFoundError
from app.domain.status import Output
from app.domain.subscription import OnExhausted, State, Subscription
from app.domain.undelivered import Undelivered
from workers.consumer.breaker import Breaker
from workers.consumer.clocks import delay_left_ms, is_stale, ttl_starts_ms
from workers.consumer.counts import RecentCounts
from workers.consumer.cursor import Cursor
from workers.consumer.dead_letters import RETRY_PAUSE
from workers.consumer.fetches import Fetches
from workers.consumer.intake import Intake
from workers.consumer.line_parts import Endpoint, LineParts
from workers.consumer.order import Opened
from workers.consumer.retries import BatchJob, Job, RetryPark
from workers.consumer.undelivered import undelivered_of
from workers.delivery.batch import MessageBatch
from workers.delivery.pace import Landed, Pace, Pacing
from workers.delivery.share import Demand, Share

# What makes new messages wait while the retry buffer is full.
_WAITING: Final = frozenset({OnExhausted.WAIT, OnExhausted.RUN})

# Messages that always fail get one request in so many: the others must not wait for them.
NEW_PER_RETRY: Final = 4

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
        self._quiet_until = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0.0
        self._stopped = False
        # The change of the subscription as which it is to be suspended: nothing more is begun for
        # it as that, however long it takes to tell the database.
        self._suspended_change: int | None = None
        self._new_in_a_row = 0
        self._cursors: set[Cursor] = set()
        # None as long as there was no circuit breaker.
        self._breaker: Breaker | None = None
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
        return self._breaker is not None and self._breaker.clock.stands

    def configure(self, subscription: Subscription, endpoint: Endpoint) -> None:
        """Deliver by new settings from the next attempt on."""
        self.subscription = subscription
        self._endpoint = endpoint
        self._pace.configure(subscription.policy, time.monotonic())
        self._pacing = self._guarded()
        self._intake.configure(subscription)
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
        quiet = now < self._quiet_until
        return Demand(self._pace.lowest_part(now), self._pace.used(now), 0 if quiet else waiting)

    def output(self) -> Output:
        """What may leave now, and why no more."""
        return self._pacing.output(time.monotonic())

    def _guarded(self) -> Pacing:
        """The pace, as the circuit breaker lets it, if there is one."""
        if self._breaker is None:
            if self.subscription.circuit_breaker is None:
                return self._pace
            self._breaker = Breaker(self._parts.circuits, self._cursors, self._pump_soon)
        return self._breaker.guarded(self._pace, self.subscription)

    # ---- what cursors say -----------------------------------------------------------------------

    def opened(self, cursor: Cursor) -> None:
        """`cursor` is one of ours from now on."""
        self._cursors.add(cursor)
        if self._breaker is not None:
            self._breaker.opened(cursor)

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
        if self._breaker is not None:
            self._breaker.rest()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

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
        if self._is_suspended():
            return None
        now = time.monotonic()
        wait = self._quiet_until - now
        if wait <= 0:
            wait = self._pacing.wait(now)
        if wait > 0:
            if self._pacing.reads_ahead:
                self._intake.look_ahead()
            self._wake_after(wait, now)
            return None
        job = self._chosen(now)
        if job is None:
            self._wake_for_retries(now)
            return None
        job.cursor.started()
        if job.failing is not None and self._breaker is not None:
            self._breaker.tried_again(job, now)
        if self._intake.polling is not None and job.attempts == 0:
            self._intake.polling.started(job.message)
        if job.refused is None:
            job.sent_at, job.epoch = now, self._pacing.sent(now)
        return job

    def _chosen(self, now: float) -> Job | None:
        if not self._pacing.cautious and self._new_in_a_row >= NEW_PER_RETRY:
            return self._retried(now) or self._next_message(now)
        # Another message may arrive where one fails forever: that one is no probe.
        self._new_in_a_row += 1
        return self._next_message(now) or self._retried(now)

    def _retried(self, now: float) -> Job | None:
        self._new_in_a_row = 0
        return self._due_retry(now)

    def _due_retry(self, now: float) -> Job | None:
        due = self._retries_due(now)
        # Live deliveries of other subscriptions do not wait for all that fails here at once.
        if not self._park.has(due) or not self._parts.turns.take(self.pump):
            return None
        job = self._park.take(due)
        if job is not None and not job.refused and job.attempts > 0 and self._is_over(job, now):
            # It was due in time, and held back by the rate or by what others were told.
            job.refused = Discarded(reason=TTL_ELAPSED, status=job.status)
        return job

    def _retries_due(self, now: float) -> float:
        """When those that are tried again now have become due."""
        run = self.subscription.policy.on_exhausted is OnExhausted.RUN
        return math.inf if run and self._is_full() else now

    def _is_full(self) -> bool:
        return len(self._park) >= self.subscription.policy.retry_buffer_max

    def _next_message(self, now: float) -> Job | None:
        """The next message that may be sent now; those that may not yet are parked."""
        now_ms = time.time_ns() / 1e6
        while not self._is_held_up():
            opened = self._intake.take()
            if opened is None:
                return None
            job = self._job(opened, now=now, now_ms=now_ms)
            if job.due <= now:
                return job
            self._park.park(job, job.due)
        return None  # a job that leaves the park makes room

    def _is_held_up(self) -> bool:
        """Whether new messages wait for room in the retry buffer."""
        policy = self.subscription.policy
        waits = bool(policy.sending_delay) or policy.on_exhausted in _WAITING
        return waits and self._is_full()

    def _job(self, opened: Opened, *, now: float, now_ms: float) -> Job:
        cursor, message, opened_ms, refused = opened
        policy = self.subscription.policy
        if self._breaker is not None:
            opened_ms = self._breaker.opened_ms(opened, int(now_ms), batch_time=policy.batch_time)
        delay_ms = delay_left_ms(message, policy, now_ms=now_ms)
        elapsed = (now_ms - ttl_starts_ms(message, policy, opened_ms=opened_ms)) / 1e3
        ttl = policy.message_ttl.total_seconds()
        due = now + delay_ms / 1e3
        kind = BatchJob if isinstance(message, MessageBatch) else Job
        job = kind(message, cursor, due + ttl - max(elapsed, 0.0))
        if self._breaker is not None:
            job.deadline -= self._breaker.clock.stood(now)
        job.due, job.refused = due, refused
        if is_stale(message, policy, now_ms=now_ms + delay_ms):
            job.refused = Discarded(reason=PUBLISH_TTL_ELAPSED)
        return job

    def _wake_for_retries(self, now: float) -> None:
        times = (self._park.next_due, None if self._is_held_up() else self._intake.next_due)
        due = min((time for time in times if time is not None), default=None)
        if due is not None:
            self._wake_after(due - now, now)

    def _wake_after(self, wait: float, now: float) -> None:
        """One timer for all that waits: the earliest counts."""
        if not (self._intake or self._park):
            return
        due = now + max(wait, 0.0)
        if self._timer is not None:
            if self._timer_due <= due:
                return
            self._timer.cancel()
        self._timer_due = due
        self._timer = self._loop.call_later(due - now, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.pump()

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
                await self._discard(job, job.refused)
                return
            asked = self.subscription
            outcome = await self._attempt(job)
            self.counts.add(outcome, size=len(job.message.body or b""), retried=job.attempts > 0)
            self._learn(job, outcome)
            job.attempts += 1
            job.status = outcome.status
            match outcome:
                case Delivered():
                    job.delivered()
                    self._intake.finished(job.cursor, job.message)
                case Retry():
                    await self._retry(job, outcome)
                case Discarded():
                    if outcome.suspension is not None:
                        self._suspend(asked, outcome.suspension)
                    await self._discard(job, outcome)
                case _:
                    assert_never(outcome)
        finally:
            job.cursor.landed()
            if self._intake.polling is not None and self._intake.polling.landed(job.message):
                # The next poll may begin, in more than this slot.
                self._loop.call_soon(self.pump)

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

    async def _retry(self, job: Job, outcome: Retry) -> None:
        now = time.monotonic()
        due = now + self._delay(job, outcome).total_seconds()
        if self._breaker is not None:
            self._breaker.failed(job, now)
        if outcome.retry_after is not None:
            # The subscriber asked for quiet: nothing new goes there before either.
            self._quiet_until = max(self._quiet_until, now + outcome.retry_after.total_seconds())
        if reason := self._given_up(job, due):
            await self._discard(job, Discarded(reason=reason, status=outcome.status))
        elif not job.cursor.closing:
            self._intake.failed(job.cursor, job.message)
            await self._keep(job, due)

    async def _keep(self, job: Job, due: float) -> None:
        """Park `job` until `due`, or do what is to be done when there is no room."""
        policy, full = self.subscription.policy, self._is_full()
        if full and policy.on_exhausted is OnExhausted.DISCARD:
            await self._discard(job, Discarded(reason=BUFFER_FULL, status=job.status))
            return
        oldest = None
        if full and policy.on_exhausted is OnExhausted.DISCARD_OLDEST:
            oldest = self._park.take_oldest()
        self._park.park(job, due)
        if oldest is not None:
            await self._discard_parked(oldest)
        elif full and policy.on_exhausted is OnExhausted.ABORT:
            self._suspend(self.subscription, BUFFER_FULL)

    async def _discard_parked(self, job: Job) -> None:
        job.cursor.started()  # it is not handed over before this has been recorded
        try:
            await self._discard(job, Discarded(reason=BUFFER_FULL, status=job.status))
        finally:
            job.cursor.landed()

    def _given_up(self, job: Job, due: float) -> str | None:
        """Why there will be no retry at `due`, if there is a reason."""
        retries_max = self.subscription.policy.max_retries
        if retries_max is not None and job.attempts > retries_max:
            return RETRIES_EXHAUSTED
        return TTL_ELAPSED if self._is_over(job, due) else None

    def _is_over(self, job: Job, at: float) -> bool:
        """Whether its time to live is over at that time, as far as is known."""
        if self._breaker is None:
            return at > job.deadline
        return self._breaker.age(job, at) > job.deadline

    def _delay(self, job: Job, outcome: Retry) -> timedelta:
        if outcome.retry_after is None:
            job.backoffs += 1
        return retry_delay(
            self.subscription.policy,
            backoffs=job.backoffs,
            retry_after=outcome.retry_after,
            jitter=random.random(),  # noqa: S311 - spreads retries; nothing depends on its secrecy
        )

    def _is_suspended(self) -> bool:
        # Its cursors are closed right after it is told, and must not begin anything in between.
        told = self.subscription.state is State.SUSPENDED
        return told or self._suspended_change == self.subscription.change

    def _suspend(self, asked: Subscription, reason: str) -> None:
        """Begin nothing more, once for what was `asked`; one that was changed since goes on."""
        if asked.change != self.subscription.change or self._suspended_change == asked.change:
            return
        self._suspended_change = asked.change
        self._parts.suspensions.suspend(asked, reason)

    async def _discard(self, job: Job, discarded: Discarded) -> None:
        if not isinstance(job, BatchJob):
            await self._discard_message(job, discarded)
            return
        async with asyncio.TaskGroup() as together:
            for single in job.singles():
                together.create_task(self._discard_message(single, discarded))
        self._intake.finished(job.cursor, job.message)

    async def _discard_message(self, job: Job, discarded: Discarded) -> None:
        record = undelivered_of(job, discarded, self.subscription)
        # Its dead-letter topic first: while that cannot have it, it is not said to be discarded.
        if not await self._lettered(job, discarded, record):
            return
        await self._parts.undelivered.write(record)
        # Reached only when the message is durable in both: closing it lets the commit pass it.
        job.cursor.discarded(job.message, discarded)
        self._intake.finished(job.cursor, job.message)

    async def _lettered(self, job: Job, discarded: Discarded, record: Undelivered) -> bool:
        """Whether its dead-letter topic has it; without one the subscription is suspended."""
        asked = self.subscription
        if asked.dead_letter is None:
            return True
        try:
            await self._parts.dead_letters.append(job.message, record, asked.dead_letter.topic)
        except TopicNotFoundError:
            # It stays unfinished, so nothing is lost, and its owner is told. Who gives another
            # topic meanwhile overtakes the suspension: then it is discarded again.
            self._suspend(asked, DEAD_LETTER_TOPIC_GONE)
            job.refused = discarded
            if not job.cursor.closing:
                self._park.park(job, time.monotonic() + RETRY_PAUSE.total_seconds())
            return False
        return True
