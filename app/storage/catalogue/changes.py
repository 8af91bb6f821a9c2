"""The change feed: topics and subscriptions as they change, numbered in order of commit."""

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
# Subscriptions that are made of rows in one go: others wait for it.
PAGE: Final = 500


class ChangeFeed:
    """Numbers changes, and says what changed since a number."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def next_number(self) -> int:
        """The number of a change that this transaction is about to make; wakes readers at commit.

        The clock's row stays locked until the transaction ends, so a later number is not given
        before this one is committed: a reader that sees a number has seen all below it. Take it
        before anything else is locked, and changes cannot deadlock.
        """
        clock = update(ChangeClockRow).values(number=ChangeClockRow.number + 1)
        number = await self._session.scalar(clock.returning(ChangeClockRow.number))
        if number is None:
            raise LookupError("change_clock has lost its row")
        await self._session.execute(select(func.pg_notify(CHANGES, "")))
        return int(number)

    async def hold(self) -> None:
        """Keep all other changes out until this transaction ends: for read, decide, write."""
        await self._session.execute(select(ChangeClockRow.id).with_for_update())

    async def bury(self, kind: str, key: str, *, change: int) -> None:
        """Leave word that the topic or subscription is gone."""
        await self._session.execute(insert(TombstoneRow).values(change=change, kind=kind, key=key))

    async def current(self) -> int:
        """The number of the last committed change; 0 when there was none."""
        return await self._session.scalar(select(ChangeClockRow.number)) or 0

    async def since(self, number: int) -> Changes:
        """All that changed after `number`, as it stands now; from 0, all that exists.

        What changes while this reads may be in it, and will be again in the next answer.
        """
        changes, found = await self.but_subscriptions(number), list[Subscription]()
        place = (number + 1, "")
        while page := await self.subscriptions(place):
            found += page
            place = (page[-1].change, page[-1].id)
        return replace(changes, subscriptions=tuple(found))

    async def but_subscriptions(self, number: int) -> Changes:
        """What `since` answers, still without the subscriptions."""
        # The clock first: what is read after it includes every change up to it.
        current = await self.current()
        # Tombstones before rows: what is deleted in between is missing here, and buried next time.
        buried = await self._buried(number) if number else {}
        topics = await self._session.scalars(
            select(TopicRow).where(TopicRow.change > number).order_by(TopicRow.change)
        )
        changed_topics = tuple(topic_of(row) for row in topics)
        return Changes(
            number=current,
            topics=changed_topics,
            # A topic that was made again since it was deleted exists.
            deleted_topics=frozenset(buried.get(TOPIC, ()))
            - {topic.name for topic in changed_topics},
            deleted_subscription_ids=frozenset(buried.get(SUBSCRIPTION, ())),
        )

    async def subscriptions(
        self, place: tuple[int, str], *, at_most: int = PAGE
    ) -> Sequence[Subscription]:
        """The next ones that changed, behind those up to `place`: a change, and an id."""
        key = tuple_(SubscriptionRow.change, SubscriptionRow.id)
        rows = await self._session.scalars(
            select(SubscriptionRow)
            .where(key > place)
            .order_by(SubscriptionRow.change, SubscriptionRow.id)
            .limit(at_most)
        )
        vault = vault_of(self._session)
        return await self._with_providers([subscription_of(row, vault) for row in rows])

    async def _with_providers(
        self, subscriptions: Sequence[Subscription]
    ) -> tuple[Subscription, ...]:
        """These, with those who issue their tokens: a changed provider changes its subscriptions.

        It is read after them, so that it is as new as they say.
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
    """As `ChangeFeed.since`, in a transaction for each `page` of subscriptions.

    Ten thousand take longer to make than a transaction may, on a machine that is busy.
    """
    async with database.transaction() as session:
        changes = await ChangeFeed(session).but_subscriptions(number)
    found: list[Subscription] = []
    place = (number + 1, "")
    while True:
        async with database.transaction() as session:
            some = await ChangeFeed(session).subscriptions(place, at_most=page)
        found += some
        if len(some) < page:
            return replace(changes, subscriptions=tuple(found))
        place = (some[-1].change, some[-1].id)


def _with_provider(
    subscription: Subscription, providers: Mapping[str, OAuthProvider]
) -> Subscription:
    if subscription.oauth is None:
        return subscription
    provider = providers.get(subscription.oauth.provider_name)
    # Who cannot read the provider's secret can send no more than without the subscription's own.
    locked = subscription.locked or (provider.locked if provider else "")
    return replace(subscription, oauth_provider=provider, locked=locked)
