"""Which topics only the database has, or only the log, and how the two are brought together again.

Both come and go together (see `TopicService`), but for a log that did not answer in time, a process
that ended in between, and what others did to the log.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from app.domain.audit import Action, Change
from app.domain.errors import TopicNotFoundError, ValidationFailedError
from app.domain.names import is_topic_name
from app.domain.streams import OWN
from app.log.interface import MessageLog
from app.services.audit import note
from app.services.topics import log_topic
from app.storage.audit import AuditRepository
from app.storage.changes import ChangeFeed
from app.storage.database import Database
from app.storage.topics import TopicRepository

# What audit events are of: the topic itself was not there before, or was there all the time.
_KIND: Final = "logTopic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """Topics that only one of the two has, by name."""

    only_in_log: Sequence[str]
    only_in_database: Sequence[str]


class ConsistencyService:
    """Compares the topics of the database with those of the log, and brings one up to the other."""

    def __init__(self, database: Database, log: MessageLog) -> None:
        self._database = database
        self._log = log

    async def topics(self) -> Disagreement:
        """Where they disagree; LogUnavailableError.

        Nothing is kept waiting for it: one that is made or deleted meanwhile may be named.
        """
        in_log = {name for name in await self._log.topic_names() if _is_ours(name)}
        async with self._database.transaction() as session:
            in_database = {*await TopicRepository(session).names()}
        return Disagreement(
            only_in_log=sorted(in_log - in_database),
            only_in_database=sorted(in_database - in_log),
        )

    async def remove(self, name: str) -> None:
        """Delete, with its messages, a topic that only the log has.

        TopicNotFoundError: it is not in the log. ValidationFailedError: it is in the database.
        LogUnavailableError: it may be there still.
        """
        if not _is_ours(name) or name not in await self._log.topic_names():
            raise TopicNotFoundError(f"Topic {name} is not in the log")
        async with self._database.transaction() as session:
            # Nobody makes it before this has ended.
            await ChangeFeed(session).hold()
            with suppress(TopicNotFoundError):
                topic = await TopicRepository(session).get(name)
                raise ValidationFailedError.of("topicName", f"{topic.name} is not inconsistent")
            event = Change(action=Action.REMOVED, kind=_KIND, name=name)
            await note(AuditRepository(session), event)
            await self._log.delete_topic(name)

    async def restore(self, name: str) -> None:
        """Make the topic in the log again, empty, if only the database has it.

        TopicNotFoundError: it is not in the database. LogUnavailableError: it may be made.
        """
        async with self._database.transaction() as session:
            topic = await TopicRepository(session).get(name, for_update=True)
            if name in await self._log.topic_names():
                return
            event = Change(action=Action.CREATED, kind=_KIND, name=name)
            await note(AuditRepository(session), event)
            await self._log.create_topic(log_topic(topic))


def _is_ours(name: str) -> bool:
    """Whether it is named as topics are, and is no stream of our own."""
    return is_topic_name(name) and name not in OWN
