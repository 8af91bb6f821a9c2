"""Reads the offsets that the archive of a topic has, for all times or for given times."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.catalogue.topic import Topic
from app.domain.replay.coverage import Dated, Stretch, Times

# Selects the archived ranges of offsets. The database merges the ranges, because a year of hourly
# archives of ten partitions has 88,000 rows.
_KEPT: Final = text("""
SELECT CAST(parts.key AS integer), lower(stretch), upper(stretch)
FROM (
  SELECT span.key, range_agg(
    int8range(CAST(span.value ->> 0 AS bigint), CAST(span.value ->> 1 AS bigint))) AS stretches
  FROM archive_folders f, jsonb_each(f.spans) AS span
  WHERE f.state = 'KEPT' AND f.topic = :topic AND f.topic_created_at = :created_at
  GROUP BY span.key
) AS parts, unnest(parts.stretches) AS stretch
ORDER BY 1, 2
""")
_DATED: Final = text("""
SELECT p.partition,
  min(p.start) FILTER (WHERE p.last_ms >= :since_ms),
  (array_agg(p.first_ms ORDER BY p.start) FILTER (WHERE p.last_ms >= :since_ms))[1],
  max(p."end") FILTER (WHERE p.first_ms < :until_ms)
FROM archive_pieces p JOIN archive_folders f USING (job_id, attempt, topic)
WHERE f.state = 'KEPT' AND f.topic = :topic AND f.topic_created_at = :created_at
GROUP BY p.partition
""")
_FOR_EVER_MS: Final = 2**63 - 1


class ArchiveCoverageRepository:
    """Reads which offsets are in the valid files of an archive."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def kept(self, topic: Topic) -> Mapping[int, Sequence[Stretch]]:
        """Return the archived offsets of each partition, in order."""
        found: dict[int, list[Stretch]] = {}
        for index, start, end in await self._session.execute(_KEPT, _of(topic)):
            found.setdefault(index, []).append(Stretch(start, end))
        return found

    async def dated(self, topic: Topic, times: Times) -> Mapping[int, Dated]:
        """Return, by archived partition, the archived offsets that may have messages of `times`."""
        requested = {
            "since_ms": times.since_ms or 0,
            "until_ms": _FOR_EVER_MS if times.until_ms is None else times.until_ms,
        }
        rows = await self._session.execute(_DATED, _of(topic) | requested)
        return {index: Dated(first, first_ms, end) for index, first, first_ms, end in rows}


def _of(topic: Topic) -> dict[str, Any]:
    return {"topic": topic.name, "created_at": topic.created_at}
