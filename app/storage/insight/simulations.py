"""Stores simulations: requests, and results by minute."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.catalogue.subscription import Subscription
from app.domain.errors import JobNotFoundError
from app.domain.insight.simulation import Differing, Minute, SimulationRequest
from app.domain.job import Claim, Job
from app.storage.json_values import from_json, to_json
from app.storage.tables import SimulatedMinuteRow, SimulationRow


class SimulationRepository:
    """The simulations. Each simulation has the id of its job, and the job is stored first."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def add(self, job: Job, subscription: Subscription, request: SimulationRequest) -> None:
        """Store the request for a simulation. The job must already be stored."""
        self._session.add(
            SimulationRow(
                job_id=job.id,
                subscription_id=subscription.id,
                topic=subscription.topic,
                subscription=subscription.name,
                request=to_json(request),
            )
        )
        await self._session.flush()

    async def get(self, subscription_id: str, job_id: str) -> SimulationRequest:
        """Return the request for that subscription.

        Raises:
            JobNotFoundError: The job does not exist.
        """
        row = SimulationRow
        stored = await self._session.scalar(
            select(row.request).where(row.subscription_id == subscription_id, row.job_id == job_id)
        )
        if stored is None:
            raise JobNotFoundError(f"Simulation {job_id} does not exist")
        return SimulationRequest(**from_json(SimulationRequest, stored))

    async def minutes(self, claim: Claim, *, limit: int) -> Sequence[Minute]:
        """Return the `limit` minutes in which most messages waited, ordered by time.

        If equally many waited, the minutes in which more messages arrived are preferred.
        """
        row = SimulatedMinuteRow
        fullest = (
            select(row)
            .where(row.job_id == claim.job_id, row.attempt == claim.attempt)
            .order_by(row.backlog.desc(), row.matched.desc(), row.minute)
            .limit(limit)
        )
        found = [_minute_of(each) for each in await self._session.scalars(fullest)]
        return sorted(found, key=lambda each: each.at)

    async def keep(self, claim: Claim, samples: Sequence[Mapping[str, Any]]) -> None:
        """Store these examples of a finished job. Each example has the fields of `Differing`."""
        row = SimulationRow
        found = [dict(each) for each in samples]
        kept = update(row).where(row.job_id == claim.job_id).values(samples=found)
        await self._session.execute(kept)

    async def samples(self, job_id: str) -> Sequence[Differing]:
        """Return example messages that only the current or only the proposed filters match.

        Messages that only the proposed filters match come first. Each of the two kinds is ordered
        by offset. There are no examples until the job is done.
        """
        row = SimulationRow
        found = await self._session.scalar(select(row.samples).where(row.job_id == job_id))
        return [Differing(**each) for each in found or ()]

    async def drop_overtaken(self, claim: Claim) -> None:
        """Delete the results that earlier claims of the job have stored."""
        row = SimulatedMinuteRow
        overtaken = (row.job_id == claim.job_id, row.attempt < claim.attempt)
        await self._session.execute(delete(row).where(*overtaken))


def _minute_of(row: SimulatedMinuteRow) -> Minute:
    return Minute(
        at=row.minute,
        read=row.read,
        matched=row.matched,
        present=row.present,
        added=row.added,
        size=row.size,
        peak=row.peak,
        backlog=row.backlog,
    )
