"""Encodes new records as a record batch, and chooses the partition of a key.

Format: Kafka protocol guide, "Record Batch" (magic 2), not transactional.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from crc32c import crc32c
from kafka.partitioner.default import murmur2

from app.domain.message import NewRecord
from app.log.kafka.protocol.compression import Compression

BATCH_OVERHEAD: Final = 61
# The maximum size of the first fields of a record: its length, its attributes, and two deltas.
_FRONT_MAX: Final = 5 + 1 + 10 + 5

_PREFIX: Final = struct.Struct(">qiibI")
_REST: Final = struct.Struct(">hiqqqhii")
_AFTER_LENGTH: Final = 12
_NULL: Final = b"\x01"
_ATTRIBUTES: Final = b"\0"


class EncodedRecord(NamedTuple):
    """An encoded record without its first fields, which depend on the batch.

    `parts` has the bytes after the first fields in several pieces, beginning with the key.
    """

    timestamp_ms: int
    parts: tuple[bytes, ...]
    length: int

    @property
    def size(self) -> int:
        """The maximum size of the record in a batch, in bytes."""
        return self.length + _FRONT_MAX


def encode_record(record: NewRecord, now_ms: int) -> EncodedRecord:
    """Encode the record in several pieces, so that its body is copied only once.

    A record without a time gets `now_ms`.
    """
    key, value, stamp = record.key, record.value, record.timestamp_ms
    front = _NULL if key is None else varint(len(key)) + key
    around = [varint(len(record.headers))]
    for name, text in record.headers:
        around += (_named(name), varint(len(text)), text)
    parts = (front + varint(len(value)), value, b"".join(around))
    length = len(parts[0]) + len(value) + len(parts[2])
    return EncodedRecord(now_ms if stamp is None else stamp, parts, length)


@lru_cache(maxsize=1_024)
def _named(name: bytes) -> bytes:
    """Return a header's name as encoded bytes, from a cache, because many records share names."""
    return varint(len(name)) + name


@lru_cache(maxsize=16_384)
def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition that Kafka's own producers choose for `key`."""
    return int(murmur2(key) & 0x7FFFFFFF) % partitions


class BatchBody(NamedTuple):
    """The encoded records of one batch in order. In the batch, they follow the header.

    The bytes in `raw` are not compressed.
    """

    records: int
    first_ms: int
    newest_ms: int
    raw: bytes


class BatchStamp(NamedTuple):
    """The producer of a batch, and the sequence number of the batch's first record.

    With this stamp, brokers recognise a batch that is sent again.
    """

    producer_id: int
    epoch: int
    sequence: int


NO_STAMP: Final = BatchStamp(-1, -1, -1)


def batch_body(records: Sequence[EncodedRecord]) -> BatchBody:
    """Return the body of one batch."""
    first = newest = records[0].timestamp_ms
    parts: list[bytes] = []
    for delta, (stamp, rest, length) in enumerate(records):
        newest = max(newest, stamp)
        deltas = _ATTRIBUTES + varint(stamp - first) + varint(delta)
        parts += (varint(len(deltas) + length), deltas, *rest)
    return BatchBody(len(records), first, newest, b"".join(parts))


def whole_batch(body: BatchBody, compression: Compression, stamp: BatchStamp = NO_STAMP) -> bytes:
    """Return the batch with its header. Most of this work runs without the interpreter's lock."""
    count, first, newest, raw = body
    if compression is not Compression.NONE:
        raw = compression.compress(raw)
    rest_of_head = _REST.pack(compression.value, count - 1, first, newest, *stamp, count)
    crc = crc32c(raw, crc32c(rest_of_head))
    length = _PREFIX.size - _AFTER_LENGTH + len(rest_of_head) + len(raw)
    return b"".join((_PREFIX.pack(0, length, -1, 2, crc), rest_of_head, raw))


def varint(number: int) -> bytes:
    """Return `number` as zigzag varint: seven bits per byte, the lowest first."""
    if 0 <= number < _USUAL:
        return _USUAL_VARINTS[number]
    return _varint(number)


def _varint(number: int) -> bytes:
    out = bytearray()
    value = (number << 1) ^ (number >> 63)
    while value > 0x7F:  # noqa: PLR2004 - a byte has seven bits
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


# Numbers below this limit are encoded in advance. Most numbers in a batch are lengths and small
# differences.
_USUAL: Final = 4096
_USUAL_VARINTS: Final = tuple(_varint(number) for number in range(_USUAL))
