"""Stores OAuth providers in the database."""

from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Final

from sqlalchemy import ColumnElement, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.catalogue.oauth import OAuthProvider
from app.domain.errors import (
    OAuthProviderExistsError,
    OAuthProviderNotFoundError,
    SecretUnreadableError,
)
from app.storage.json_values import from_json, to_json
from app.storage.sealing import Sealing, vault_of
from app.storage.tables import Json, OAuthProviderRow, SubscriptionRow
from app.vault import Vault

_STORED: Final = tuple(
    field.name
    for field in fields(OAuthProvider)
    if field.name not in {"name", "locked", "unrestricted"}
)


class OAuthProviderRepository:
    """Stores OAuth providers. Their secrets are encrypted."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session
        self._vault = vault_of(session)

    async def names(self) -> list[str]:
        """Return the names of all providers in alphabetical order."""
        query = select(OAuthProviderRow.name).order_by(OAuthProviderRow.name)
        return list(await self._session.scalars(query))

    async def unrestricted(self) -> list[str]:
        """Return the names of the providers that everybody may use, in alphabetical order.

        These providers are not limited to certain owners, hosts or scopes.
        """
        query = select(OAuthProviderRow.name).order_by(OAuthProviderRow.name)
        return list(await self._session.scalars(query.where(OAuthProviderRow.unrestricted)))

    async def get(self, name: str) -> OAuthProvider:
        """Return the provider.

        Raises:
            OAuthProviderNotFoundError: The provider does not exist.
        """
        found = await self.named([name])
        if name not in found:
            raise _not_found(name)
        return found[name]

    async def named(self, names: Collection[str]) -> Mapping[str, OAuthProvider]:
        """Return, by name, the providers with these names. Missing providers are left out."""
        query = select(OAuthProviderRow).where(OAuthProviderRow.name.in_(names))
        query = query.execution_options(populate_existing=True)
        rows = await self._session.scalars(query)
        return {row.name: provider_of(row, provider_sealing(self._vault, row.name)) for row in rows}

    async def add(self, provider: OAuthProvider) -> None:
        """Add the provider.

        Raises:
            OAuthProviderExistsError: The provider already exists.
            SecretKeyMissingError: No secret key is configured.
        """
        added = (
            insert(OAuthProviderRow)
            .values(
                name=provider.name,
                settings=provider_settings(provider, self._vault),
                unrestricted=provider.unrestricted,
            )
            .on_conflict_do_nothing()
            .returning(OAuthProviderRow.name)
        )
        if await self._session.scalar(added) is None:
            raise OAuthProviderExistsError(f"OAuth provider {provider.name} already exists")

    async def update(self, provider: OAuthProvider, *, change: int) -> None:
        """Store the changed provider, and mark its subscriptions as changed too.

        `change` is the number of this change.

        Raises:
            OAuthProviderNotFoundError: The provider does not exist.
            SecretKeyMissingError: No secret key is configured.
            SecretUnreadableError: The stored secret could not be decrypted.
        """
        values = {
            "settings": provider_settings(provider, self._vault),
            "unrestricted": provider.unrestricted,
            "modified_at": func.clock_timestamp(),
        }
        query = update(OAuthProviderRow).where(OAuthProviderRow.name == provider.name)
        changed = query.values(values).returning(OAuthProviderRow.name)
        if await self._session.scalar(changed) is None:
            raise _not_found(provider.name)
        users = update(SubscriptionRow).where(_issued_by(provider.name))
        await self._session.execute(users.values(change=change))

    async def delete(self, name: str) -> None:
        """Delete the provider.

        Raises:
            OAuthProviderNotFoundError: The provider does not exist.
        """
        query = delete(OAuthProviderRow).where(OAuthProviderRow.name == name)
        if await self._session.scalar(query.returning(OAuthProviderRow.name)) is None:
            raise _not_found(name)

    async def users(self, name: str, *, limit: int) -> tuple[int, list[str]]:
        """Return how many subscriptions use the provider, and the names of the first of them.

        At most `limit` names are returned, in the form `topic/name`.
        """
        using = select(SubscriptionRow.topic, SubscriptionRow.name, func.count().over())
        using = using.where(_issued_by(name))
        ordered = using.order_by(SubscriptionRow.topic, SubscriptionRow.name).limit(limit)
        rows = (await self._session.execute(ordered)).all()
        count = rows[0][2] if rows else 0
        return count, [f"{topic}/{subscription}" for topic, subscription, _ in rows]


def provider_of(row: OAuthProviderRow, sealing: Sealing) -> OAuthProvider:
    """Return the provider in the table row.

    If its secret cannot be decrypted, the provider is marked as locked.
    """
    stored = from_json(OAuthProvider, row.settings, sealing=sealing)
    beside = {"name": row.name, "unrestricted": row.unrestricted, "locked": sealing.unreadable}
    return OAuthProvider(**(stored | beside))


def provider_settings(provider: OAuthProvider, vault: Vault) -> Json:
    """Return the provider in the form in which it is stored.

    Raises:
        SecretKeyMissingError: No secret key is configured.
        SecretUnreadableError: The stored secret could not be decrypted.
    """
    if provider.locked:
        raise SecretUnreadableError(provider.locked)
    return to_json(provider, _STORED, sealing=provider_sealing(vault, provider.name))


def provider_sealing(vault: Vault, name: str) -> Sealing:
    """Return the object that encrypts and decrypts the secret of the provider `name`."""
    return Sealing(vault, table=OAuthProviderRow.__tablename__, row=name)


def _issued_by(name: str) -> ColumnElement[bool]:
    issuer: ColumnElement[str] = SubscriptionRow.settings["oauth"]["provider_name"].astext
    return issuer == name


def _not_found(name: str) -> OAuthProviderNotFoundError:
    return OAuthProviderNotFoundError(f"OAuth provider {name} does not exist")
