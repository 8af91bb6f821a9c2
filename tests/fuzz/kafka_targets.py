"""What brokers answer, and the record batches in it, which other producers made."""

import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from crc32c import crc32c

from app.domain.message import NewRecord
from app.log.kafka.protocol import appends, commits, ends, fetches, sasl
from app.log.kafka.protocol.compression import Compression
from app.log.kafka.protocol.decoder import CorruptBatchError, contents, decode, is_one_plain
from app.log.kafka.protocol.encoding import batch_body, encode_record, whole_batch
from app.log.kafka.protocol.wire import MalformedAnswerError, frames
from tests.fuzz.target import Target

DECOMPRESSED_MAX: Final = 1 << 20
# More in a batch of so few bytes is no batch.
RECORDS_MAX: Final = 1 << 16

_LENGTH: Final = struct.Struct(">qi")
_LOG_OVERHEAD: Final = 12
_MAGIC_AT: Final = 16
_CRC_AT: Final = 17
_CRC_FROM: Final = 21


def _read_frames(data: bytes) -> None:
    buffer = bytearray(data)
    for frame in frames(buffer, bytes_max=1 << 16):
        fetches.read_fetch(frame)


READERS: Final[tuple[Callable[[bytes], object], ...]] = (
    fetches.read_fetch,
    lambda data: fetches.read_fetch(data, leader_only=True),
    appends.read_answer,
    commits.read_commit,
    ends.read_ends,
    sasl.read_handshake,
    sasl.read_authenticate,
    _read_frames,
)


def check_answer(data: bytes) -> None:
    """A broker's answer is read, or is malformed. The first byte says which kind it is."""
    if data:
        with suppress(MalformedAnswerError):
            READERS[data[0] % len(READERS)](data[1:])


def check_batches(data: bytes) -> None:
    """Batches with good checksums are decoded, or corrupt. The first byte is the offset."""
    if not data:
        return
    raw, offset = _with_checksums(data[1:]), data[0] % 8
    with suppress(CorruptBatchError):
        decoded = decode(raw, offset, decompressed_max=DECOMPRESSED_MAX)
        assert decoded.next_offset >= offset
        assert all(record.offset >= offset for record in decoded.records)
        assert len(decoded.records) < RECORDS_MAX
        for record in decoded.records:
            # A record has no more than is there.
            parts = [record.key or b"", record.value or b"", *map(b"".join, record.headers)]
            assert sum(map(len, parts)) <= decoded.size
    contents(raw)
    is_one_plain(raw)


def _with_checksums(raw: bytes) -> bytes:
    """The same batches, each with the checksum of its content: no fuzzer guesses that."""
    mended, position = bytearray(raw), 0
    while position + _CRC_FROM < len(raw):
        _, length = _LENGTH.unpack_from(raw, position)
        end = position + _LOG_OVERHEAD + length
        if length < 0 or end > len(raw) or raw[position + _MAGIC_AT] < 2:
            break
        crc = crc32c(raw[position + _CRC_FROM : end])
        mended[position + _CRC_AT : position + _CRC_FROM] = crc.to_bytes(4, "big")
        position = end
    return bytes(mended)


def _batches() -> Iterator[bytes]:
    records = [
        NewRecord(value=b'{"a":1}', key=b"k", headers=((b"id", b"m1"), (b"", b"")), timestamp_ms=7),
        NewRecord(value=b"x" * 80, headers=()),
    ]
    body = batch_body([encode_record(each, 9) for each in records])
    for compression in Compression:
        yield b"\0" + whole_batch(body, compression)
    yield b"\1" + whole_batch(body, Compression.NONE) * 2


def _answers() -> Iterator[bytes]:
    batch = next(_batches())[1:]
    part = struct.pack(">ihqqqi", 0, 0, 9, 9, 0, 1) + struct.pack(">qq", 1, 0)
    records = struct.pack(">ii", -1, len(batch)) + batch
    fetched = struct.pack(">iihii", 1, 0, 0, 5, 1) + b"\0\1t" + struct.pack(">i", 1)
    yield b"\0" + fetched + part + records
    yield b"\7" + struct.pack(">i", len(fetched + part + records)) + fetched + part + records
    appended = (
        struct.pack(">ii", 1, 1) + b"\0\1t" + struct.pack(">iihqqqii", 1, 0, 0, 5, 5, 0, 0, 0)
    )
    yield b"\2" + appended[:-4] + b"\xff\xff" + struct.pack(">i", 0)
    yield b"\3" + struct.pack(">iii", 1, 0, 1) + b"\0\1t" + struct.pack(">iih", 1, 0, 0)
    for kind in (4, 5, 6):
        yield bytes((kind,)) + struct.pack(">ih", 1, 0) + b"\0\0\0\0\0\1\0\1tab" + bytes(24)


ANSWERS: Final = Target(check_answer, [*_answers()])
BATCHES: Final = Target(check_batches, [*_batches()])
