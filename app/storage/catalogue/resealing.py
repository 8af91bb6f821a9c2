"""Key rotation: encrypts secrets again if they are encrypted with an old key, or not at all."""

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
    """The result of checking the next rows of a table.

    Attributes:
        last: The primary key of the last checked row; None at the end of the table.
        secrets: The number of secrets that were decrypted.
        resealed: How many of the decrypted secrets were encrypted again.
    """

    last: str | None
    secrets: int = 0
    resealed: int = 0
    # The names of rows whose secrets cannot be decrypted, each with the reason.
    unreadable: tuple[str, ...] = ()


Resealing = Callable[[AsyncSession, str, int], Awaitable[Resealed]]


@dataclass(slots=True)
class _Tally:
    """Adds up the results of checked rows."""

    secrets: int = 0
    resealed: int = 0
    unreadable: list[str] = field(default_factory=list)

    def outdated(self, sealing: Sealing, name: str, locked: str | None) -> bool:
        """Count the result of a row. Return whether the row must be written again.

        Args:
            sealing: The object that has decrypted the row's secrets.
            name: The name of the row.
            locked: Why secrets of the row could not be decrypted; None if all were decrypted.
        """
        self.secrets += sealing.opened
        if locked:
            self.unreadable.append(f"{name}: {locked}")
            return False
        self.resealed += sealing.outdated
        return bool(sealing.outdated)

    def result(self, last: str | None) -> Resealed:
        """Return the result up to and including the row `last`."""
        return Resealed(
            last=last,
            secrets=self.secrets,
            resealed=self.resealed,
            unreadable=tuple(self.unreadable),
        )


async def reseal_subscriptions(session: AsyncSession, after: str, limit: int) -> Resealed:
    """Check the next `limit` subscriptions after the id `after`, and encrypt them again if needed.

    Each row is locked between reading and writing. Only the encryption changes, so no process is
    notified.
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
                # Keep the stored settings that this version does not know. A newer version may have
                # written them.
                .values(endpoint=values["endpoint"], settings=row.settings | values["settings"])
            )
    return tally.result(rows[-1].id if len(rows) == limit else None)


async def reseal_oauth_providers(session: AsyncSession, after: str, limit: int) -> Resealed:
    """Check the next `limit` OAuth providers after the name `after`.

    Their secrets are encrypted again if needed.
    """
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


# For each table with secrets, the function that encrypts its secrets again.
RESEALINGS: Final[Sequence[Resealing]] = (reseal_subscriptions, reseal_oauth_providers)
