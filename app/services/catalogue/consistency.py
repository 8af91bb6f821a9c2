"""Which topics only the database has, or only the log, and how the two are brought together again.

Both come and go together (see `TopicService`), but for a log that did not answer in time, a process
that ended in between, and what others did to the log.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from app.domain.access.audit import Action, Change
from app.domain.errors import TopicNotFoundError
from app.domain.names import is_topic_name
from app.domain.streams import OWN
from app.log.interface import MessageLog
from app.services.catalogue.topics import TopicService
from app.storage.catalogue.topics import TopicRepository
from app.storage.database import Database

# What audit events are of: the topic itself was not there before, or was there all the time.
_KIND: Final = "logTopic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """Topics that only one of the two has, by name."""

    only_in_log: Sequence[str]
    only_in_database: Sequence[str]


class ConsistencyService:
    """Compares the topics of the database with those of the log, and brings one up to the other."""

    def __init__(self, database: Database, log: MessageLog, topics: TopicService) -> None:
        self._database = database
        self._log = log
        self._topics = topics

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
        event = Change(action=Action.REMOVED, kind=_KIND, name=name)
        await self._topics.remove_from_log(name, event)

    async def restore(self, name: str) -> None:
        """Make the topic in the log again, empty, if only the database has it.

        TopicNotFoundError: it is not in the database. LogUnavailableError: it may be made.
        """
        await self._topics.restore(name, Change(action=Action.CREATED, kind=_KIND, name=name))


def _is_ours(name: str) -> bool:
    """Whether it is named as topics are, and is no stream of our own."""
    return is_topic_name(name) and name not in OWN
