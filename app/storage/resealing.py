"""Encrypting again: stored secrets that are not under the first key, or not encrypted at all."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.storage.models import OAuthProviderRow, SubscriptionRow
from app.storage.oauth import provider_of, provider_sealing, provider_settings
from app.storage.rows import opened_subscription, sealing_of, subscription_values
from app.storage.sealing import vault_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Resealed:
    """What was done to the next rows of a table, up to and including `last`; None at its end."""

    last: str | None
    secrets: int = 0
    resealed: int = 0
    # Which rows have secrets under keys that are not known here, and why they cannot be read.
    unreadable: tuple[str, ...] = ()


Resealing = Callable[[AsyncSession, str, int], Awaitable[Resealed]]


async def reseal_subscriptions(session: AsyncSession, after: str, limit: int) -> Resealed:
    """Seal anew what needs it in the next `limit` subscriptions after the id `after`.

    Each row is locked between reading and writing: who changes it meanwhile waits, and then sees
    these, or has changed it before. Nothing but the encryption changes, so nobody is told.
    """
    vault = vault_of(session)
    query = select(SubscriptionRow).where(SubscriptionRow.id > after).order_by(SubscriptionRow.id)
    rows = list(await session.scalars(query.limit(limit).with_for_update(key_share=True)))
    secrets = resealed = 0
    unreadable: list[str] = []
    for row in rows:
        sealing = sealing_of(vault, row.id)
        found = opened_subscription(row, sealing)
        secrets += sealing.opened
        if found.locked:
            unreadable.append(f"{row.topic}/{row.name}: {found.locked}")
        elif sealing.outdated:
            values = subscription_values(found, vault)
            resealed += sealing.outdated
            await session.execute(
                update(SubscriptionRow)
                .where(SubscriptionRow.id == row.id)
                # What a newer version keeps in it stays there.
                .values(endpoint=values["endpoint"], settings=row.settings | values["settings"])
            )
    return Resealed(
        last=rows[-1].id if len(rows) == limit else None,
        secrets=secrets,
        resealed=resealed,
        unreadable=tuple(unreadable),
    )


async def reseal_oauth_providers(session: AsyncSession, after: str, limit: int) -> Resealed:
    """The same for the next `limit` OAuth providers after the name `after`."""
    vault = vault_of(session)
    query = select(OAuthProviderRow).where(OAuthProviderRow.name > after)
    ordered = query.order_by(OAuthProviderRow.name).limit(limit)
    rows = list(await session.scalars(ordered.with_for_update(key_share=True)))
    secrets = resealed = 0
    unreadable: list[str] = []
    for row in rows:
        sealing = provider_sealing(vault, row.name)
        found = provider_of(row, sealing)
        secrets += sealing.opened
        if found.locked:
            unreadable.append(f"OAuth provider {row.name}: {found.locked}")
        elif sealing.outdated:
            resealed += sealing.outdated
            await session.execute(
                update(OAuthProviderRow)
                .where(OAuthProviderRow.name == row.name)
                .values(settings=row.settings | provider_settings(found, vault))
            )
    return Resealed(
        last=rows[-1].name if len(rows) == limit else None,
        secrets=secrets,
        resealed=resealed,
        unreadable=tuple(unreadable),
    )


# Every table that has secrets.
RESEALINGS: Final[Sequence[Resealing]] = (reseal_subscriptions, reseal_oauth_providers)
