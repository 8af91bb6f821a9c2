"""Topics: a row of the database and a topic of the log that come and go together."""

from collections.abc import Callable, Sequence
from contextlib import suppress

from app.domain.audit import Action, Change
from app.domain.errors import GroupExistsError, StorageUnavailableError
from app.domain.paging import ALL_NAMES, NamePage
from app.domain.subscription import Subscription
from app.domain.topic import Topic
from app.log.interface import LogTopic, MessageLog
from app.services.alternates import require_alternate
from app.services.applied import TakeIn
from app.services.audit import Check, Describe, note, whatever
from app.services.dead_letters import require_no_letters, require_room
from app.services.groups import group_created
from app.services.leaving import delete_those_that_go_with, forget_offsets, named
from app.storage.audit import AuditRepository
from app.storage.changes import ChangeFeed
from app.storage.database import Database
from app.storage.groups import GroupRepository
from app.storage.subscriptions import SubscriptionRepository
from app.storage.topics import TopicRepository


def log_topic(topic: Topic) -> LogTopic:
    """What the log is to have for `topic`."""
    return LogTopic(
        name=topic.name,
        partitions=topic.partitions,
        retention=topic.retention,
        message_size_max=topic.message_size_max,
    )


class TopicService:
    """Create, look up, change and delete topics; each method is one transaction.

    The log is asked inside the transaction, after the row is written and before it is committed:
    its locks keep others of that name out, and a log that refuses or does not answer takes
    the row back. What may then be left in the log is a topic that nobody can publish to: the next
    creation of that name takes it over, and the next deletion removes it. Undoing it here could
    delete records that were there before. `take_in` applies changes in this process.
    """

    def __init__(
        self,
        database: Database,
        log: MessageLog,
        *,
        take_in: TakeIn,
        describe: Describe[Topic],
        describe_subscription: Describe[Subscription] = named,
    ) -> None:
        self._database = database
        self._describe = describe
        self._log = log
        self._take_in = take_in
        self._describe_subscription = describe_subscription

    async def names(
        self, *, group: str | None = None, page: NamePage = ALL_NAMES, tracked: bool = False
    ) -> Sequence[str]:
        """All topics, or those of `group`, or the `tracked` ones, or a page of them, by name."""
        if group is not None and "\0" in group:
            # No name has one, and the database takes none in a question.
            return ()
        async with self._database.transaction() as session:
            return await TopicRepository(session).names(group, page, tracked=tracked)

    async def get(self, name: str) -> Topic:
        """The topic; TopicNotFoundError."""
        async with self._database.transaction() as session:
            return await TopicRepository(session).get(name)

    async def create(self, topic: Topic) -> Topic:
        """Create it, with its group if need be.

        TopicExistsError, LogUnavailableError, ValidationFailedError for its alternate topic.
        """
        async with self._database.transaction() as session:
            # The change clock first: whoever locks other rows before it could meet a deadlock.
            await ChangeFeed(session).next_number()
            topics = TopicRepository(session)
            await require_alternate(topic, topics.get)
            events = AuditRepository(session)
            with suppress(GroupExistsError):
                await GroupRepository(session).add(topic.group)
                await note(events, group_created(topic.group))
            created = await topics.add(topic)
            await note(events, self._change(Action.CREATED, after=created))
            await self._log.create_topic(log_topic(created))
        await self._taken_in()
        return created

    async def change(self, name: str, edit: Callable[[Topic], Topic]) -> Topic:
        """Replace it by what `edit` makes of it. One that `edit` leaves as it is stays untouched.

        TopicNotFoundError, LogUnavailableError, ValidationFailedError for its alternate topic and
        for a size that dead letters do not fit, and what `edit` raises.
        """
        async with self._database.transaction() as session:
            # The clock's lock keeps the topic as it is between reading and writing.
            await ChangeFeed(session).next_number()
            topics = TopicRepository(session)
            current = await topics.get(name)
            wanted = edit(current)
            if wanted == current:
                return current
            if wanted.alternate_topic != current.alternate_topic:
                await require_alternate(wanted, topics.get)
            if wanted.message_size_max != current.message_size_max:
                await require_room(wanted, topics, SubscriptionRepository(session))
            changed = await topics.update(wanted)
            event = self._change(Action.UPDATED, before=current, after=changed)
            await note(AuditRepository(session), event)
            await self._log.alter_topic(log_topic(changed))
        await self._taken_in()
        return changed

    async def delete(self, name: str, *, check: Check[Topic] = whatever) -> None:
        """Delete it with its messages; TopicNotFoundError, and what `check` raises of it.

        TopicNotEmptyError while it takes the dead letters of others, or has subscriptions: unless
        all are to go with it. LogUnavailableError: all is still there, and deleting it again goes
        on with it.
        """
        async with self._database.transaction() as session:
            await ChangeFeed(session).next_number()
            current = await TopicRepository(session).get(name)
            check(current)
            subscriptions, events = SubscriptionRepository(session), AuditRepository(session)
            await require_no_letters(name, subscriptions)
            gone = await delete_those_that_go_with(
                name, session, describe=self._describe_subscription
            )
            await TopicRepository(session).delete(name)
            await note(events, self._change(Action.REMOVED, before=current))
            await self._log.delete_topic(name)
        await forget_offsets(self._log, gone, current)
        await self._taken_in()

    def _change(
        self, action: Action, *, before: Topic | None = None, after: Topic | None = None
    ) -> Change:
        said = after or before
        return Change(
            action=action,
            kind="topic",
            name=said.name if said else "",
            before=self._describe(before) if before else None,
            after=self._describe(after) if after else None,
        )

    async def _taken_in(self) -> None:
        """Whoever was answered finds the change when publishing through this process."""
        with suppress(StorageUnavailableError):
            await self._take_in()
