"""Stores changes that other programs make to topics in the log.

A change by Angelia is stored in the same way if the log made the change, but its answer was lost.
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

# How often topics are compared with the log. Workers read new partitions as soon as Kafka reports
# them. But the shares of a subscription's rate, its lag, its health and its forecasts use the
# number of partitions in the database, so new partitions must soon be stored there.
LOOK_EVERY: Final = timedelta(seconds=20)

_log = structlog.get_logger(__name__)


class ForeignChangeService:
    """Compares topics with the log regularly. Several processes may do this."""

    def __init__(self, database: Database, log: MessageLog, *, describe: Describe[Topic]) -> None:
        self._database = database
        self._log = log
        self._describe = describe

    async def look(self) -> None:
        """Store added partitions of all topics, and the retention of adopted topics.

        A topic stays unchanged in the database if the log no longer has the topic, or if its number
        of partitions is now too high, or if its settings cannot be read from the log.

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
                # Log why the topic stays unchanged. The same warning is logged at most once a
                # minute.
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
            # Write nothing if the topic was changed meanwhile, or was deleted and created again.
            # The next check then compares the topic with the log again.
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
