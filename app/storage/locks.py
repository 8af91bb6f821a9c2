"""What one transaction at a time does, of all processes that could."""

from typing import Final

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

_HOLD: Final = text("SELECT pg_advisory_xact_lock(hashtext(:name))")


async def hold(session: AsyncSession, name: str) -> None:
    """Wait until nobody else holds what has that name, and hold it until the transaction ends.

    Names that are hashed alike (32 bits) are held together: who holds one takes no second.
    """
    await session.execute(_HOLD, {"name": name})
