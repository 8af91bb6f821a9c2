"""Stores groups of topics in the database."""

from sqlalchemy import delete, exists, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.errors import GroupExistsError, GroupNotEmptyError, GroupNotFoundError
from app.domain.paging import ALL_NAMES, NamePage
from app.storage.paging import paged
from app.storage.tables import GroupRow, TopicRow


class GroupRepository:
    """Stores groups of topics. The caller must check that the name of a new group is valid."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def names(self, page: NamePage = ALL_NAMES) -> list[str]:
        """Return the names of all groups, or a page of these names, in alphabetical order."""
        return list(await self._session.scalars(paged(select(GroupRow.name), GroupRow.name, page)))

    async def exists(self, name: str) -> bool:
        """Whether a group with that name exists."""
        return bool(await self._session.scalar(select(exists().where(GroupRow.name == name))))

    async def add(self, name: str) -> None:
        """Add a group.

        Raises:
            GroupExistsError: The group already exists.
        """
        added = insert(GroupRow).values(name=name).on_conflict_do_nothing().returning(GroupRow.name)
        if await self._session.scalar(added) is None:
            raise GroupExistsError(f"Group {name} already exists")

    async def delete(self, name: str) -> None:
        """Delete a group without topics.

        Raises:
            GroupNotFoundError: The group does not exist.
            GroupNotEmptyError: The group has topics.
        """
        # Lock the group's row. Topics refer to this row, so no topic can be added before this
        # transaction ends.
        found = select(GroupRow.name).where(GroupRow.name == name).with_for_update()
        if await self._session.scalar(found) is None:
            raise GroupNotFoundError(f"Group {name} does not exist")
        if await self._session.scalar(select(exists().where(TopicRow.group_name == name))):
            raise GroupNotEmptyError(f"Group {name} still has topics")
        await self._session.execute(delete(GroupRow).where(GroupRow.name == name))
