"""API keys: creation, lists, revocation. A token is shown only once, when its key is created."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final

from app.domain.access.audit import Action, Change
from app.domain.access.keys import ID_LENGTH, TOKEN_PREFIX, ApiKey, Scope, ScopeKind
from app.domain.errors import ValidationFailedError
from app.services.access.audit import acting, note
from app.services.access.known_keys import KnownKeys
from app.storage.access.audit import AuditRepository
from app.storage.access.keys import AccessRepository
from app.storage.database import Database

FIRST_KEY_NAME: Final = "first"
_SECRET_BYTES: Final = 32
_KIND: Final = "key"


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeKey:
    """A new key and its token, which is never shown again."""

    key: ApiKey
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyDraft:
    """The description of a key to create."""

    name: str
    scopes: tuple[Scope, ...]
    expires_at: datetime | None = None


class KeyService:
    """Creates, lists and revokes keys; each method is one transaction."""

    def __init__(self, database: Database, keys: KnownKeys | None = None) -> None:
        self._database = database
        self._keys = keys

    async def create(self, draft: KeyDraft) -> MadeKey:
        """Create a key. This process accepts the key immediately.

        Raises:
            ValidationFailedError: A value is not valid.
        """
        if draft.expires_at is not None and draft.expires_at <= datetime.now(UTC):
            raise ValidationFailedError.of("expiresAt", "must be in the future")
        token, key = _minted(draft, by=acting().name)
        async with self._database.transaction() as session:
            stored = await AccessRepository(session).add(key)
            await note(AuditRepository(session), _change(Action.CREATED, after=stored))
        await self._taken_in()
        return MadeKey(key=stored, token=token)

    async def create_first(self) -> MadeKey | None:
        """Create an admin's key if there never was a key; otherwise return None.

        If several processes do this at once, one of them creates the key.
        """
        admin = (Scope(kind=ScopeKind.ADMIN),)
        token, key = _minted(KeyDraft(name=FIRST_KEY_NAME, scopes=admin), by="")
        async with self._database.transaction() as session:
            access = AccessRepository(session)
            if await access.had_keys():
                return None
            stored = await access.add(key)
            await note(AuditRepository(session), _change(Action.CREATED, after=stored))
        await self._taken_in()
        return MadeKey(key=stored, token=token)

    async def get(self, key_id: str) -> ApiKey:
        """Return one key.

        Raises:
            KeyNotFoundError: The key does not exist.
        """
        async with self._database.transaction() as session:
            return await AccessRepository(session).get(key_id)

    async def page(self, *, limit: int, after: str | None = None) -> Sequence[ApiKey]:
        """Return keys ordered by id, after the id `after`, including revoked keys."""
        async with self._database.transaction() as session:
            return await AccessRepository(session).page(limit=limit, after=after)

    async def revoke(self, key_id: str) -> ApiKey:
        """Revoke the key. This process refuses the key immediately.

        Raises:
            KeyNotFoundError: The key does not exist.
        """
        async with self._database.transaction() as session:
            access = AccessRepository(session)
            before = await access.get(key_id, for_update=True)
            revoked = await access.revoke(key_id) if before.revoked_at is None else before
            if before.revoked_at is None:
                change = _change(Action.REMOVED, before=before)
                await note(AuditRepository(session), change)
        await self._taken_in()
        return revoked

    async def _taken_in(self) -> None:
        if self._keys is not None:
            await self._keys.refresh()


def _minted(draft: KeyDraft, *, by: str) -> tuple[str, ApiKey]:
    key_id = secrets.token_hex(ID_LENGTH // 2)
    token = f"{TOKEN_PREFIX}{key_id}_{secrets.token_urlsafe(_SECRET_BYTES)}"
    key = ApiKey(
        id=key_id,
        name=draft.name,
        scopes=draft.scopes,
        # A plain hash is enough: a token has 256 random bits, so nobody can guess it.
        digest=sha256(token.encode()).digest(),
        created_by=by,
        expires_at=draft.expires_at,
    )
    return token, key


def _change(action: Action, *, before: ApiKey | None = None, after: ApiKey | None = None) -> Change:
    key = before or after
    return Change(
        action=action,
        kind=_KIND,
        name=key.id if key else "",
        before=_described(before) if before else None,
        after=_described(after) if after else None,
    )


def _described(key: ApiKey) -> dict[str, object]:
    expires = key.expires_at.isoformat() if key.expires_at else None
    return {"name": key.name, "scopes": [str(each) for each in key.scopes], "expiresAt": expires}
