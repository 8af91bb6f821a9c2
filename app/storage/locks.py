"""Locks for work that only one transaction at a time may do, over all processes."""

from typing import Final

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

_HOLD: Final = text("SELECT pg_advisory_xact_lock(hashtext(:name))")


async def hold(session: AsyncSession, name: str) -> None:
    """Wait for the lock `name`, and hold it until the transaction ends.

    Two names with the same hash (32 bits) share a lock, so a transaction must take only one lock.
    """
    await session.execute(_HOLD, {"name": name})
