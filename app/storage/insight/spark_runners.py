"""Spark runners, by their heartbeats."""

from datetime import timedelta
from typing import Final

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.storage.tables import SparkRunnerRow

# A runner says every two seconds that it lives.
LIVE_WITHIN: Final = timedelta(seconds=15)


class SparkRunnerRepository:
    """The runners. When one was seen last is told by the database's clock, for all alike."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def beat(self, runner: str) -> None:
        """This runner lives."""
        seen = {"seen_at": func.clock_timestamp()}
        beat = insert(SparkRunnerRow).values(id=runner, **seen)
        await self._session.execute(
            beat.on_conflict_do_update(index_elements=["id"], set_=seen),
        )

    async def any_live(self, within: timedelta = LIVE_WITHIN) -> bool:
        """Whether one was seen within that time."""
        live = select(SparkRunnerRow.id).where(
            SparkRunnerRow.seen_at > func.clock_timestamp() - within
        )
        return await self._session.scalar(live.limit(1)) is not None

    async def remove(self, runner: str) -> None:
        """Forget a runner that has ended; none there is fine."""
        await self._session.execute(delete(SparkRunnerRow).where(SparkRunnerRow.id == runner))

    async def prune(self, kept: timedelta) -> None:
        """Forget those that were not seen for that time."""
        old = SparkRunnerRow.seen_at < func.clock_timestamp() - kept
        await self._session.execute(delete(SparkRunnerRow).where(old))
