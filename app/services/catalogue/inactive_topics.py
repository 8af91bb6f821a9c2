"""Inactive topics: topics that have got no new messages for a long time."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from app.domain.catalogue.operations import InactiveTopic
from app.log.interface import MessageLog
from app.storage.catalogue.operations import ActivityRepository
from app.storage.database import Database

LOOK_EVERY: Final = timedelta(minutes=30)
# A topic without new messages for this time is inactive. Hermes has the same limit.
INACTIVE_AFTER: Final = timedelta(days=60)
# The number of topics that are checked in one step.
_TOPICS: Final = 100


class ActivityService:
    """Checks regularly whether topics have got new messages.

    Several processes may do this at the same time. The result is the same.
    """

    def __init__(self, database: Database, log: MessageLog) -> None:
        self._database = database
        self._log = log

    async def look(self) -> None:
        """Store how many messages were ever published to each topic.

        Raises:
            StorageUnavailableError: The remaining topics are checked the next time.
            LogUnavailableError: The remaining topics are checked the next time.
        """
        after = ""
        while True:
            async with self._database.transaction() as session:
                topics = await ActivityRepository(session).partitions(after=after, limit=_TOPICS)
            if not topics:
                return
            after = list(topics)[-1]  # the last topic of this step
            published = await self._log.published(topics)
            async with self._database.transaction() as session:
                await ActivityRepository(session).note(published)

    async def inactive(self, longer_than: timedelta = INACTIVE_AFTER) -> Sequence[InactiveTopic]:
        """Return the topics that have got no new messages for more than `longer_than`.

        The topic that has been inactive for the longest time comes first.
        """
        async with self._database.transaction() as session:
            return await ActivityRepository(session).inactive(longer_than)
