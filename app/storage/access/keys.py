"""Stores API keys, and the mode, which says whether the API allows changes.

Every API process also has the keys and the mode in memory.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import structlog
from sqlalchemy import delete, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.access.keys import ApiKey, Mode, Scope
from app.domain.catalogue.changes import LastChange
from app.domain.errors import KeyNotFoundError, ValidationFailedError
from app.storage.notices import ACCESS
from app.storage.tables import AccessStateRow, ApiKeyRow

_log = structlog.get_logger(__name__)

# The maximum number of API keys that are not revoked. The number is limited, because every API
# process has all of them in memory.
KEYS_MAX: Final = 10_000
# The last use of an API key is stored at most once in this time.
USED_EVERY: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessState:
    """The mode of the API, and all keys that are not revoked, after the change `last`."""

    last: LastChange
    mode: Mode
    keys: Sequence[ApiKey]


class AccessRepository:
    """Stores the API keys and the mode.

    Each change of the keys or the mode gets a number, and the API processes get a notice of it.
    """

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def since(self, last: LastChange | None) -> AccessState | None:
        """Return the current keys and mode; None if nothing has changed since the change `last`."""
        started_at = func.pg_postmaster_start_time()
        query = select(AccessStateRow.number, started_at, AccessStateRow.mode)
        number, server, mode = (await self._session.execute(query)).one()
        current = LastChange(number, server)
        if current == last:
            return None
        # First the number of the last change is read, then the keys. If a key changes between these
        # two reads, the change is included now, and again the next time.
        rows = await self._session.scalars(select(ApiKeyRow).where(ApiKeyRow.revoked_at.is_(None)))
        keys = [key for row in rows if (key := _readable(row)) is not None]
        return AccessState(last=current, mode=Mode(mode), keys=keys)

    async def changed(self) -> int:
        """Count a change of keys or mode, and return its number. API processes get a notice.

        Other changes of keys or mode wait until this transaction ends.
        """
        row = AccessStateRow
        counted = update(row).values(number=row.number + 1).returning(row.number)
        number = await self._session.scalar(counted)
        if number is None:
            raise LookupError("access_state has lost its row")
        await self._session.execute(select(func.pg_notify(ACCESS, "")))
        return int(number)

    async def set_mode(self, mode: Mode) -> Mode:
        """Change the mode; return the old one."""
        await self.changed()
        before = await self._session.scalar(select(AccessStateRow.mode))
        await self._session.execute(update(AccessStateRow).values(mode=mode.value))
        return Mode(before or Mode.READ_WRITE)

    async def add(self, key: ApiKey) -> ApiKey:
        """Store the key with the current time as `created_at`. Return the stored key.

        Raises:
            ValidationFailedError: There are already KEYS_MAX keys that are not revoked.
        """
        await self.changed()
        count = select(func.count()).select_from(ApiKeyRow).where(ApiKeyRow.revoked_at.is_(None))
        if (await self._session.scalar(count) or 0) >= KEYS_MAX:
            raise ValidationFailedError.of("keys", f"must be at most {KEYS_MAX}: revoke some")
        added = insert(ApiKeyRow).values(
            id=key.id,
            name=key.name,
            scopes=[str(scope) for scope in key.scopes],
            digest=key.digest,
            created_by=key.created_by,
            expires_at=key.expires_at,
        )
        await self._session.execute(update(AccessStateRow).values(had_keys=True))
        row = await self._session.scalar(added.returning(ApiKeyRow))
        if row is None:
            raise LookupError("the key was not returned")
        return key_of(row)

    async def had_keys(self) -> bool:
        """Whether there ever was a key.

        Until this transaction ends, no other transaction can create a key.
        """
        held = select(AccessStateRow.had_keys).with_for_update()
        return bool(await self._session.scalar(held))

    async def get(self, key_id: str, *, for_update: bool = False) -> ApiKey:
        """Return the key with this id, even if it is revoked.

        With `for_update`, no key can be changed before this transaction ends.

        Raises:
            KeyNotFoundError: The key does not exist.
        """
        if for_update:
            await self._session.execute(select(AccessStateRow.id).with_for_update())
        row = await self._session.get(ApiKeyRow, key_id)
        if row is None:
            raise _not_found(key_id)
        return key_of(row)

    async def page(self, *, limit: int, after: str | None) -> Sequence[ApiKey]:
        """Return keys ordered by id, after the id `after`, including revoked keys."""
        query = select(ApiKeyRow).order_by(ApiKeyRow.id).limit(limit)
        if after is not None:
            query = query.where(ApiKeyRow.id > after)
        return [key_of(row) for row in await self._session.scalars(query)]

    async def revoke(self, key_id: str) -> ApiKey:
        """Revoke the key, unless it is already revoked.

        Raises:
            KeyNotFoundError: The key does not exist.
        """
        await self.changed()
        revoked = (
            update(ApiKeyRow)
            .where(ApiKeyRow.id == key_id)
            .values(revoked_at=func.coalesce(ApiKeyRow.revoked_at, func.clock_timestamp()))
            .returning(ApiKeyRow)
        )
        row = await self._session.scalar(revoked.execution_options(populate_existing=True))
        if row is None:
            raise _not_found(key_id)
        return key_of(row)

    async def used(self, key_ids: Collection[str]) -> None:
        """Store the current time as the last use of these keys.

        Keys with a stored use in the last USED_EVERY are left out.
        """
        row = ApiKeyRow
        known = row.last_used_at > func.clock_timestamp() - USED_EVERY
        noted = update(row).where(row.id.in_(key_ids), or_(row.last_used_at.is_(None), ~known))
        await self._session.execute(noted.values(last_used_at=func.clock_timestamp()))

    async def drop_ended(self, kept: timedelta) -> None:
        """Delete keys that have been invalid for longer than `kept`."""
        row = ApiKeyRow
        ended = func.least(row.revoked_at, row.expires_at)
        await self._session.execute(delete(row).where(ended < func.clock_timestamp() - kept))


def _readable(row: ApiKeyRow) -> ApiKey | None:
    """Return the key in the row; None if it has a scope that this version does not know."""
    try:
        return key_of(row)
    except ValidationFailedError as error:
        _log.warning("key_not_understood", key=row.id, reason=error.message)
        return None


def key_of(row: ApiKeyRow) -> ApiKey:
    """Return the API key that is stored in the table row."""
    return ApiKey(
        id=row.id,
        name=row.name,
        scopes=tuple(Scope.parse(text) for text in row.scopes),
        digest=row.digest,
        created_by=row.created_by,
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        last_used_at=row.last_used_at,
    )


def _not_found(key_id: str) -> KeyNotFoundError:
    return KeyNotFoundError(f"Key {key_id} does not exist")
