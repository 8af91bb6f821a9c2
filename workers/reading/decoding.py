"""From a chunk of log records to messages: once per chunk, for all subscriptions of its topic."""

import structlog

from app.domain.message import BrokenMessage, Message, Partition, Record
from app.log.interface import Chunk
from app.schemata.messages import AvroTopic, Reading
from workers.reading.feed import Batch

_log = structlog.get_logger()


def decoded(chunk: Chunk, *, since: int = 0, schemas: AvroTopic | None = None) -> Batch:
    """The chunk's messages at `since` and above; `schemas` are those of an AVRO topic."""
    partition = chunk.partition
    make = Message if schemas is None else schemas.message
    records = chunk.records
    if since > chunk.offset:
        records = [record for record in records if record.offset >= since]
    try:
        messages = [make(record, partition) for record in records]
    except Exception as exc:  # noqa: BLE001 - only the message that raises it shall suffer
        _log.error("internal_error", step="read", partition=partition, exc_info=exc)
        messages = [_message(make, record, partition) for record in records]
    return Batch(
        offset=max(chunk.offset, since),
        next_offset=chunk.next_offset,
        messages=messages,
        size=chunk.size,
    )


def _message(make: Reading, record: Record, partition: Partition) -> Message:
    try:
        return make(record, partition)
    except Exception as exc:  # noqa: BLE001 - it is discarded with its reason
        return BrokenMessage(record, partition, f"Internal error: {type(exc).__name__}")
