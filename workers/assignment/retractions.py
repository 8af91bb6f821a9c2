"""Retracts discards that a dead worker recorded but did not commit."""

import asyncio
from collections.abc import Collection, Iterator, Sequence
from datetime import timedelta
from typing import Final, NamedTuple

import structlog

from app.domain.commit import Progress
from app.domain.discards.retractions import retraction_of, retraction_record
from app.domain.errors import AngeliaError
from app.domain.message import NewRecord, Partition
from app.domain.streams import UNDELIVERED
from app.log.interface import Bounds, MessageLog

RETRY_PAUSE: Final = timedelta(milliseconds=500)
# The maximum number of retractions in one append. Each retraction has some kilobytes at most.
RETRACTIONS_PER_APPEND: Final = 200

_log = structlog.get_logger()


class Unsettled(NamedTuple):
    """A cursor whose last owner may have recorded discards that it did not commit.

    Attributes:
        partition: The partition of the cursor.
        committed: The last commit of the last owner.
        start: The position from which the cursor continues.
    """

    partition: Partition
    committed: Progress
    start: Progress


async def settle(log: MessageLog, unsettled: Collection[Unsettled]) -> None:
    """Write retractions of the uncommitted discards of these cursors into the stream.

    While the log is down, wait and try again.
    """
    while True:
        try:
            retractions = list(_retractions(unsettled, await _bounds(log, unsettled)))
            await _append(log, retractions)
        except AngeliaError as exc:
            _log.warning("discards_not_retracted", cursors=len(unsettled), error=exc.message)
            await asyncio.sleep(RETRY_PAUSE.total_seconds())
        else:
            return


async def _bounds(log: MessageLog, unsettled: Collection[Unsettled]) -> dict[Partition, Bounds]:
    return dict(await log.bounds({each.partition for each in unsettled}))


def _retractions(
    unsettled: Collection[Unsettled], bounds: dict[Partition, Bounds]
) -> Iterator[NewRecord]:
    for partition, committed, start in unsettled:
        bound = bounds.get(partition)
        if bound is None:
            continue
        # Retract only discards of messages that the log still has. A message that the log no longer
        # has cannot be sent again.
        retraction = retraction_of(committed, partition.index, start=max(start.offset, bound.start))
        if retraction.offset < bound.end:
            yield retraction_record(retraction)


async def _append(log: MessageLog, retractions: Sequence[NewRecord]) -> None:
    for first in range(0, len(retractions), RETRACTIONS_PER_APPEND):
        await log.append(UNDELIVERED, retractions[first : first + RETRACTIONS_PER_APPEND])
    if retractions:
        _log.info("discards_retracted", cursors=len(retractions))
