"""Appends anchors of ledgers to a stream in the log, and reads these anchors.

An anchor is a copy of the hash of a ledger entry. It is stored outside of the database, so that a
check can detect a later change of the entries in the database.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from app.domain.errors import TopicNotFoundError
from app.domain.insight.ledger_anchors import LedgerAnchor, anchor_of
from app.domain.message import NewRecord, Partition
from app.domain.streams import LEDGERS
from app.log.interface import LogTopic, MessageLog
from app.services.log_positions import EPOCH, bounds_of, offsets_at

ANCHORS_TOPIC: Final = LogTopic(
    name=LEDGERS, partitions=1, retention=timedelta(days=366), message_size_max=64 * 1024
)
# The maximum difference that is assumed between the clocks of Spark runners and API processes.
_CLOCKS: Final = timedelta(hours=1)
_CHUNK: Final = 1024 * 1024


async def append_anchors(log: MessageLog, anchors: Iterable[LedgerAnchor]) -> None:
    """Append anchors of ledger entries to their stream. If needed, create the stream.

    Raises:
        LogUnavailableError: The log cannot be reached.
    """
    records = [NewRecord(value=each.text(), key=each.subscription_id.encode()) for each in anchors]
    try:
        await log.append(LEDGERS, records)
    except TopicNotFoundError:
        await log.create_topic(ANCHORS_TOPIC)
        await log.append(LEDGERS, records)


async def anchors_since(
    log: MessageLog, subscription_id: str, since: datetime | None
) -> Sequence[LedgerAnchor]:
    """Return the anchors of a subscription's ledger that were appended after the time `since`.

    If `since` is None, return all anchors of the ledger. The anchors are in the order in which they
    were appended.

    Raises:
        LogUnavailableError: The log cannot be reached.
    """
    found: list[LedgerAnchor] = []
    # Return no anchors if the stream does not exist. In this case, no anchor was ever appended.
    with suppress(TopicNotFoundError):
        partitions = await log.partitions(LEDGERS)
        starts = await offsets_at(log, partitions, EPOCH if since is None else since - _CLOCKS)
        bounds = await bounds_of(log, partitions)
        for partition in partitions:
            offset = max(starts[partition], bounds[partition].start)
            found += await _anchors(log, partition, offset, end=bounds[partition].end)
    return [each for each in found if each.subscription_id == subscription_id]


async def _anchors(
    log: MessageLog, partition: Partition, offset: int, *, end: int
) -> Sequence[LedgerAnchor]:
    found: list[LedgerAnchor] = []
    while offset < end:
        chunk = await log.fetch(partition, offset, bytes_max=_CHUNK)
        if chunk.next_offset <= offset:
            break
        read = (anchor_of(record.value or b"") for record in chunk.records)
        found += [each for each in read if each is not None]
        offset = chunk.next_offset
    return found
