"""Topics that nobody publishes to any more: told by how much they have been sent."""

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
# Topics that are looked at in one go.
_TOPICS: Final = 100


class ActivityService:
    """Looks at all topics from time to time. Several processes may: what they note is the same."""

    def __init__(self, database: Database, log: MessageLog) -> None:
        self._database = database
        self._log = log

    async def look(self) -> None:
        """Note how much each topic has been sent by now.

        StorageUnavailableError, LogUnavailableError: the rest is left for the next time.
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
        """Topics that have not been published to for longer than that, the longest first."""
        async with self._database.transaction() as session:
            return await ActivityRepository(session).inactive(longer_than)
