"""Reads bounds and offsets of partitions. An error is raised if the log leaves out a partition."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Final, assert_never

from app.domain.catalogue.start_position import Beginning, Edge
from app.domain.errors import LogUnavailableError
from app.domain.message import Partition
from app.domain.replay.coverage import milliseconds
from app.log.interface import Bounds, MessageLog

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


async def bounds_of(
    log: MessageLog, partitions: Collection[Partition]
) -> Mapping[Partition, Bounds]:
    """Return the first and the next offset of each partition.

    Raises:
        LogUnavailableError: The log cannot be reached.
    """
    bounds = await log.bounds(partitions)
    if missing := [each for each in partitions if each not in bounds]:
        raise LogUnavailableError(f"The log does not say where {missing[0]} ends")
    return bounds


async def offsets_at(
    log: MessageLog, partitions: Collection[Partition], moment: datetime
) -> Mapping[Partition, int]:
    """Return, for each partition, the offset of the first message at or after the time `moment`.

    If a partition has no such message, return its end.

    Raises:
        LogUnavailableError: The log cannot be reached.
    """
    # Replace a time before 1970 by the start of 1970. No message is older, and a negative time has
    # another meaning in Kafka.
    found = await log.offsets_at(partitions, milliseconds(moment))
    if missing := [each for each in partitions if each not in found]:
        raise LogUnavailableError(f"The log does not say where {missing[0]} was then")
    return found


async def begun_at(
    log: MessageLog, partitions: Collection[Partition], beginning: Beginning
) -> Mapping[Partition, int]:
    """Return the offset in each partition at which the start position `beginning` begins.

    Every message that is published after this call has this offset or a higher offset.

    Raises:
        LogUnavailableError: The log cannot be reached.
    """
    # Read the ends of the partitions before the offsets of a time. For such an offset, Kafka is
    # queried twice: for the first message at or after the time, and if there is none, for the end.
    # Without the first ends, a message that comes between these two queries would be missed.
    bounds = await bounds_of(log, partitions)
    match beginning:
        case Edge.EARLIEST:
            return {each: bounds[each].start for each in partitions}
        case Edge.LATEST:
            return {each: bounds[each].end for each in partitions}
        case datetime():
            found = await offsets_at(log, partitions, beginning)
            return {each: min(found[each], bounds[each].end) for each in partitions}
        case _:
            assert_never(beginning)
