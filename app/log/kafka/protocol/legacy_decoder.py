"""Decodes messages from before Kafka 0.11 (magic 0 and 1), which old segments may still have.

Format: Kafka protocol guide, "Message sets". A compressed message has other messages as its value.
"""

import struct
from typing import Final

from kafka.record import MemoryRecords

from app.domain.message import Record
from app.log.kafka.protocol.decompression import decompressed

# The fields at the start of a message: offset, length, checksum, magic, attributes.
_HEADER: Final = struct.Struct(">qiIbb")
_TIMESTAMP: Final = 8
_LENGTH: Final = struct.Struct(">i")
_CODEC_MASK: Final = 0x07


def decode_legacy(raw: bytes, offset: int, into: list[Record], *, limit: int) -> tuple[int, int]:
    """Add the records of one message from `offset` on to `into`.

    Returns:
        The last offset, and how many bytes were decompressed.

    Raises:
        TooLargeError: The records would be more than `limit` bytes.
        Exception: The message is damaged.
    """
    last, size = offset - 1, 0
    for batch in MemoryRecords(raw):
        if not batch.validate_crc():
            raise ValueError("its checksum is wrong")
        # Check the decompressed size first, because kafka-python decompresses without a limit.
        size += _decompressed_size(raw, limit)
        for record in batch:
            last = record.offset
            if last >= offset:
                into.append(Record(last, record.timestamp or 0, record.key, record.value, []))
    return last, size


def _decompressed_size(raw: bytes, limit: int) -> int:
    *_, magic, attributes = _HEADER.unpack_from(raw)
    if not attributes & _CODEC_MASK:
        return 0
    position = _HEADER.size + _TIMESTAMP * magic
    # Skip the key, after which the value follows. A compressed message has no key (the length is
    # -1).
    position += _LENGTH.size + max(_LENGTH.unpack_from(raw, position)[0], 0)
    start = position + _LENGTH.size
    body = raw[start : start + _LENGTH.unpack_from(raw, position)[0]]
    return len(decompressed(body, attributes & _CODEC_MASK, limit))
