"""Stores Spark runners and their heartbeats."""

from datetime import timedelta
from typing import Final

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.storage.tables import SparkRunnerRow

# How long a runner counts as running after a heartbeat. A runner sends a heartbeat every two
# seconds.
LIVE_WITHIN: Final = timedelta(seconds=15)


class SparkRunnerRepository:
    """The Spark runners. The database's clock decides when a runner was last seen."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def beat(self, runner: str) -> None:
        """Store a heartbeat of this runner."""
        seen = {"seen_at": func.clock_timestamp()}
        beat = insert(SparkRunnerRow).values(id=runner, **seen)
        await self._session.execute(
            beat.on_conflict_do_update(index_elements=["id"], set_=seen),
        )

    async def any_live(self, within: timedelta = LIVE_WITHIN) -> bool:
        """Whether any runner was seen in the last time span `within`."""
        live = select(SparkRunnerRow.id).where(
            SparkRunnerRow.seen_at > func.clock_timestamp() - within
        )
        return await self._session.scalar(live.limit(1)) is not None

    async def remove(self, runner: str) -> None:
        """Delete a runner that has ended, if it exists."""
        await self._session.execute(delete(SparkRunnerRow).where(SparkRunnerRow.id == runner))

    async def prune(self, kept: timedelta) -> None:
        """Delete runners that were not seen for the time `kept`."""
        old = SparkRunnerRow.seen_at < func.clock_timestamp() - kept
        await self._session.execute(delete(SparkRunnerRow).where(old))
