"""Decodes record batches from a broker directly to `Record` objects.

Format: Kafka protocol guide, "Record Batch" (magic 2). kafka-python's own code creates an object
for each record and decodes header names to text, which takes about twice as long.
"""

import struct
from collections.abc import Iterable
from operator import attrgetter
from typing import Final, NamedTuple

from crc32c import crc32c

from app.domain.message import Record
from app.log.kafka.protocol.decompression import TooLargeError, decompressed
from app.log.kafka.protocol.fetches import AbortedTransaction
from app.log.kafka.protocol.legacy_decoder import decode_legacy

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_LENGTH: Final = struct.Struct(">qi")
_LOG_OVERHEAD: Final = 12
_MAGIC_OFFSET: Final = 16
_CRC_FROM: Final = 21
# The position of the attributes in a record batch. The attributes have two bytes; this is the
# position of the lower byte.
_ATTRIBUTES_OFFSET: Final = 22
_MAGIC: Final = 2
_CODEC_MASK: Final = 0x07
_LOG_APPEND_TIME: Final = 0x08
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
# The largest number of bits by which a byte of a varint is shifted. The last byte of a varint of 64
# bits is shifted by so many.
_VARINT_SHIFT_MAX: Final = 63

# The maximum decompressed size of all record batches of a response. Decoding stops at this limit.
# The next batches are requested again, and decoded from the next response. A single batch that is
# larger than the limit is skipped. No producer makes such a batch.
DECOMPRESSED_MAX: Final = 64 << 20


class CorruptBatchError(Exception):
    """The bytes are not a valid record batch: a checksum, a length or a codec is wrong."""


class Decoded(NamedTuple):
    """The records from the requested offset on, and the next offset to read.

    Attributes:
        records: the records, in order.
        next_offset: the offset from which to read next.
        size: the size of the records in bytes, decompressed.
        cut: whether decoding stopped at the limit.
        passed_over: the first offset of a batch that was skipped, because it is larger than the
            limit.
    """

    records: list[Record]
    next_offset: int
    size: int
    cut: bool = False
    passed_over: int | None = None


# A record batch: its first offset, its last offset, its first timestamp, the broker's timestamp
# (None if the producer's timestamps count), and the number of records. It is a plain tuple, because
# a named tuple takes longer to create.
_Batch = tuple[int, int, int, int | None, int]

# It is below the offset of every record, also of a record whose delta is wrong.
_BELOW_ALL: Final = -(1 << 80)


def decode(
    raw: bytes,
    offset: int,
    aborted: Iterable[AbortedTransaction] = (),
    *,
    decompressed_max: int = DECOMPRESSED_MAX,
) -> Decoded:
    """Return the records of `raw` from `offset` on.

    An incomplete batch at the end is left out, and so are records of the transactions in `aborted`.
    If a batch is corrupt, only the batches before it are decoded.

    Raises:
        CorruptBatchError: The batch that has `offset` is corrupt.
    """
    records: list[Record] = []
    room, passed_over = _Room(decompressed_max), None
    aborted_batches = _AbortedBatches(aborted) if aborted else None
    position, end, next_offset, cut, whole = 0, len(raw), offset, False, 0
    while position + _MAGIC_OFFSET < end and not cut:
        base, length = _LENGTH.unpack_from(raw, position)
        batch_end = position + _LOG_OVERHEAD + length
        if batch_end > end:
            break
        batch = memoryview(raw)[position:batch_end]
        try:
            last = _decode_one(batch, offset, records, aborted_batches=aborted_batches, room=room)
        except TooLargeError:
            cut = True
            if room.used:
                break
            passed_over, last = base, _last_offset(batch)
        except CorruptBatchError:
            # The next read begins at this batch, and fails.
            del records[whole:]
            if next_offset == offset:
                raise
            break
        next_offset, whole = max(next_offset, last + 1), len(records)
        position = batch_end
    return Decoded(records, next_offset, max(end, room.used), cut, passed_over)


class _Room:
    """The limit for the decompressed size of one response, and the size so far."""

    __slots__ = ("limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit, self.used = limit, 0


class Contents(NamedTuple):
    """The number of records in batches, and whether any batch is compressed."""

    records: int
    packed: bool


def contents(raw: bytes) -> Contents | None:
    """Return how many records these batches have, and whether any batch is compressed.

    Only the headers of the batches are read. The result is None for an old format or invalid bytes.
    """
    count, packed, position = 0, 0, 0
    while position + _HEADER.size <= len(raw):
        _, length, _, magic, _, attributes, *_, records = _HEADER.unpack_from(raw, position)
        if magic < _MAGIC or length < 0 or records < 0:
            return None
        packed |= attributes & _CODEC_MASK
        count += records
        position += _LOG_OVERHEAD + length
    return Contents(count, bool(packed))


def is_one_plain(raw: bytes) -> bool:
    """Whether these bytes are at most one batch, in the current format, and not compressed."""
    end = len(raw)
    if end <= _ATTRIBUTES_OFFSET:
        return True
    if raw[_MAGIC_OFFSET] < _MAGIC or raw[_ATTRIBUTES_OFFSET] & _CODEC_MASK:
        return False
    return int(_LENGTH.unpack_from(raw)[1]) + _LOG_OVERHEAD >= end


class _AbortedBatches:
    """Finds the batches of aborted transactions. It must see all batches of a response in order."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._ahead = sorted(aborted, key=attrgetter("first_offset"), reverse=True)
        self._producers: set[int] = set()

    def include(self, producer_id: int, last_offset: int, attributes: int) -> bool:
        """Return whether this batch belongs to an aborted transaction."""
        while self._ahead and self._ahead[-1].first_offset <= last_offset:
            self._producers.add(self._ahead.pop().producer_id)
        if attributes & _CONTROL:
            # Forget the producer, because this control batch ends its open transaction, whether the
            # transaction is committed or aborted.
            self._producers.discard(producer_id)
        return bool(attributes & _TRANSACTIONAL) and producer_id in self._producers


def _decode_one(
    raw: memoryview,
    offset: int,
    into: list[Record],
    *,
    aborted_batches: _AbortedBatches | None,
    room: _Room,
) -> int:
    """Add a batch's records to `into`. Return the last offset of the batch."""
    if len(raw) <= _MAGIC_OFFSET:
        message = f"a batch has only {len(raw)} bytes"
        raise CorruptBatchError(message)
    if raw[_MAGIC_OFFSET] < _MAGIC:
        return _decode_legacy(bytes(raw), offset, into, room=room)
    base, _ = _LENGTH.unpack_from(raw)
    return int(base) + _decode_batch(raw, offset, into, aborted_batches=aborted_batches, room=room)


def _last_offset(raw: memoryview) -> int:
    # The offset of a compressed message in an old format is the offset of the last message inside
    # it.
    base, _ = _LENGTH.unpack_from(raw)
    return int(base if raw[_MAGIC_OFFSET] < _MAGIC else base + _HEADER.unpack_from(raw)[6])


def _decode_batch(
    raw: memoryview,
    offset: int,
    into: list[Record],
    *,
    aborted_batches: _AbortedBatches | None,
    room: _Room,
) -> int:
    """Add a batch's records to `into`.

    Returns:
        By how much the last offset of the batch is above the first one.
    """
    if len(raw) < _HEADER.size:
        message = "a batch is shorter than its header"
        raise CorruptBatchError(message)
    base, _, _, _, crc, attributes, last_delta, first, newest, producer, _, _, count = (
        _HEADER.unpack_from(raw)
    )
    if crc32c(raw[_CRC_FROM:]) != crc:
        message = f"checksum of the batch at {base} is wrong"
        raise CorruptBatchError(message)
    if aborted_batches is not None and aborted_batches.include(
        producer, base + last_delta, attributes
    ):
        return int(last_delta)
    # Skip control batches. They mark the end of a transaction, and have no records for readers.
    if not attributes & _CONTROL and base + last_delta >= offset:
        body = bytes(raw[_HEADER.size :])
        if compression := attributes & _CODEC_MASK:
            body = _decompressed(body, compression, room.limit - room.used)
            room.used += len(body)
        stamp = newest if attributes & _LOG_APPEND_TIME else None
        try:
            into += _records_of(body, (base, base + last_delta, first, stamp, count), offset)
        except IndexError as error:
            message = f"the batch at {base} ends inside a record"
            raise CorruptBatchError(message) from error
    return int(last_delta)


def _decompressed(body: bytes, compression: int, limit: int) -> bytes:
    try:
        return decompressed(body, compression, limit)
    except TooLargeError:
        raise
    except Exception as error:
        message = f"compression codec {compression}: {error}"
        raise CorruptBatchError(message) from error


def _corrupt() -> bytes:
    """Raise an error for a negative length. Compiled code would otherwise raise another one.

    Raises:
        IndexError: In any case.
    """
    raise IndexError


def _varint(buffer: bytes, position: int) -> tuple[int, int]:
    """Return a zigzag varint, and the position after this number."""
    byte = buffer[position]
    if byte < 0x80:  # noqa: PLR2004 - the bit for more bytes
        return (byte >> 1) ^ -(byte & 1), position + 1
    value, shift = byte & 0x7F, 7
    while byte > 0x7F:  # noqa: PLR2004 - the bit for more bytes
        if shift > _VARINT_SHIFT_MAX:
            # Stop after the bits of a 64-bit number. Otherwise the number could grow with each byte
            # of a corrupt batch.
            raise IndexError
        position += 1
        byte = buffer[position]
        value |= (byte & 0x7F) << shift
        shift += 7
    return (value >> 1) ^ -(value & 1), position + 1


def _records_of(body: bytes, batch: _Batch, offset: int) -> list[Record]:
    """Return the records of a batch with offsets from `offset` on."""
    found, is_in_order = _decode_records(body, batch, offset)
    if is_in_order:
        return found
    # A broker stores such a batch as it is if it is not compressed, and gives it as many offsets as
    # it has records. A record with an offset beyond these would hide records of later batches. A
    # batch that was compacted is in order, although it has fewer records than offsets.
    base_offset, last_offset, *_ = batch
    found, _ = _decode_records(body, batch, _BELOW_ALL)
    for index, record in enumerate(found):
        record.offset = min(base_offset + index, last_offset)
    return [record for record in found if record.offset >= offset]


def _decode_records(  # noqa: C901, PLR0912, PLR0915 - calls would take most of the time
    body: bytes, batch: _Batch, offset: int
) -> tuple[list[Record], bool]:
    """Return the records from `offset` on, and whether all offsets rise within the batch.

    This function is long, because calls for every message would take longer than everything else.
    Most lengths fit into one byte, which is decoded in place. A length n is encoded as 2n.
    """
    found: list[Record] = []
    varint, add, position = _varint, found.append, 0
    base_offset, last_offset, base_timestamp, stamp, records = batch
    before, is_in_order = base_offset - 1, True
    # The loop's range uses a variable that does not change in the loop. In compiled code, the
    # number of rounds would change with the variable.
    for _ in range(records):
        length, position = varint(body, position)
        if length <= 0:
            # Each record must have a length. Otherwise a corrupt batch would be read for ever.
            raise IndexError
        end = position + length
        # The byte with the record's attributes is skipped, because attributes have no meaning yet.
        elapsed, position = varint(body, position + 1)
        delta, position = varint(body, position)
        at = base_offset + delta
        if at <= before:
            is_in_order = False
        before = at
        if at < offset:
            position = end
            continue
        key, value = None, None
        if body[position] == 1:  # null: the length is -1
            position += 1
        else:
            size, position = varint(body, position)
            key = body[position : position + size] if size >= 0 else _corrupt()
            position += size
        if body[position] == 1:
            position += 1
        else:
            size, position = varint(body, position)
            value = body[position : position + size] if size >= 0 else _corrupt()
            position += size
        count, position = varint(body, position)
        headers = []
        for _ in range(count):
            size = body[position]
            if size < 0x80:  # noqa: PLR2004 - the bit for more bytes
                position += 1
                size >>= 1
            else:
                size, position = varint(body, position)
                if size < 0:
                    raise IndexError
            name = body[position : position + size]
            position += size
            size = body[position]
            if size < 0x80 and size != 1:  # noqa: PLR2004 - the bit for more bytes
                position += 1
                size >>= 1
            else:
                size, position = varint(body, position)
                # A header without a value is read as a header with an empty value.
                size = max(size, 0)
            headers.append((name, body[position : position + size]))
            position += size
        if position != end:
            raise IndexError
        add(Record(at, base_timestamp + elapsed if stamp is None else stamp, key, value, headers))
    return found, is_in_order and before <= last_offset


def _decode_legacy(raw: bytes, offset: int, into: list[Record], *, room: _Room) -> int:
    """Add the records of a message from before Kafka 0.11. Return the offset of the last record."""
    try:
        last, size = decode_legacy(raw, offset, into, limit=room.limit - room.used)
    except TooLargeError:
        raise
    except Exception as error:
        message = f"message set of an old format at {offset}: {error}"
        raise CorruptBatchError(message) from error
    room.used += size
    return last
