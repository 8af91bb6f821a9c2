"""Stores the bytes ever published to each topic, over all API processes."""

import json
from collections.abc import Collection, Mapping
from typing import Final

from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncSession

from app.storage.tables import TopicVolumeRow

# Adds published bytes to topics. All processes write the rows in the same order, so that they
# cannot deadlock. Deleted topics are left out.
_ADD: Final = text("""
INSERT INTO topic_volumes AS known (topic, volume)
SELECT added.topic, added.bytes
  FROM json_to_recordset(CAST(:rows AS json)) AS added (topic text, bytes bigint)
  JOIN topics ON topics.name = added.topic
 ORDER BY added.topic
   FOR KEY SHARE OF topics
ON CONFLICT (topic) DO UPDATE SET volume = known.volume + excluded.volume
""")


class VolumeRepository:
    """The published bytes of each topic. The number of a topic is deleted with the topic."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def add(self, sizes: Mapping[str, int]) -> None:
        """Add bytes to each topic. Deleted topics are ignored."""
        rows = [{"topic": topic, "bytes": size} for topic, size in sizes.items()]
        await self._session.execute(_ADD, {"rows": json.dumps(rows)})

    async def of(self, topics: Collection[str]) -> Mapping[str, int]:
        """Return the published bytes by topic. Topics without a stored number are left out."""
        row = TopicVolumeRow
        found = await self._session.execute(
            select(row.topic, row.volume).where(row.topic.in_(topics))
        )
        return {topic: int(volume) for topic, volume in found}
