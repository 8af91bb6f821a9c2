"""Requests and cancels retransmissions inside a transaction of the caller."""

from contextlib import suppress

from app.domain.access.audit import Action, Change
from app.domain.catalogue.subscription import Subscription
from app.domain.errors import JobEndedError
from app.domain.job import JobKind, JobScope
from app.domain.replay.retransmission import Request, Retransmission, RetransmissionState
from app.services.access.audit import note
from app.storage.access.audit import AuditRepository
from app.storage.database import Session
from app.storage.insight.jobs import JobRepository
from app.storage.replay.retransmissions import RetransmissionRepository


class RetransmissionChanges:
    """Changes retransmissions and their jobs, each with an audit event."""

    def __init__(self, session: Session) -> None:
        self._retransmissions = RetransmissionRepository(session)
        self._jobs = JobRepository(session)
        self._audit = AuditRepository(session)

    async def request(
        self, subscription: Subscription, request: Request, scope: JobScope
    ) -> Retransmission:
        """Request the retransmission and its job. The next free Spark runner will run the job.

        Raises:
            JobQueueFullError: Too many jobs are waiting.
        """
        job = await self._jobs.add(JobKind.RETRANSMISSION, scope)
        requested = await self._retransmissions.add(job, subscription, request)
        await note(self._audit, _change(Action.REQUESTED, requested))
        return requested

    async def cancel(self, item: Retransmission) -> bool:
        """Cancel the retransmission and its job. Return False if it had already ended."""
        # Lock the job before the retransmission, because the Spark runner uses the same order. In
        # another order, the two transactions could wait for each other forever.
        with suppress(JobEndedError):
            await self._jobs.cancel(item.id)
        if not await self._retransmissions.end(item.id, RetransmissionState.CANCELLED):
            return False
        await note(self._audit, _change(Action.CANCELLED, item))
        return True

    async def cancel_all(self, subscription: Subscription) -> None:
        """Cancel the retransmissions of a deleted subscription that have not ended."""
        for each in await self._retransmissions.open_of(subscription.id):
            await self.cancel(each)


def _change(action: Action, item: Retransmission) -> Change:
    selection = item.request.selection
    details = {"id": item.id, "only": selection.only.value, "dryRun": item.request.dry_run}
    name = f"{item.topic}/{item.subscription}"
    return Change(action=action, kind="retransmission", name=name, after=details)
