"""Stores the names of topics that were adopted and then deleted.

The log may still have a topic with this name, which belongs to another program.
"""

from sqlalchemy import delete, exists, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.storage.tables import OnceAdoptedRow


class OnceAdoptedRepository:
    """Stores the names of topics that were adopted and then deleted."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def has(self, name: str) -> bool:
        """Whether a topic with this name was adopted and then deleted."""
        found = await self._session.scalar(select(exists().where(OnceAdoptedRow.name == name)))
        return bool(found)

    async def add(self, name: str) -> None:
        """Store the topic's name, unless it is stored already."""
        await self._session.execute(
            insert(OnceAdoptedRow).values(name=name).on_conflict_do_nothing()
        )

    async def forget(self, name: str) -> None:
        """Remove the topic's name, if it is stored."""
        await self._session.execute(delete(OnceAdoptedRow).where(OnceAdoptedRow.name == name))
