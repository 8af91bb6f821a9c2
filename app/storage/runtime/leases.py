"""Stores leases for work that only one process at a time does."""

from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import delete, func, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.storage.tables import LeaseRow as Row

# Many processes renew leases each second or so. A statement that is built for each call takes more
# CPU than plain SQL, and leaves reference cycles behind.
_TAKE: Final = text("""
INSERT INTO leases AS known (name, holder, until, renewed_at)
VALUES (:name, :holder, clock_timestamp() + :length, clock_timestamp())
ON CONFLICT (name) DO UPDATE SET
  holder = excluded.holder, until = excluded.until, renewed_at = excluded.renewed_at
WHERE known.until < clock_timestamp() OR known.holder = :holder
RETURNING name
""")


class LeaseRepository:
    """The holders of leases. Only the database's clock is used."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def take(self, name: str, holder: str, length: timedelta) -> bool:
        """Take the lease for `length` from now, if no other holder has it.

        The lease's row stays locked until the transaction ends. So no other process can take the
        lease before the end of the transaction.
        """
        lease = {"name": name, "holder": holder, "length": length}
        return await self._session.scalar(_TAKE, lease) is not None

    async def take_new(self, name: str, holder: str, length: timedelta) -> bool:
        """Take the lease for `length`, only if it has no holder or has expired."""
        now = func.clock_timestamp()
        taken = (
            insert(Row)
            .values(name=name, holder=holder, until=now + length, renewed_at=now)
            .on_conflict_do_nothing(index_elements=["name"])
            .returning(Row.name)
        )
        return await self._session.scalar(taken) is not None

    async def give_up(self, name: str, holder: str) -> None:
        """Release the lease, if `holder` still holds it."""
        await self._session.execute(delete(Row).where(Row.name == name, Row.holder == holder))

    async def renewed_at(self, name: str) -> datetime | None:
        """Return when the holder of the lease last renewed it; None if there is no holder."""
        return await self._session.scalar(select(Row.renewed_at).where(Row.name == name))
