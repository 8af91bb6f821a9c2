"""From a chunk of log records to messages: once per chunk, for all subscriptions of its topic."""

from app.domain.message import Message
from app.log.interface import Chunk
from app.schemata.messages import AvroTopic
from workers.reading.feed import Batch


def decoded(chunk: Chunk, *, since: int = 0, schemas: AvroTopic | None = None) -> Batch:
    """The chunk's messages at `since` and above; `schemas` are those of an AVRO topic."""
    partition = chunk.partition
    records = chunk.records
    if since > chunk.offset:
        records = [record for record in records if record.offset >= since]
    return Batch(
        offset=max(chunk.offset, since),
        next_offset=chunk.next_offset,
        messages=(
            [Message(record, partition) for record in records]
            if schemas is None
            else [schemas.message(record, partition) for record in records]
        ),
        size=chunk.size,
    )
