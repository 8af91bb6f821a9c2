"""Takes over changes that other programs make to adopted topics in the log."""

from datetime import timedelta
from typing import Final

import structlog

from app.domain.access.audit import Action, Change
from app.domain.catalogue.adoption import as_in_log
from app.domain.catalogue.topic import Topic
from app.domain.errors import LogUnavailableError, TopicNotFoundError, ValidationFailedError
from app.log.interface import FoundTopic, MessageLog
from app.services.access.audit import Describe, note
from app.storage.access.audit import AuditRepository
from app.storage.catalogue.changes import ChangeFeed
from app.storage.catalogue.topics import TopicRepository
from app.storage.database import Database

# How often adopted topics are checked. Lag, health and forecasts need the result; workers read new
# partitions as soon as Kafka reports them.
LOOK_EVERY: Final = timedelta(seconds=20)

_log = structlog.get_logger(__name__)


async def taken_over(topic: Topic, log: MessageLog) -> Topic:
    """Return the topic with the settings that it has in the log.

    Raises:
        ValidationFailedError: The topic has too many partitions.
        LogUnavailableError: The log cannot be reached.
    """
    try:
        found = await log.topic(topic.name)
    except TopicNotFoundError as error:
        message = "must be false: the log has no topic of that name (its namespace is in front)"
        raise ValidationFailedError.of("adopted", message) from error
    return _as_found(topic, found)


class AdoptionService:
    """Checks adopted topics regularly. Several processes may do this."""

    def __init__(self, database: Database, log: MessageLog, *, describe: Describe[Topic]) -> None:
        self._database = database
        self._log = log
        self._describe = describe

    async def look(self) -> None:
        """Take over the partitions and the retention of adopted topics from the log.

        A topic stays unchanged if it no longer exists in the log, has too many partitions by now,
        or cannot be read.

        Raises:
            StorageUnavailableError: The database cannot be reached.
        """
        async with self._database.transaction() as session:
            names = await TopicRepository(session).adopted()
        for name in names:
            try:
                await self._take_over(name, await self._log.topic(name))
            except (TopicNotFoundError, ValidationFailedError, LogUnavailableError) as error:
                # Log the reason as a warning. The same warning is logged at most once a minute.
                reason = error.message
                _log.warning(
                    "adopted_topic_not_followed", topic=name, reason=reason, exc_info=error
                )

    async def _take_over(self, name: str, found: FoundTopic) -> None:
        async with self._database.transaction() as session:
            if not _is_behind(await TopicRepository(session).get(name), found):
                return
        async with self._database.transaction() as session:
            await ChangeFeed(session).hold()
            topics = TopicRepository(session)
            current = await topics.get(name)
            # Check again in the transaction. The topic may have been deleted, and created again by
            # Angelia.
            if not _is_behind(current, found):
                return
            changed = await topics.update(_as_found(current, found))
            event = Change(
                action=Action.UPDATED,
                kind="topic",
                name=name,
                before=self._describe(current),
                after=self._describe(changed),
            )
            await note(AuditRepository(session), event)


def _is_behind(topic: Topic, found: FoundTopic) -> bool:
    return topic.adopted and _as_found(topic, found) != topic


def _as_found(topic: Topic, found: FoundTopic) -> Topic:
    return as_in_log(topic, partitions=found.partitions, retention=found.retention)
