"""Bytes published to each topic ever, as all API processes count them together."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from typing import Final

from app.metrics.publish_counts import PublishCounts, Stored
from app.storage.database import Database
from app.storage.health.topic_volumes import VolumeRepository

# What a process counted since it told it last is lost with it.
TELL_EVERY: Final = timedelta(seconds=5)


class Volumes:
    """Adds what this process publishes to what all have published."""

    def __init__(self, database: Database, counts: PublishCounts) -> None:
        self._database = database
        self._counts = counts

    async def store(self) -> None:
        """Add what is new; StorageUnavailableError: it is added the next time.

        Unless it was the commit that was not answered: what may have been added is not added again.
        """
        unreported = self._counts.unreported()
        if not unreported:
            return
        async with self._database.transaction() as session:
            await VolumeRepository(session).add(_by_topic(unreported))
            # Before the commit: nothing that ends us in it has anything counted twice.
            for _, stored, size in unreported:
                stored.told += size

    async def of(self, told: VolumeRepository, topics: Collection[str]) -> Mapping[str, int]:
        """The bytes of each, with those that only this process knows of yet."""
        known, unreported = await told.of(topics), _by_topic(self._counts.unreported())
        return {each: known.get(each, 0) + unreported.get(each, 0) for each in topics}


def _by_topic(unreported: Iterable[tuple[str, Stored, int]]) -> Mapping[str, int]:
    sizes = Counter[str]()
    for topic, _, size in unreported:
        sizes[topic] += size
    return sizes
