"""Bytes ever published to each topic, counted by all API processes together."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from typing import Final

from app.metrics.publish_counts import PublishCounts, Stored
from app.storage.database import Database
from app.storage.health.topic_volumes import VolumeRepository

# If a process dies, what it counted since its last report is lost.
TELL_EVERY: Final = timedelta(seconds=5)


class Volumes:
    """Adds the bytes published through this process to the common count."""

    def __init__(self, database: Database, counts: PublishCounts) -> None:
        self._database = database
        self._counts = counts

    async def store(self) -> None:
        """Add what is new; after a failure it is added the next time.

        If only the response to the commit was lost, it may have been added, so it is not added
        again.

        Raises:
            StorageUnavailableError: The database cannot be reached.
        """
        unreported = self._counts.unreported()
        if not unreported:
            return
        async with self._database.transaction() as session:
            await VolumeRepository(session).add(_by_topic(unreported))
            # Before the commit, so that no error can make anything count twice.
            for _, stored, size in unreported:
                stored.told += size

    async def of(self, told: VolumeRepository, topics: Collection[str]) -> Mapping[str, int]:
        """Return the bytes of each, with those that only this process knows yet."""
        known, unreported = await told.of(topics), _by_topic(self._counts.unreported())
        return {each: known.get(each, 0) + unreported.get(each, 0) for each in topics}


def _by_topic(unreported: Iterable[tuple[str, Stored, int]]) -> Mapping[str, int]:
    sizes = Counter[str]()
    for topic, _, size in unreported:
        sizes[topic] += size
    return sizes
