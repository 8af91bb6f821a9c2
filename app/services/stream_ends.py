"""Reads the current ends of the streams of traces and undelivered messages."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from app.domain.errors import TopicNotFoundError
from app.domain.message import Partition
from app.domain.replay.retransmission import OffsetSpan
from app.domain.streams import TRACES, UNDELIVERED
from app.log.interface import MessageLog

_STREAMS: Final = (UNDELIVERED, TRACES)


async def stream_spans(log: MessageLog) -> Sequence[OffsetSpan]:
    """Return the offsets of each partition of the streams, from 0 to the current end.

    Raises:
        LogUnavailableError: The log cannot be reached.
    """
    partitions = list[Partition]()
    for topic in _STREAMS:
        # Leave out a stream that does not exist yet. The first worker creates the stream when the
        # worker starts.
        with suppress(TopicNotFoundError):
            partitions += await log.partitions(topic)
    bounds = await log.bounds(partitions)
    return [
        OffsetSpan(topic=each.topic, partition=each.index, start=0, end=bounds[each].end)
        for each in partitions
        if each in bounds
    ]
