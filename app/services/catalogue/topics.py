"""Topics. Each topic is a row in the database and a topic in the log, made and deleted together."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final

import structlog

from app.domain.access.audit import Action, Change
from app.domain.catalogue.log_claims import Intent
from app.domain.catalogue.subscription import Subscription
from app.domain.catalogue.topic import Topic
from app.domain.errors import (
    GroupExistsError,
    LogUnavailableError,
    StorageUnavailableError,
    TopicExistsError,
    TopicNotFoundError,
    ValidationFailedError,
)
from app.domain.paging import ALL_NAMES, NamePage
from app.log.interface import LogTopic, MessageLog
from app.services.access.audit import Check, Describe, note, whatever
from app.services.applied_changes import TakeIn
from app.services.catalogue.adoption import taken_over
from app.services.catalogue.alternate_topics import require_alternate
from app.services.catalogue.cascading_deletion import (
    delete_those_that_go_with,
    forget_offsets,
    named,
)
from app.services.catalogue.dead_letters import require_no_letters, require_room
from app.services.catalogue.groups import group_created
from app.services.filtered_headers import require_kept_headers
from app.services.log_claims import Claimed, LogClaims
from app.storage.access.audit import AuditRepository
from app.storage.catalogue.changes import ChangeFeed
from app.storage.catalogue.groups import GroupRepository
from app.storage.catalogue.once_adopted import OnceAdoptedRepository
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.catalogue.topics import TopicRepository
from app.storage.database import Database, Session

SETTLE_EVERY: Final = timedelta(seconds=10)
# The prefix in the name of a claim for a change of a topic in the log.
_TOPIC: Final = "topic "

_log = structlog.get_logger(__name__)


def log_topic(topic: Topic) -> LogTopic:
    """Return the settings that `topic` has in the log."""
    return LogTopic(
        name=topic.name,
        partitions=topic.partitions,
        retention=topic.retention,
        message_size_max=topic.message_size_max,
    )


def _subject(name: str) -> str:
    return _TOPIC + name


class TopicService:
    """Creates, looks up, changes and deletes topics.

    Calls to the log are made between transactions, never inside one. So if the log does not
    respond, only requests for the same topic are delayed (see `LogClaims`). A failed creation may
    leave a topic in the log, to which nobody can publish. It is not deleted, because it may have
    older records. The next creation with the same name uses it. `settle_all` finishes other
    interrupted changes of the log. `take_in` reads changes into the memory of this process.
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
        self._claims = LogClaims(database)
        self._describe = describe
        self._log = log
        self._take_in = take_in
        self._describe_subscription = describe_subscription

    async def names(
        self, *, group: str | None = None, page: NamePage = ALL_NAMES, tracked: bool = False
    ) -> Sequence[str]:
        """Return a page of the names of topics. By default, return the names of all topics.

        With `group`, only topics of this group are included; with `tracked`, only topics with
        tracing.
        """
        if group is not None and "\0" in group:
            # Return no names for a group with a zero character. No such group exists, and the
            # database refuses a zero character in a query.
            return ()
        async with self._database.transaction() as session:
            return await TopicRepository(session).names(group, page, tracked=tracked)

    async def get(self, name: str) -> Topic:
        """Return the topic.

        Raises:
            TopicNotFoundError: The topic does not exist.
        """
        async with self._database.transaction() as session:
            return await TopicRepository(session).get(name)

    async def create(self, topic: Topic) -> Topic:
        """Create the topic, and its group if needed.

        An adopted topic must already exist in the log.

        Raises:
            TopicExistsError: The topic already exists.
            LogUnavailableError: The log cannot be reached.
            ValidationFailedError: The alternate topic is not valid, or the topic to adopt does not
                exist.
        """
        await self.settle(topic.name)
        async with self._claims.claimed(_subject(topic.name), Intent.CREATE) as claim:
            await self._require_new(topic)
            if topic.adopted:
                topic = await taken_over(topic, self._log)
            else:
                await self._log.create_topic(log_topic(topic))
            created = await self._add(topic, claim)
        await self._taken_in()
        return created

    async def change(
        self, name: str, edit: Callable[[Topic], Topic], *, dry_run: bool = False
    ) -> Topic:
        """Replace the topic by the result of `edit`. If nothing changes, nothing is written.

        With `dry_run`, nothing is written at all. The result shows the topic as the change would
        make it. Errors of `edit` are raised too.

        Raises:
            TopicNotFoundError: The topic does not exist.
            LogUnavailableError: The log cannot be reached.
            ValidationFailedError: The alternate topic is not valid, or some dead letters would be
                larger than their dead-letter topic allows.
        """
        if dry_run:
            async with self._database.transaction() as session:
                return (await _edited(session, name, edit))[1]
        changed = await self._write(name, edit)
        if changed is None:
            changed = await self._change_in_log(name, edit)
        await self._taken_in()
        return changed

    async def delete(self, name: str, *, check: Check[Topic] = whatever) -> None:
        """Delete the topic with its messages. Errors of `check` are raised too.

        If the log does not respond now, the messages are deleted in the log later. An adopted topic
        stays in the log.

        Raises:
            TopicNotFoundError: The topic does not exist.
            TopicNotEmptyError: Subscriptions of other topics use the topic as dead-letter topic, or
                the topic has subscriptions that are not deleted with the topic.
        """
        async with self._claims.claimed(_subject(name), Intent.DELETE) as claim:
            current, gone = await self._remove(name, check, claim)
            if current.adopted or await self._removed_from_log(name, claim):
                await forget_offsets(self._log, gone, current)
        await self._taken_in()

    async def restore(self, name: str, event: Change) -> None:
        """Create the topic in the log again, empty, if only the database has it.

        `event` is written to the audit.

        Raises:
            TopicNotFoundError: The topic is not in the database.
            ValidationFailedError: The topic was adopted.
            LogUnavailableError: The topic may have been created.
        """
        async with self._claims.claimed(_subject(name), Intent.CREATE) as claim:
            topic = await self.get(name)
            if topic.adopted:
                message = f"{name} was adopted: whoever made it has to make it again"
                raise ValidationFailedError.of("topicName", message)
            if name in await self._log.topic_names():
                return
            await self._log.create_topic(log_topic(topic))
            claim.end()
            await self._note(event)

    async def remove_from_log(
        self, name: str, event: Change, *, once_adopted: bool = False
    ) -> None:
        """Delete a topic that only the log has, with its messages.

        `event` is written to the audit. If the topic was once adopted, other programs may use it.
        Then it is deleted only if `once_adopted` is true.

        Raises:
            ValidationFailedError: The topic is in the database, or was adopted.
            LogUnavailableError: The topic will be deleted later.
        """
        async with self._claims.claimed(_subject(name), Intent.DELETE) as claim:
            if await self._found(name) is not None:
                raise ValidationFailedError.of("topicName", f"{name} is not inconsistent")
            if not once_adopted:
                await self._require_never_adopted(name)
            await self._begin_removal(event, claim)
            claim.begin()
            await self._log.delete_topic(name)
            claim.end()

    async def settle(self, name: str) -> None:
        """Finish an interrupted change of the topic in the log.

        Raises:
            LogUnavailableError: The log cannot be reached.
            StorageUnavailableError: The database cannot be reached.
        """
        await self._settle(_subject(name))

    async def settle_all(self) -> None:
        """Finish the interrupted changes of all topics in the log.

        Raises:
            LogUnavailableError: The log cannot be reached.
            StorageUnavailableError: The database cannot be reached.
        """
        for subject in await self._claims.left():
            await self._settle(subject)

    # ---- steps of the methods above -------------------------------------------------------------

    async def _settle(self, subject: str) -> None:
        async with self._claims.taken_over(subject) as intent:
            # Do nothing, because no change of a topic is unfinished. COMMIT means that the creation
            # of a subscription was interrupted. It may have left first offsets in the log, but
            # nobody uses them.
            if intent is None or intent is Intent.COMMIT:
                return
            name = subject.removeprefix(_TOPIC)
            topic = await self._found(name)
            if topic is not None and topic.adopted:
                return
            if topic is not None:
                # Ignore a topic that another program deleted in the log. `ConsistencyService` finds
                # such topics.
                with suppress(TopicNotFoundError):
                    await self._log.alter_topic(log_topic(topic))
            elif intent is Intent.DELETE:
                await self._log.delete_topic(name)

    async def _removed_from_log(self, name: str, claim: Claimed) -> bool:
        claim.begin()
        try:
            await self._log.delete_topic(name)
        except LogUnavailableError as error:
            _log.warning("topic_left_in_log", topic=name, reason=error.message)
            return False
        claim.end()
        return True

    async def _found(self, name: str) -> Topic | None:
        try:
            return await self.get(name)
        except TopicNotFoundError:
            return None

    async def _require_never_adopted(self, name: str) -> None:
        async with self._database.transaction() as session:
            if await OnceAdoptedRepository(session).has(name):
                message = f"must be true: {name} was adopted, so others may use it in Kafka"
                raise ValidationFailedError.of("onceAdopted", message)

    async def _require_new(self, topic: Topic) -> None:
        async with self._database.transaction() as session:
            topics = TopicRepository(session)
            await require_alternate(topic, topics.get)
            if await topics.exists(topic.name):
                raise TopicExistsError(f"Topic {topic.name} already exists")

    async def _add(self, topic: Topic, claim: Claimed) -> Topic:
        async with self._database.transaction() as session:
            # Take the lock of changes before locking any row. The opposite order could cause a
            # deadlock.
            await ChangeFeed(session).hold()
            topics = TopicRepository(session)
            await require_alternate(topic, topics.get)
            events = AuditRepository(session)
            with suppress(GroupExistsError):
                await GroupRepository(session).add(topic.group)
                await note(events, group_created(topic.group))
            created = await topics.add(topic)
            await OnceAdoptedRepository(session).forget(topic.name)
            await note(events, self._change(Action.CREATED, after=created))
            await claim.give_up(session)
        return created

    async def _write(
        self, name: str, edit: Callable[[Topic], Topic], *, in_log: LogTopic | None = None
    ) -> Topic | None:
        """Store the topic that `edit` returns. Return None if the log must be changed first.

        `in_log` has the settings of the topic in the log. If `in_log` is None, the log is assumed
        to have the settings that the database has.
        """
        async with self._database.transaction() as session:
            # Take the lock of changes, so that the topic does not change between reading and
            # writing.
            await ChangeFeed(session).hold()
            current, wanted = await _edited(session, name, edit)
            if wanted == current:
                return current
            if not wanted.adopted and log_topic(wanted) != (in_log or log_topic(current)):
                return None
            changed = await TopicRepository(session).update(wanted)
            event = self._change(Action.UPDATED, before=current, after=changed)
            await note(AuditRepository(session), event)
        return changed

    async def _change_in_log(self, name: str, edit: Callable[[Topic], Topic]) -> Topic:
        async with self._claims.claimed(_subject(name), Intent.ALTER) as claim:
            changed = None
            while changed is None:
                # Compute the topic's new settings for the log, and change the log. Other requests
                # may change the topic in the database meanwhile, because most changes need no
                # claim. So `edit` is called again when the database is written.
                in_log = log_topic(edit(await self.get(name)))
                claim.begin()
                await self._log.alter_topic(in_log)
                changed = await self._write(name, edit, in_log=in_log)
            claim.end()
        return changed

    async def _remove(
        self, name: str, check: Check[Topic], claim: Claimed
    ) -> tuple[Topic, Sequence[Subscription]]:
        async with self._database.transaction() as session:
            await ChangeFeed(session).hold()
            current = await TopicRepository(session).get(name)
            check(current)
            subscriptions, events = SubscriptionRepository(session), AuditRepository(session)
            await require_no_letters(name, subscriptions)
            gone = await delete_those_that_go_with(
                name, session, describe=self._describe_subscription
            )
            await TopicRepository(session).delete(name)
            await note(events, self._change(Action.REMOVED, before=current))
            if current.adopted:
                await OnceAdoptedRepository(session).add(name)
            else:
                await claim.begin_in(session)
        return current, gone

    async def _begin_removal(self, event: Change, claim: Claimed) -> None:
        async with self._database.transaction() as session:
            await note(AuditRepository(session), event)
            await OnceAdoptedRepository(session).forget(event.name)
            await claim.begin_in(session)

    async def _note(self, event: Change) -> None:
        async with self._database.transaction() as session:
            await note(AuditRepository(session), event)

    def _change(
        self, action: Action, *, before: Topic | None = None, after: Topic | None = None
    ) -> Change:
        topic = after or before
        return Change(
            action=action,
            kind="topic",
            name=topic.name if topic else "",
            before=self._describe(before) if before else None,
            after=self._describe(after) if after else None,
        )

    async def _taken_in(self) -> None:
        """Apply the change in this process, so that it publishes with the new settings."""
        with suppress(StorageUnavailableError):
            await self._take_in()


async def _edited(
    session: Session, name: str, edit: Callable[[Topic], Topic]
) -> tuple[Topic, Topic]:
    """Return the topic before and after `edit`.

    The topic after `edit` is checked against other topics and subscriptions.

    Raises:
        TopicNotFoundError: The topic does not exist.
        ValidationFailedError: The topic after `edit` does not fit other topics or subscriptions.
    """
    topics = TopicRepository(session)
    current = await topics.get(name)
    wanted = edit(current)
    if wanted.alternate_topic != current.alternate_topic:
        await require_alternate(wanted, topics.get)
    if wanted.propagated_headers != current.propagated_headers:
        await require_kept_headers(current, wanted, SubscriptionRepository(session))
    if wanted.message_size_max != current.message_size_max:
        await require_room(wanted, topics, SubscriptionRepository(session))
    return current, wanted
