"""Groups of topics."""

from collections.abc import Sequence
from typing import Final

from app.domain.access.audit import Action, Change
from app.domain.errors import GroupNameInvalidError, GroupNotFoundError
from app.domain.names import is_group_name
from app.domain.paging import ALL_NAMES, NamePage
from app.services.access.audit import note
from app.storage.access.audit import AuditRepository
from app.storage.catalogue.changes import ChangeFeed
from app.storage.catalogue.groups import GroupRepository
from app.storage.database import Database

_KIND: Final = "group"


class GroupService:
    """Creates, looks up and deletes groups; each method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def names(self, page: NamePage = ALL_NAMES) -> Sequence[str]:
        """Return the names of all groups, or a page of these names, in alphabetical order."""
        async with self._database.transaction() as session:
            return await GroupRepository(session).names(page)

    async def require(self, name: str) -> None:
        """Check that the group exists.

        Raises:
            GroupNotFoundError: The group does not exist.
        """
        async with self._database.transaction() as session:
            if not await GroupRepository(session).exists(name):
                message = f"Group {name} does not exist"
                raise GroupNotFoundError(message)

    async def create(self, name: str) -> None:
        """Create the group.

        Raises:
            GroupNameInvalidError: The name is not valid.
            GroupExistsError: The group already exists.
        """
        if not is_group_name(name):
            message = f"Group name {name!r} is invalid: letters, digits and dots, at most 100"
            raise GroupNameInvalidError(message)
        async with self._database.transaction() as session:
            await GroupRepository(session).add(name)
            await note(AuditRepository(session), group_created(name))

    async def delete(self, name: str) -> None:
        """Delete the group.

        Raises:
            GroupNotFoundError: The group does not exist.
            GroupNotEmptyError: The group has topics.
        """
        async with self._database.transaction() as session:
            # Hold the lock of changes, so that no topic is created in this group meanwhile.
            await ChangeFeed(session).hold()
            await GroupRepository(session).delete(name)
            change = Change(action=Action.REMOVED, kind=_KIND, name=name, before=_described(name))
            await note(AuditRepository(session), change)


def group_created(name: str) -> Change:
    """Return the audit event of a group's creation, alone or with its first topic."""
    return Change(action=Action.CREATED, kind=_KIND, name=name, after=_described(name))


def _described(name: str) -> dict[str, str]:
    return {"groupName": name}
