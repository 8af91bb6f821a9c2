"""Takes over changes that other programs make to topics in the log.

A change of ours is taken over in the same way if the log made it, but its answer was lost.
"""

from dataclasses import replace
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
from app.storage.catalogue.metrics import MetricRepository
from app.storage.catalogue.topics import TopicRepository
from app.storage.database import Database

# How often topics are checked. Workers read new partitions as soon as Kafka reports them. But they
# share the rate of a subscription by the partitions that the database has. Lag, health and
# forecasts use these, too.
LOOK_EVERY: Final = timedelta(seconds=20)

_log = structlog.get_logger(__name__)


class ForeignChangeService:
    """Compares topics with the log regularly. Several processes may do this."""

    def __init__(self, database: Database, log: MessageLog, *, describe: Describe[Topic]) -> None:
        self._database = database
        self._log = log
        self._describe = describe

    async def look(self) -> None:
        """Take over added partitions of all topics, and the retention of adopted topics.

        A topic stays unchanged if it no longer exists in the log, has too many partitions by now,
        or cannot be read.

        Raises:
            LogUnavailableError: The log cannot be reached.
            StorageUnavailableError: The database cannot be reached.
        """
        async with self._database.transaction() as session:
            adopted = await TopicRepository(session).adopted()
            known = await MetricRepository(session).partitions()
        counts = await self._log.partition_counts(known)
        grown = {name for name, known_count in known.items() if counts.get(name, 0) > known_count}
        for name in sorted(grown.union(adopted)):
            try:
                await self._take_over(name)
            except (TopicNotFoundError, ValidationFailedError, LogUnavailableError) as error:
                # Log the reason as a warning. The same warning is logged at most once a minute.
                reason = error.message
                _log.warning("topic_not_followed", topic=name, reason=reason, exc_info=error)

    async def _take_over(self, name: str) -> None:
        async with self._database.transaction() as session:
            before = await TopicRepository(session).get(name)
        changed = _as_found(before, await self._log.topic(name))
        if changed == before:
            return
        async with self._database.transaction() as session:
            await ChangeFeed(session).hold()
            topics = TopicRepository(session)
            # The topic may have been changed meanwhile, or deleted and created again. Then the next
            # check takes over what is left.
            if await topics.get(name) != before:
                return
            event = Change(
                action=Action.UPDATED,
                kind="topic",
                name=name,
                before=self._describe(before),
                after=self._describe(await topics.update(changed)),
            )
            await note(AuditRepository(session), event)


def _as_found(topic: Topic, found: FoundTopic) -> Topic:
    if topic.adopted:
        return as_in_log(topic, partitions=found.partitions, retention=found.retention)
    return replace(topic, partitions=max(topic.partitions, found.partitions))
