"""What becomes of a message that was not delivered: another attempt, or the undelivered."""

import asyncio
import random
import time
from datetime import timedelta

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
from workers.consumer.choice import Choice
from workers.consumer.dead_letters import RETRY_PAUSE
from workers.consumer.intake import Intake
from workers.consumer.line_parts import LineParts
from workers.consumer.retries import BatchJob, Job, RetryPark
from workers.consumer.suspension import Suspension
from workers.consumer.tracing import LineTrace  # noqa: TC001 - hidden types help nobody
from workers.consumer.undelivered import undelivered_of


class Fate:
    """Parks what is tried again, and closes what is not once that is durable elsewhere."""

    def __init__(
        self,
        parts: LineParts,
        *,
        subscription: Subscription,
        intake: Intake,
        park: RetryPark,
        choice: Choice,
        suspension: Suspension,
    ) -> None:
        self.subscription = subscription
        # The subscriber asked for quiet: nothing goes there before (monotonic seconds).
        self.quiet_until = 0.0
        # Who is told of discards.
        self.trace: LineTrace | None = None
        self._parts = parts
        self._intake = intake
        self._park = park
        self._choice = choice
        self._suspension = suspension

    async def retry(self, job: Job, outcome: Retry) -> None:
        """Try it again later, if there is a later."""
        now = time.monotonic()
        due = now + self._delay(job, outcome).total_seconds()
        if self._choice.breaker is not None:
            self._choice.breaker.failed(job, now)
        if outcome.retry_after is not None:
            self.quiet_until = max(self.quiet_until, now + outcome.retry_after.total_seconds())
        if reason := self._given_up(job, due):
            await self.discard(job, Discarded(reason=reason, status=outcome.status))
        elif not job.cursor.closing:
            self._intake.failed(job.cursor, job.message)
            await self._keep(job, due)

    async def discard(self, job: Job, discarded: Discarded) -> None:
        """Record all of it among the undelivered, then close it."""
        if not isinstance(job, BatchJob):
            await self._discard_message(job, discarded)
            return
        async with asyncio.TaskGroup() as together:
            for single in job.singles():
                together.create_task(self._discard_message(single, discarded))
        self._intake.finished(job.cursor, job.message)

    async def _keep(self, job: Job, due: float) -> None:
        """Park `job` until `due`, or do what is to be done when there is no room."""
        on_exhausted, full = self.subscription.policy.on_exhausted, self._choice.is_full
        if full and on_exhausted is OnExhausted.DISCARD:
            await self.discard(job, Discarded(reason=BUFFER_FULL, status=job.status))
            return
        oldest = None
        if full and on_exhausted is OnExhausted.DISCARD_OLDEST:
            oldest = self._park.take_oldest()
        self._park.park(job, due)
        if oldest is not None:
            await self._discard_parked(oldest)
        elif full and on_exhausted is OnExhausted.ABORT:
            self._suspension.suspend(self.subscription, BUFFER_FULL)

    async def _discard_parked(self, job: Job) -> None:
        job.cursor.started()  # it is not handed over before this has been recorded
        try:
            await self.discard(job, Discarded(reason=BUFFER_FULL, status=job.status))
        finally:
            job.cursor.landed()

    def _given_up(self, job: Job, due: float) -> str | None:
        """Why there will be no retry at `due`, if there is a reason."""
        retries_max = self.subscription.policy.max_retries
        if retries_max is not None and job.attempts > retries_max:
            return RETRIES_EXHAUSTED
        return TTL_ELAPSED if self._choice.is_over(job, due) else None

    def _delay(self, job: Job, outcome: Retry) -> timedelta:
        if outcome.retry_after is None:
            job.backoffs += 1
        return retry_delay(
            self.subscription.policy,
            backoffs=job.backoffs,
            retry_after=outcome.retry_after,
            jitter=random.random(),  # noqa: S311 - spreads retries; nothing depends on its secrecy
        )

    async def _discard_message(self, job: Job, discarded: Discarded) -> None:
        record = undelivered_of(job, discarded, self.subscription)
        # Its dead-letter topic first: while that cannot have it, it is not said to be discarded.
        if not await self._lettered(job, discarded, record):
            return
        await self._parts.undelivered.write(record)
        # Reached only when the message is durable in both: closing it lets the commit pass it.
        job.cursor.discarded(job.message, discarded)
        if self.trace is not None:
            self.trace.discarded(job, discarded)
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
            self._suspension.suspend(asked, DEAD_LETTER_TOPIC_GONE)
            job.refused = discarded
            if not job.cursor.closing:
                self._park.park(job, time.monotonic() + RETRY_PAUSE.total_seconds())
            return False
        return True
