"""Locks for work that only one transaction at a time may do, over all processes."""

from collections.abc import Collection
from typing import Final

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

_HOLD: Final = text("SELECT pg_advisory_xact_lock(hashtext(:name))")
_HOLD_ALL: Final = text(
    "SELECT count(pg_advisory_xact_lock(each.lock)) FROM ("
    "SELECT DISTINCT hashtext(name) AS lock FROM unnest(CAST(:names AS text[])) AS name"
    " ORDER BY lock) AS each"
)


async def hold(session: AsyncSession, name: str) -> None:
    """Wait for the lock `name`, and hold it until the transaction ends.

    Two names with the same hash (32 bits) share a lock. To avoid deadlocks, a transaction must take
    only one lock, or take all its locks at once (`hold_all`).
    """
    await session.execute(_HOLD, {"name": name})


async def hold_all(session: AsyncSession, names: Collection[str]) -> None:
    """Wait for all these locks, and hold them until the transaction ends.

    Every transaction takes its locks in the same order, so that transactions cannot deadlock.
    """
    await session.execute(_HOLD_ALL, {"names": list(names)})
