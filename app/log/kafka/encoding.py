"""New records into a record batch, and keys into partitions.

Format: Kafka protocol guide, "Record Batch" (magic 2), uncompressed and not transactional.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from crc32c import crc32c
from kafka.partitioner.default import murmur2

from app.domain.message import NewRecord

# What a record costs beside its key, value and headers, at most (lengths, deltas, attributes).
RECORD_OVERHEAD_MAX: Final = 40
BATCH_OVERHEAD: Final = 61
_HEADER_OVERHEAD_MAX: Final = 10

_PREFIX: Final = struct.Struct(">qiibI")
_REST: Final = struct.Struct(">hiqqqhii")
_AFTER_LENGTH: Final = 12
_NO_PRODUCER: Final = (-1, -1, -1)


def size_of(record: NewRecord) -> int:
    """Bytes that `record` takes in a batch, at most."""
    size = RECORD_OVERHEAD_MAX + len(record.value) + len(record.key or b"")
    for name, value in record.headers:
        size += _HEADER_OVERHEAD_MAX + len(name) + len(value)
    return size


@lru_cache(maxsize=16_384)
def partition_of(key: bytes, partitions: int) -> int:
    """The partition that Kafka's own producers choose for `key`."""
    return int(murmur2(key) & 0x7FFFFFFF) % partitions


def encode(records: Sequence[NewRecord], now_ms: int) -> bytes:
    """One batch of them all, in order; those without a time get `now_ms`."""
    stamps = [now_ms if each.timestamp_ms is None else each.timestamp_ms for each in records]
    body = bytearray()
    for delta, record in enumerate(records):
        encoded = _encode_record(record, stamps[delta] - stamps[0], delta)
        _put_varint(body, len(encoded))
        body += encoded
    last = len(records) - 1
    rest = _REST.pack(0, last, stamps[0], max(stamps), *_NO_PRODUCER, len(records)) + body
    length = _PREFIX.size - _AFTER_LENGTH + len(rest)
    return _PREFIX.pack(0, length, -1, 2, crc32c(rest)) + rest


def _encode_record(record: NewRecord, elapsed_ms: int, delta: int) -> bytearray:
    out = bytearray(1)
    _put_varint(out, elapsed_ms)
    _put_varint(out, delta)
    if record.key is None:
        _put_varint(out, -1)
    else:
        _put_bytes(out, record.key)
    _put_bytes(out, record.value)
    _put_varint(out, len(record.headers))
    for name, value in record.headers:
        _put_bytes(out, name)
        _put_bytes(out, value)
    return out


def _put_bytes(out: bytearray, value: bytes) -> None:
    _put_varint(out, len(value))
    out += value


def _put_varint(out: bytearray, number: int) -> None:
    """Zigzag, seven bits a byte, least first."""
    value = (number << 1) ^ (number >> 63)
    while value > 0x7F:  # noqa: PLR2004 - seven bits
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
