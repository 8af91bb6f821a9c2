"""Counts the bytes that were ever published to each topic through all API processes."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from typing import Final

from app.metrics.publish_counts import PublishCounts, Stored
from app.storage.database import Database
from app.storage.health.topic_volumes import VolumeRepository

# How often a process stores its counts of published bytes. If the process dies, the counts since
# the last time are lost.
TELL_EVERY: Final = timedelta(seconds=5)


class Volumes:
    """Adds the bytes published through this process to the count in the database."""

    def __init__(self, database: Database, counts: PublishCounts) -> None:
        self._database = database
        self._counts = counts

    async def store(self) -> None:
        """Add the bytes since the last call to the counts in the database.

        If this fails before the commit, the next call adds these bytes. If the commit fails, the
        bytes are not added again, because they may have been stored.

        Raises:
            StorageUnavailableError: The database cannot be reached.
        """
        unreported = self._counts.unreported()
        if not unreported:
            return
        async with self._database.transaction() as session:
            await VolumeRepository(session).add(_by_topic(unreported))
            # Mark the bytes as added before the commit. So a commit whose response is lost does not
            # count the bytes twice.
            for _, stored, size in unreported:
                stored.reported += size

    async def of(self, volumes: VolumeRepository, topics: Collection[str]) -> Mapping[str, int]:
        """Return how many bytes were ever published to each topic.

        Bytes of this process that are not stored yet are included.
        """
        known, unreported = await volumes.of(topics), _by_topic(self._counts.unreported())
        return {each: known.get(each, 0) + unreported.get(each, 0) for each in topics}


def _by_topic(unreported: Iterable[tuple[str, Stored, int]]) -> Mapping[str, int]:
    sizes = Counter[str]()
    for topic, _, size in unreported:
        sizes[topic] += size
    return sizes
