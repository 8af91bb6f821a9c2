"""Slots. A slot sends one request of a consumer at a time, and then the next one."""

import asyncio
from typing import Protocol

from app.domain.catalogue.subscription import Subscription
from app.domain.delivery import Outcome
from workers.consumer.endpoint import Endpoint
from workers.consumer.outcome.discard_handler import Discard
from workers.consumer.schedule.delivery_job import DeliveryJob


class SlotOwner(Protocol):
    """The consumer that owns the slots.

    The consumer decides what is sent, and what follows from an outcome.
    """

    subscription: Subscription
    endpoint: Endpoint
    tasks: asyncio.TaskGroup

    async def attempt(self, job: DeliveryJob) -> Outcome:
        """Attempt to deliver a message or batch. Every error is returned as an outcome."""

    def defect(self, error: Exception, job: DeliveryJob) -> Outcome:
        """Return the outcome of an attempt that has failed with an unexpected error."""

    def on_response(
        self, job: DeliveryJob, outcome: Outcome, sent_as: Subscription
    ) -> Discard | None:
        """Decide what happens to a message or batch. Return the discard to record, if any."""

    def recover(self, error: Exception) -> None:
        """Continue after a short pause, because `error` was not caused by one message."""

    async def record(self, discard: Discard) -> None:
        """Record the discard, and wait until it is recorded."""

    def job_ended(self, job: DeliveryJob) -> None:
        """Called when the slot has finished its work for this message or batch."""

    def next_job(self) -> DeliveryJob | None:
        """Return the next message or batch for a slot that is free; None if there is none."""

    def slot_freed(self, slot: "RequestSlot") -> None:
        """Called when the slot has no work. The owner may use it again."""


class RequestSlot:
    """Sends messages and batches one after the other.

    If an attempt does not have to wait, it reports its outcome by a callback. A task is started
    only for work that waits (connecting, recording a discard), and ends after this work. So a
    backlog needs no task for each message, and an idle subscription needs no task.
    """

    __slots__ = ("_job", "_owner", "_sent_as")

    def __init__(self, owner: SlotOwner) -> None:
        self._owner = owner
        self._sent_as = owner.subscription
        self._job: DeliveryJob | None = None

    def send(self, job: DeliveryJob) -> None:
        """Send the message or batch `job`. Then send further ones, as long as the owner has any."""
        if not self._sent_at_once(job):
            self._owner.tasks.create_task(self._work(job))

    def on_response(self, outcome: Outcome) -> None:
        """Called with the outcome when the attempt has ended."""
        job, self._job = self._job, None
        if job is None:
            return
        try:
            self._continue(job, outcome)
        except Exception as exc:  # noqa: BLE001 - an error must affect no other subscription
            self._owner.recover(exc)
            if self._job is None:
                self._owner.slot_freed(self)

    def on_defect(self, error: Exception) -> None:
        """Called when an unexpected error ended the attempt, so that its outcome is unknown."""
        if self._job is not None:
            self.on_response(self._owner.defect(error, self._job))

    def abandon(self) -> None:
        """End the request in flight, and ignore its outcome."""
        job, self._job = self._job, None
        if job is not None and job.request is not None:
            job.request.cancel()

    def _sent_at_once(self, job: DeliveryJob) -> bool:
        """Start the attempt if nothing must be awaited. Return whether a callback will follow."""
        if job.refused is not None:
            return False
        owner = self._owner
        self._job, self._sent_as = job, owner.subscription
        try:
            job.request = owner.endpoint.begin(job.message, job.attempts, self)
        except Exception:  # noqa: BLE001 - the attempt fails too, and handles the error
            job.request = None
        if job.request is None:
            # Let no callback report the outcome. The attempt is awaited instead.
            self._job = None
            return False
        return True

    def _continue(self, job: DeliveryJob, outcome: Outcome) -> None:
        owner = self._owner
        discard = owner.on_response(job, outcome, self._sent_as)
        # Drop the reference to the request, which may have a large body, because the message may
        # wait long for its next attempt.
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
        """Send a message or batch whose attempt must be awaited, then further ones.

        If `discard` is given, record it instead of sending `job`.
        """
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
