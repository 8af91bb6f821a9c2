"""One request at a time of a consumer: a slot goes from message to message while there is work."""

import asyncio
from typing import Protocol

from app.domain.catalogue.subscription import Subscription
from app.domain.delivery import Outcome
from workers.consumer.endpoint import Endpoint
from workers.consumer.outcome.discard_handler import Discard
from workers.consumer.schedule.delivery_job import DeliveryJob


class SlotOwner(Protocol):
    """The consumer that has the slots: it decides what is sent, and what an outcome means."""

    subscription: Subscription
    endpoint: Endpoint
    tasks: asyncio.TaskGroup

    async def attempt(self, job: DeliveryJob) -> Outcome:
        """Attempt it; whatever goes wrong is an outcome."""

    def defect(self, error: Exception, job: DeliveryJob) -> Outcome:
        """What it means for a message that an attempt at it failed by a defect of ours."""

    def on_response(
        self, job: DeliveryJob, outcome: Outcome, sent_as: Subscription
    ) -> Discard | None:
        """Decide what becomes of a job, and return what is to be recorded, if anything is."""

    def recover(self, error: Exception) -> None:
        """Go on in a moment: `error` is of no one message."""

    async def record(self, discard: Discard) -> None:
        """Return when it is recorded."""

    def job_ended(self, job: DeliveryJob) -> None:
        """Nothing more is done for it now."""

    def next_job(self) -> DeliveryJob | None:
        """What a slot that is through with a job does next."""

    def slot_freed(self, slot: "RequestSlot") -> None:
        """It has nothing to do."""


class RequestSlot:
    """Carries jobs, one after the other.

    An attempt that takes no waiting is called back. Whatever else there is to do (connecting first,
    retrying, recording) is waited for by a task, which ends as soon as an attempt needs none. So a
    backlog costs no task per message, and an idle subscription costs none at all.
    """

    __slots__ = ("_job", "_owner", "_sent_as")

    def __init__(self, owner: SlotOwner) -> None:
        self._owner = owner
        self._sent_as = owner.subscription
        self._job: DeliveryJob | None = None

    def send(self, job: DeliveryJob) -> None:
        """Begin with `job`."""
        if not self._sent_at_once(job):
            self._owner.tasks.create_task(self._work(job))

    def on_response(self, outcome: Outcome) -> None:
        """As `ResponseListener.on_response`."""
        job, self._job = self._job, None
        if job is None:
            return
        try:
            self._continue(job, outcome)
        except Exception as exc:  # noqa: BLE001 - no other subscription shall suffer
            self._owner.recover(exc)
            if self._job is None:
                self._owner.slot_freed(self)

    def on_defect(self, error: Exception) -> None:
        """As `ResponseListener.on_defect`."""
        if self._job is not None:
            self.on_response(self._owner.defect(error, self._job))

    def abandon(self) -> None:
        """End what is in flight, without a word."""
        job, self._job = self._job, None
        if job is not None and job.request is not None:
            job.request.cancel()

    def _sent_at_once(self, job: DeliveryJob) -> bool:
        """Whether it is in flight, and will be called back."""
        if job.refused is not None:
            return False
        owner = self._owner
        self._job, self._sent_as = job, owner.subscription
        try:
            job.request = owner.endpoint.begin(job.message, job.attempts, self)
        except Exception:  # noqa: BLE001 - goes wrong again in the attempt, which deals with it
            job.request = None
        if job.request is None:
            # Awaited from here on: nothing else may report what came of it.
            self._job = None
            return False
        return True

    def _continue(self, job: DeliveryJob, outcome: Outcome) -> None:
        owner = self._owner
        discard = owner.on_response(job, outcome, self._sent_as)
        # It may wait long for its next attempt: it keeps no request, which may have a large body.
        job.request = None
        if discard is not None:
            owner.tasks.create_task(self._work(job, discard))
            return
        owner.job_ended(job)
        next_job = owner.next_job()
        if next_job is None:
            owner.slot_freed(self)
        elif not self._sent_at_once(next_job):
            owner.tasks.create_task(self._work(next_job))

    async def _work(self, job: DeliveryJob, discard: Discard | None = None) -> None:
        """Do what must be waited for; `discard`: what is to be recorded in place of the job."""
        owner, in_flight = self._owner, False
        try:
            while not in_flight:
                await self._await_end(job, discard)
                next_job, discard = owner.next_job(), None
                if next_job is None:
                    break
                job, in_flight = next_job, self._sent_at_once(next_job)
        finally:
            if not in_flight:
                owner.slot_freed(self)

    async def _await_end(self, job: DeliveryJob, discard: Discard | None) -> None:
        owner = self._owner
        try:
            if discard is None:
                discard = await self._discarded(job)
            if discard is not None:
                await owner.record(discard)
        finally:
            owner.job_ended(job)

    async def _discarded(self, job: DeliveryJob) -> Discard | None:
        if job.refused is not None:
            return Discard(job, job.refused)
        sent_as = self._owner.subscription
        return self._owner.on_response(job, await self._owner.attempt(job), sent_as)
