"""Reads bounds and offsets of partitions. If one of them is missing, an error is raised."""

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
    """Return, for each partition, the first offset at or after that time.

    If there is none, return the partition's end.

    Raises:
        LogUnavailableError: The log cannot be reached.
    """
    # Use the epoch for earlier times. No message is older, and Kafka gives negative times another
    # meaning.
    found = await log.offsets_at(partitions, milliseconds(moment))
    if missing := [each for each in partitions if each not in found]:
        raise LogUnavailableError(f"The log does not say where {missing[0]} was then")
    return found


async def begun_at(
    log: MessageLog, partitions: Collection[Partition], beginning: Beginning
) -> Mapping[Partition, int]:
    """Return the offsets at which a start position begins, one for each partition.

    Each message that is published from now on has this offset or a higher one.

    Raises:
        LogUnavailableError: The log cannot be reached.
    """
    # Read the ends first. To find a time, Kafka is queried twice: for the first message at or after
    # the time, and if there is none, for the end. A message that comes between the two queries
    # would be missed.
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
