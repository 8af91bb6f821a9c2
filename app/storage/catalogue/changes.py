"""Changes of topics and subscriptions, numbered in the order of their commits."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from sqlalchemy import func, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.catalogue.changes import Changes
from app.domain.catalogue.oauth import OAuthProvider
from app.domain.catalogue.subscription import Subscription
from app.storage.catalogue.oauth_providers import OAuthProviderRepository
from app.storage.catalogue.rows import subscription_of, topic_of
from app.storage.database import Database
from app.storage.notices import CHANGES
from app.storage.sealing import vault_of
from app.storage.tables import ChangeClockRow, SubscriptionRow, TombstoneRow, TopicRow

TOPIC: Final = "topic"
SUBSCRIPTION: Final = "subscription"
# The number of subscriptions that are read in one step. Other work of the process waits for the end
# of a step.
PAGE: Final = 500


class ChangeFeed:
    """Numbers changes, and returns what has changed since a given number."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def next_number(self) -> int:
        """Return the number for a change of this transaction; readers are notified at commit.

        The row with the number stays locked until the transaction ends. So the next number is given
        only after the commit of this one. A reader that sees a number has seen all lower numbers.
        Take the number before locking anything else, so that changes cannot deadlock.
        """
        clock = update(ChangeClockRow).values(number=ChangeClockRow.number + 1)
        number = await self._session.scalar(clock.returning(ChangeClockRow.number))
        if number is None:
            raise LookupError("change_clock has lost its row")
        await self._session.execute(select(func.pg_notify(CHANGES, "")))
        return int(number)

    async def hold(self) -> None:
        """Block all other changes until this transaction ends.

        Use this if a transaction reads something first, and then writes according to it.
        """
        await self._session.execute(select(ChangeClockRow.id).with_for_update())

    async def bury(self, kind: str, key: str, *, change: int) -> None:
        """Record that a topic (by its name) or a subscription (by its id) was deleted."""
        await self._session.execute(insert(TombstoneRow).values(change=change, kind=kind, key=key))

    async def current(self) -> int:
        """Return the number of the last committed change; 0 if there was none."""
        return await self._session.scalar(select(ChangeClockRow.number)) or 0

    async def but_subscriptions(self, number: int, current: int) -> Changes:
        """Return everything that changed after `number`, without the subscriptions.

        The caller reads `current` first, in the same transaction. All data that is read later
        includes every change up to this number.
        """
        # Read deletions before rows. If an object is deleted between the two, it is missing in the
        # rows, and its deletion is reported the next time.
        buried = await self._buried(number) if number else {}
        topics = await self._session.scalars(
            select(TopicRow).where(TopicRow.change > number).order_by(TopicRow.change)
        )
        changed_topics = tuple(topic_of(row) for row in topics)
        return Changes(
            number=current,
            topics=changed_topics,
            # Leave out topics that were created again after their deletion, because they exist.
            deleted_topics=frozenset(buried.get(TOPIC, ()))
            - {topic.name for topic in changed_topics},
            deleted_subscription_ids=frozenset(buried.get(SUBSCRIPTION, ())),
        )

    async def subscriptions(
        self, after: tuple[int, str], *, at_most: int = PAGE
    ) -> Sequence[Subscription]:
        """Return the next changed subscriptions after `after`, a change number and an id."""
        key = tuple_(SubscriptionRow.change, SubscriptionRow.id)
        rows = await self._session.scalars(
            select(SubscriptionRow)
            .where(key > after)
            .order_by(SubscriptionRow.change, SubscriptionRow.id)
            .limit(at_most)
        )
        vault = vault_of(self._session)
        return await self._with_providers([subscription_of(row, vault) for row in rows])

    async def _with_providers(
        self, subscriptions: Sequence[Subscription]
    ) -> tuple[Subscription, ...]:
        """Return the subscriptions with their OAuth providers.

        A changed provider counts as a change of its subscriptions. Providers are read after
        subscriptions, so they are at least as new.
        """
        names = {each.oauth.provider_name for each in subscriptions if each.oauth}
        if not names:
            return tuple(subscriptions)
        found = await OAuthProviderRepository(self._session).named(names)
        return tuple(_with_provider(each, found) for each in subscriptions)

    async def _buried(self, number: int) -> dict[str, set[str]]:
        rows = await self._session.execute(
            select(TombstoneRow.kind, TombstoneRow.key).where(TombstoneRow.change > number)
        )
        buried: dict[str, set[str]] = {}
        for kind, key in rows:
            buried.setdefault(kind, set()).add(key)
        return buried


async def changes_since(database: Database, number: int, *, page: int = PAGE) -> Changes:
    """Return the current state of everything that changed after `number`.

    With 0, this is everything that exists. A change during the read may be included, and is then
    included again the next time.

    Each transaction reads at most `page` subscriptions, because on a busy machine, reading ten
    thousand subscriptions takes longer than one transaction may take.
    """
    async with database.transaction() as session:
        feed = ChangeFeed(session)
        current = await feed.current()
        if current == number:
            return Changes(number=number)
        changes = await feed.but_subscriptions(number, current)
        some = await feed.subscriptions((number + 1, ""), at_most=page)
    found = [*some]
    while len(some) == page:
        after = (some[-1].change, some[-1].id)
        async with database.transaction() as session:
            some = await ChangeFeed(session).subscriptions(after, at_most=page)
        found += some
    return replace(changes, subscriptions=tuple(found))


def _with_provider(
    subscription: Subscription, providers: Mapping[str, OAuthProvider]
) -> Subscription:
    if subscription.oauth is None:
        return subscription
    provider = providers.get(subscription.oauth.provider_name)
    # Mark the subscription as locked if the provider's secret cannot be read, because then nothing
    # can be sent.
    locked = subscription.locked or (provider.locked if provider else "")
    return replace(subscription, oauth_provider=provider, locked=locked)
