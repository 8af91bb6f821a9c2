"""Retransmissions in the trail of changes, and those that end with their subscription."""

from contextlib import suppress
from dataclasses import dataclass

from app.domain.audit import Action, Change
from app.domain.errors import JobEndedError
from app.domain.retransmission import Retransmission, RetransmissionState
from app.domain.subscription import Subscription
from app.services.audit import note
from app.storage.audit import AuditRepository
from app.storage.jobs import JobRepository
from app.storage.retransmissions import RetransmissionRepository


def change_of(action: Action, item: Retransmission) -> Change:
    """That this was done to a retransmission."""
    selection = item.request.selection
    said = {"id": item.id, "only": selection.only.value, "dryRun": item.request.dry_run}
    name = f"{item.topic}/{item.subscription}"
    return Change(action=action, kind="retransmission", name=name, after=said)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Where retransmissions end, in the transaction that deletes their subscription."""

    retransmissions: RetransmissionRepository
    jobs: JobRepository
    audit: AuditRepository

    async def of(self, subscription: Subscription) -> None:
        """Cancel those that are open: their jobs would wait in the queue for nobody."""
        for each in await self.retransmissions.open_of(subscription.id):
            # The job comes first, as for its runner, who then waits instead of us both.
            with suppress(JobEndedError):
                await self.jobs.cancel(each.id)
            if await self.retransmissions.end(each.id, RetransmissionState.CANCELLED):
                await note(self.audit, change_of(Action.CANCELLED, each))
