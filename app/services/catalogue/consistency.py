"""Finds and repairs differences between the topics of the database and the topics of the log.

`TopicService` creates and deletes a topic in both. A difference appears if the log did not respond
in time, if a process died after it had changed only one of them, or if another program changed the
log.
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

# The kind of audit events about a topic that is changed only in the log, not in the database.
_KIND: Final = "logTopic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """The names of the topics that only the log has, and of those that only the database has."""

    only_in_log: Sequence[str]
    only_in_database: Sequence[str]


class ConsistencyService:
    """Compares the topics of database and log, and repairs differences."""

    def __init__(self, database: Database, log: MessageLog, topics: TopicService) -> None:
        self._database = database
        self._log = log
        self._topics = topics

    async def topics(self) -> Disagreement:
        """Return the topics that only the log or only the database has.

        No lock is held, so a topic that is just being created or deleted may be included.

        Raises:
            LogUnavailableError: The log cannot be reached.
        """
        in_log = {name for name in await self._log.topic_names() if _is_ours(name)}
        async with self._database.transaction() as session:
            in_database = {*await TopicRepository(session).names()}
        return Disagreement(
            only_in_log=sorted(in_log - in_database),
            only_in_database=sorted(in_database - in_log),
        )

    async def remove(self, name: str, *, once_adopted: bool = False) -> None:
        """Delete a topic that only the log has, with its messages.

        If the topic was once adopted, other programs may use it. Then it is deleted only if
        `once_adopted` is true.

        Raises:
            TopicNotFoundError: The topic is not in the log.
            ValidationFailedError: The topic is in the database, or was adopted.
            LogUnavailableError: The topic may still exist.
        """
        if not _is_ours(name) or name not in await self._log.topic_names():
            raise TopicNotFoundError(f"Topic {name} is not in the log")
        event = Change(action=Action.REMOVED, kind=_KIND, name=name)
        await self._topics.remove_from_log(name, event, once_adopted=once_adopted)

    async def restore(self, name: str) -> None:
        """Create the topic in the log again, empty, if only the database has it.

        Raises:
            TopicNotFoundError: The topic is not in the database.
            LogUnavailableError: The topic may have been created.
        """
        await self._topics.restore(name, Change(action=Action.CREATED, kind=_KIND, name=name))


def _is_ours(name: str) -> bool:
    """Whether the name has the form of a topic, and is not one of Angelia's own streams."""
    return is_topic_name(name) and name not in OWN
