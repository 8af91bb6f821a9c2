"""Returns the first and next offsets of topics to callers without an open log (Spark jobs).

The calls block.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager

from app.domain.errors import TopicNotFoundError
from app.domain.replay.retransmission import OffsetSpan
from app.log.factory import LogLocation, log_at
from app.log.interface import Bounds, MessageLog


def topic_bounds(
    url: str, topics: Collection[str], location: LogLocation
) -> Mapping[str, Mapping[int, Bounds]]:
    """Return the first and the next offset of each partition, by topic.

    Topics that the log does not have are left out. If the log is in the database, it is read at
    `url`.

    Raises:
        LogUnavailableError: The log cannot be read.
    """
    return asyncio.run(_bounds(log_at(url, location), topics))


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


def spans_near(
    url: str, times: Mapping[str, int], location: LogLocation, *, at_most: int
) -> Mapping[str, Sequence[OffsetSpan]]:
    """Return ranges of offsets around a time in each topic; `times` has the time by topic (ms).

    In each partition, the range has at most `at_most` offsets before the time, and at most
    `at_most` offsets from the time on. Topics that the log does not have are left out. If the log
    is in the database, it is read at `url`.

    Raises:
        LogUnavailableError: The log cannot be read.
    """
    return asyncio.run(_near(log_at(url, location), times, at_most))


async def _near(
    opened: AbstractAsyncContextManager[MessageLog], times: Mapping[str, int], at_most: int
) -> Mapping[str, Sequence[OffsetSpan]]:
    found: dict[str, Sequence[OffsetSpan]] = {}
    async with opened as log:
        for topic, time_ms in times.items():
            try:
                partitions = await log.partitions(topic)
            except TopicNotFoundError:
                continue
            bounds = await log.bounds(partitions)
            offsets = await log.offsets_at(partitions, time_ms)
            found[topic] = [
                OffsetSpan(
                    topic=topic,
                    partition=each.index,
                    start=max(bounds[each].start, offsets[each] - at_most),
                    end=min(bounds[each].end, offsets[each] + at_most),
                )
                for each in partitions
                if each in bounds and each in offsets
            ]
    return found
