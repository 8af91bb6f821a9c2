"""Changes of topics and subscriptions, numbered in the order of their commits."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from sqlalchemy import BigInteger, String, bindparam, func, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.catalogue.changes import Changes, LastChange
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
# The maximum number of changed subscriptions that are read in one step. Other work of the process
# waits until a step has ended.
PAGE: Final = 500

# All processes ask for changes each second or so, so these statements are built once. A statement
# that is built for each call takes CPU, and leaves reference cycles behind.
_NEXT: Final = (
    update(ChangeClockRow).values(number=ChangeClockRow.number + 1).returning(ChangeClockRow.number)
)
_NOTIFY: Final = select(func.pg_notify(CHANGES, ""))
_LAST: Final = select(ChangeClockRow.number, func.pg_postmaster_start_time())
_TOPICS: Final = (
    select(TopicRow).where(TopicRow.change > bindparam("number")).order_by(TopicRow.change)
)
_SUBSCRIPTIONS: Final = (
    select(SubscriptionRow)
    .where(
        tuple_(SubscriptionRow.change, SubscriptionRow.id)
        > tuple_(bindparam("change", type_=BigInteger), bindparam("id", type_=String))
    )
    .order_by(SubscriptionRow.change, SubscriptionRow.id)
    .limit(bindparam("at_most"))
)
_BURIED: Final = select(TombstoneRow.kind, TombstoneRow.key).where(
    TombstoneRow.change > bindparam("number")
)


class ChangeFeed:
    """Numbers changes, and returns what has changed since a given number."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def next_number(self) -> int:
        """Return a new number for a change in this transaction. The commit sends a notice.

        The row with the number is the lock of changes. It stays locked until the transaction ends,
        so the next change gets its number only after this commit. So a reader that sees a number
        can also see all changes with lower numbers. The caller must take the number before any row
        is locked, because another order could cause a deadlock.
        """
        number = await self._session.scalar(_NEXT)
        if number is None:
            raise LookupError("change_clock has lost its row")
        await self._session.execute(_NOTIFY)
        return int(number)

    async def hold(self) -> None:
        """Take the lock of changes. All other changes wait until this transaction ends.

        This is for transactions that first read topics or subscriptions, and then write something
        that depends on what they have read.
        """
        await self._session.execute(select(ChangeClockRow.id).with_for_update())

    async def bury(self, kind: str, key: str, *, change: int) -> None:
        """Store that a topic or subscription was deleted by the change with the number `change`.

        `key` is the name of the topic, or the id of the subscription.
        """
        await self._session.execute(insert(TombstoneRow).values(change=change, kind=kind, key=key))

    async def current(self) -> int:
        """Return the number of the last committed change; 0 if there was none."""
        return await self._session.scalar(select(ChangeClockRow.number)) or 0

    async def last(self) -> LastChange:
        """Return the last committed change. Its number is 0 if there was none."""
        return LastChange(*(await self._session.execute(_LAST)).one())

    async def but_subscriptions(self, last: LastChange) -> Changes:
        """Return all changes after the change `last`, but without changed subscriptions."""
        # Read the number of the last change first. So what is read later includes every change up
        # to this number.
        current = await self.last()
        if current == last:
            return Changes(number=last.number, server=last.server)
        is_complete = current.server != last.server
        number = 0 if is_complete else last.number
        # Read the deletions before the topics. If a topic is deleted between these two reads, it is
        # missing in the topics, and the next call returns its deletion.
        buried = await self._buried(number) if number else {}
        topics = await self._session.scalars(_TOPICS, {"number": number})
        changed_topics = tuple(topic_of(row) for row in topics)
        return Changes(
            number=current.number,
            server=current.server,
            is_complete=is_complete,
            topics=changed_topics,
            # Leave out the deletion of a topic that was created again, because this topic exists.
            deleted_topics=frozenset(buried.get(TOPIC, ()))
            - {topic.name for topic in changed_topics},
            deleted_subscription_ids=frozenset(buried.get(SUBSCRIPTION, ())),
        )

    async def subscriptions(
        self, after: tuple[int, str], *, at_most: int = PAGE
    ) -> Sequence[Subscription]:
        """Return the next changed subscriptions, ordered by the number of the change and the id.

        `after` is the number and the id after which to continue.
        """
        change, subscription_id = after
        page = {"change": change, "id": subscription_id, "at_most": at_most}
        rows = await self._session.scalars(_SUBSCRIPTIONS, page)
        vault = vault_of(self._session)
        return await self._with_providers([subscription_of(row, vault) for row in rows])

    async def _with_providers(
        self, subscriptions: Sequence[Subscription]
    ) -> tuple[Subscription, ...]:
        """Return the subscriptions with their OAuth providers.

        If a provider changes, the subscriptions that use it count as changed too. The providers are
        read after the subscriptions. So they are never older than the subscriptions.
        """
        names = {each.oauth.provider_name for each in subscriptions if each.oauth}
        if not names:
            return tuple(subscriptions)
        found = await OAuthProviderRepository(self._session).named(names)
        return tuple(_with_provider(each, found) for each in subscriptions)

    async def _buried(self, number: int) -> dict[str, set[str]]:
        rows = await self._session.execute(_BURIED, {"number": number})
        buried: dict[str, set[str]] = {}
        for kind, key in rows:
            buried.setdefault(kind, set()).add(key)
        return buried


async def changes_since(database: Database, last: LastChange, *, page: int = PAGE) -> Changes:
    """Return all topics and subscriptions that changed after the change `last`, as they are now.

    Everything that exists is returned if `last` is NO_CHANGE, or a change of another server than
    the one that answers. A change that is made during the read may be included, and is then
    included again the next time.

    Each transaction reads at most `page` subscriptions. On a busy machine, reading ten thousand
    subscriptions takes longer than the time limit of a transaction.
    """
    async with database.transaction() as session:
        feed = ChangeFeed(session)
        changes = await feed.but_subscriptions(last)
        if changes.last == last:
            return changes
        first = 1 if changes.is_complete else last.number + 1
        some = await feed.subscriptions((first, ""), at_most=page)
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
    # Mark the subscription as locked if the secret of its OAuth provider cannot be decrypted. Then
    # nothing can be sent to the subscription.
    locked = subscription.locked or (provider.locked if provider else "")
    return replace(subscription, oauth_provider=provider, locked=locked)
