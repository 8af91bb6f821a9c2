"""Counts the bytes ever published to each topic, over all API processes."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from typing import Final

from app.metrics.publish_counts import PublishCounts, Stored
from app.storage.database import Database
from app.storage.health.topic_volumes import VolumeRepository

# How often the counts are stored. If a process dies, its counts since then are lost.
TELL_EVERY: Final = timedelta(seconds=5)


class Volumes:
    """Adds the bytes published through this process to the count in the database."""

    def __init__(self, database: Database, counts: PublishCounts) -> None:
        self._database = database
        self._counts = counts

    async def store(self) -> None:
        """Add the new bytes to the count. After a failure, they are added the next time.

        If the response to the commit was lost, the bytes may be stored, and are not added again.

        Raises:
            StorageUnavailableError: The database cannot be reached.
        """
        unreported = self._counts.unreported()
        if not unreported:
            return
        async with self._database.transaction() as session:
            await VolumeRepository(session).add(_by_topic(unreported))
            # Mark the bytes as added before the commit. So no error can count them twice.
            for _, stored, size in unreported:
                stored.reported += size

    async def of(self, volumes: VolumeRepository, topics: Collection[str]) -> Mapping[str, int]:
        """Return the bytes ever published to each topic, also those that are not stored yet."""
        known, unreported = await volumes.of(topics), _by_topic(self._counts.unreported())
        return {each: known.get(each, 0) + unreported.get(each, 0) for each in topics}


def _by_topic(unreported: Iterable[tuple[str, Stored, int]]) -> Mapping[str, int]:
    sizes = Counter[str]()
    for topic, _, size in unreported:
        sizes[topic] += size
    return sizes
