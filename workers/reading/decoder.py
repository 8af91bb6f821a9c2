"""Decodes log records to messages: once for each chunk, for all subscriptions of its topic."""

import structlog

from app.domain.delivery import internal_error
from app.domain.message import BrokenMessage, Message, Partition, Record
from app.log.interface import Chunk
from app.schemas.formats import TopicFormats
from app.schemas.messages import AVRO, AvroTopic, Reading
from workers.reading.codecs_ready import CodecsReady
from workers.reading.feed import Batch
from workers.reading.schema_versions import VersionWait

_log = structlog.get_logger()


class Decoder:
    """Decodes chunks. The chunks of an AVRO topic are decoded with the topic's schemas.

    A chunk has to wait in three cases: its schemas are not known yet, its schemas are not compiled
    yet, or this worker does not know yet that the topic has become AVRO.
    """

    def __init__(
        self, formats: TopicFormats, versions: VersionWait, codecs: CodecsReady | None = None
    ) -> None:
        self._formats = formats
        self._versions = versions
        self._codecs = codecs or CodecsReady()
        # A text for people that says what the last chunk waits for, if it must be read again.
        self.awaited = ""

    def batch(self, chunk: Chunk, *, since: int = 0) -> Batch | None:
        """Return the chunk's decoded messages from offset `since` on.

        The result is None if the chunk's schemas are not ready. Then the chunk must be read again
        later.
        """
        topic = chunk.partition.topic
        schemas = self._formats.avro(topic)
        if schemas is not None and self._versions.holds(schemas, chunk):
            self.awaited = self._versions.awaited
            return None
        batch = decoded(chunk, since=since, schemas=schemas)
        if schemas is None and _has_avro(batch) and self._versions.holds_topic(chunk):
            self.awaited = self._versions.awaited
            return None
        if schemas is not None and self._codecs.hold(batch.messages):
            self.awaited = self._codecs.awaited
            return None
        return batch


def _has_avro(batch: Batch) -> bool:
    """Whether any message is marked as Avro. Nearly all chunks have no such message."""
    return any(each.content_type == AVRO for each in batch.messages)


def decoded(chunk: Chunk, *, since: int = 0, schemas: AvroTopic | None = None) -> Batch:
    """Return the chunk's decoded messages from offset `since` on.

    `schemas` has the schemas of an AVRO topic; None for other topics.
    """
    partition = chunk.partition
    make = Message if schemas is None else schemas.message
    records = chunk.records
    if since > chunk.offset:
        records = [record for record in records if record.offset >= since]
    try:
        messages = [make(record, partition) for record in records]
    except Exception as exc:  # noqa: BLE001 - an error must affect only its message
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
    except Exception as exc:  # noqa: BLE001 - the message is discarded with this reason
        return BrokenMessage(record, partition, internal_error(exc))
