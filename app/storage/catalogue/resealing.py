"""Encrypting again: stored secrets that are not under the first key, or not encrypted at all."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.storage.catalogue.oauth_providers import provider_of, provider_sealing, provider_settings
from app.storage.catalogue.rows import opened_subscription, sealing_of, subscription_values
from app.storage.sealing import Sealing, vault_of
from app.storage.tables import OAuthProviderRow, SubscriptionRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Resealed:
    """What was done to the next rows of a table, up to and including `last`; None at its end."""

    last: str | None
    secrets: int = 0
    resealed: int = 0
    # Which rows have secrets under keys that are not known here, and why they cannot be read.
    unreadable: tuple[str, ...] = ()


Resealing = Callable[[AsyncSession, str, int], Awaitable[Resealed]]


@dataclass(slots=True)
class _Tally:
    """What is found in some rows, as they are looked at one by one."""

    secrets: int = 0
    resealed: int = 0
    unreadable: list[str] = field(default_factory=list)

    def outdated(self, sealing: Sealing, name: str, locked: str | None) -> bool:
        """Whether the row `name`, which was opened with `sealing`, is to be written anew."""
        self.secrets += sealing.opened
        if locked:
            self.unreadable.append(f"{name}: {locked}")
            return False
        self.resealed += sealing.outdated
        return bool(sealing.outdated)

    def result(self, last: str | None) -> Resealed:
        """All of it, up to and including the row `last`."""
        return Resealed(
            last=last,
            secrets=self.secrets,
            resealed=self.resealed,
            unreadable=tuple(self.unreadable),
        )


async def reseal_subscriptions(session: AsyncSession, after: str, limit: int) -> Resealed:
    """Seal anew what needs it in the next `limit` subscriptions after the id `after`.

    Each row is locked between reading and writing: who changes it meanwhile waits, and then sees
    these, or has changed it before. Nothing but the encryption changes, so nobody is told.
    """
    vault, tally = vault_of(session), _Tally()
    query = select(SubscriptionRow).where(SubscriptionRow.id > after).order_by(SubscriptionRow.id)
    rows = list(await session.scalars(query.limit(limit).with_for_update(key_share=True)))
    for row in rows:
        sealing = sealing_of(vault, row.id)
        found = opened_subscription(row, sealing)
        if tally.outdated(sealing, f"{row.topic}/{row.name}", found.locked):
            values = subscription_values(found, vault)
            await session.execute(
                update(SubscriptionRow)
                .where(SubscriptionRow.id == row.id)
                # What a newer version keeps in it stays there.
                .values(endpoint=values["endpoint"], settings=row.settings | values["settings"])
            )
    return tally.result(rows[-1].id if len(rows) == limit else None)


async def reseal_oauth_providers(session: AsyncSession, after: str, limit: int) -> Resealed:
    """The same for the next `limit` OAuth providers after the name `after`."""
    vault, tally = vault_of(session), _Tally()
    query = select(OAuthProviderRow).where(OAuthProviderRow.name > after)
    ordered = query.order_by(OAuthProviderRow.name).limit(limit)
    rows = list(await session.scalars(ordered.with_for_update(key_share=True)))
    for row in rows:
        sealing = provider_sealing(vault, row.name)
        found = provider_of(row, sealing)
        if tally.outdated(sealing, f"OAuth provider {row.name}", found.locked):
            await session.execute(
                update(OAuthProviderRow)
                .where(OAuthProviderRow.name == row.name)
                .values(settings=row.settings | provider_settings(found, vault))
            )
    return tally.result(rows[-1].name if len(rows) == limit else None)


# Every table that has secrets.
RESEALINGS: Final[Sequence[Resealing]] = (reseal_subscriptions, reseal_oauth_providers)
