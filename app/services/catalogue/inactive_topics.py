"""Inactive topics: detected by the number of their messages."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from app.domain.catalogue.operations import InactiveTopic
from app.log.interface import MessageLog
from app.storage.catalogue.operations import ActivityRepository
from app.storage.database import Database

LOOK_EVERY: Final = timedelta(minutes=30)
# Hermes' threshold.
INACTIVE_AFTER: Final = timedelta(days=60)
# The number of topics in one step.
_TOPICS: Final = 100


class ActivityService:
    """Checks all topics from time to time. Several processes may do so, with the same result."""

    def __init__(self, database: Database, log: MessageLog) -> None:
        self._database = database
        self._log = log

    async def look(self) -> None:
        """Store how many messages each topic has by now.

        Raises:
            StorageUnavailableError: The rest is left for the next time.
            LogUnavailableError: The rest is left for the next time.
        """
        after = ""
        while True:
            async with self._database.transaction() as session:
                topics = await ActivityRepository(session).partitions(after=after, limit=_TOPICS)
            if not topics:
                return
            after = list(topics)[-1]  # in the order of the database, not of Python
            published = await self._log.published(topics)
            async with self._database.transaction() as session:
                await ActivityRepository(session).note(published)

    async def inactive(self, longer_than: timedelta = INACTIVE_AFTER) -> Sequence[InactiveTopic]:
        """Return the topics without messages for longer than this, the longest first."""
        async with self._database.transaction() as session:
            return await ActivityRepository(session).inactive(longer_than)
