"""From a chunk of log records to messages: once per chunk, for all subscriptions of its topic."""

from app.domain.message import Message
from app.log.interface import Chunk
from workers.reading.feed import Batch


def decoded(chunk: Chunk, *, since: int = 0) -> Batch:
    """The chunk's messages at `since` and above."""
    partition = chunk.partition
    records = chunk.records
    if since > chunk.offset:
        records = [record for record in records if record.offset >= since]
    return Batch(
        offset=max(chunk.offset, since),
        next_offset=chunk.next_offset,
        messages=[Message(record, partition) for record in records],
        size=chunk.size,
    )
