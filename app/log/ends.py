"""First and next offsets of topics, for blocking callers without an open log (Spark jobs)."""

import asyncio
from collections.abc import Collection, Mapping
from contextlib import AbstractAsyncContextManager

from app.domain.errors import TopicNotFoundError
from app.log.factory import LogPlace, log_at
from app.log.interface import Bounds, MessageLog


def topic_bounds(
    url: str, topics: Collection[str], place: LogPlace
) -> Mapping[str, Mapping[int, Bounds]]:
    """Return the first and the next offset of each partition, by topic.

    Topics that the log does not have are left out. If the log is in the database, it is read at
    `url`.

    Raises:
        LogUnavailableError: The log cannot be read.
    """
    return asyncio.run(_bounds(log_at(url, place), topics))


async def _bounds(
    opened: AbstractAsyncContextManager[MessageLog], topics: Collection[str]
) -> Mapping[str, Mapping[int, Bounds]]:
    found: dict[str, Mapping[int, Bounds]] = {}
    async with opened as log:
        for topic in topics:
            try:
                partitions = await log.partitions(topic)
            except TopicNotFoundError:
                continue
            bounds = await log.bounds(partitions)
            found[topic] = {partition.index: each for partition, each in bounds.items()}
    return found
