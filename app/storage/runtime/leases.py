"""Leases: what one process at a time does, of all that could."""

from datetime import datetime, timedelta

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.storage.tables import LeaseRow as Row


class LeaseRepository:
    """Who has what leased; told by the database's clock, for all alike."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def take(self, name: str, holder: str, length: timedelta) -> bool:
        """Have it for `length` from now, if nobody else has it.

        Its row stays locked until the transaction ends: nobody else takes it before.
        """
        now = func.clock_timestamp()
        values = {"holder": holder, "until": now + length, "renewed_at": now}
        taken = (
            insert(Row)
            .values(name=name, **values)
            .on_conflict_do_update(
                index_elements=["name"],
                set_=values,
                where=(Row.until < func.clock_timestamp()) | (Row.holder == holder),
            )
            .returning(Row.name)
        )
        return await self._session.scalar(taken) is not None

    async def take_new(self, name: str, holder: str, length: timedelta) -> bool:
        """As `take`, if nobody has it or had it and did not give it up."""
        now = func.clock_timestamp()
        taken = (
            insert(Row)
            .values(name=name, holder=holder, until=now + length, renewed_at=now)
            .on_conflict_do_nothing(index_elements=["name"])
            .returning(Row.name)
        )
        return await self._session.scalar(taken) is not None

    async def give_up(self, name: str, holder: str) -> None:
        """Let the next one have it at once, if it is still `holder`'s."""
        await self._session.execute(delete(Row).where(Row.name == name, Row.holder == holder))

    async def renewed_at(self, name: str) -> datetime | None:
        """When its holder took it last; None: nobody has it."""
        return await self._session.scalar(select(Row.renewed_at).where(Row.name == name))
