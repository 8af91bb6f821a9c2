"""Decompresses record batches up to a limit: a few compressed bytes can become gigabytes."""

import zlib
from collections.abc import Callable
from typing import Final

import lz4.frame
import snappy
import zstandard

# The maximum number of gzip members in one body. Producers write one member.
_GZIP_MEMBERS_MAX: Final = 100
_GZIP: Final = 16 + zlib.MAX_WBITS
# The first bytes of Java's snappy format. Compressed blocks follow these bytes. Before each block
# is its length.
_XERIAL: Final = b"\x82SNAPPY\0"
_XERIAL_HEADER: Final = 16
_XERIAL_LENGTH: Final = 4
# The size in bytes of the first piece that is read from a decompressor.
_PIECE_BYTES: Final = 64 * 1024


class TooLargeError(Exception):
    """The decompressed body would be larger than the limit."""


def decompressed(body: bytes, compression: int, limit: int) -> bytes:
    """Return `body`, decompressed by the codec with the number `compression`.

    Raises:
        TooLargeError: The result has more than `limit` bytes.
        Exception: The body is not of this codec, or the codec is not known (KeyError).
    """
    found = _DECOMPRESS[compression](body, limit)
    if len(found) > limit:
        raise TooLargeError
    return found


def _gzip(body: bytes, limit: int) -> bytes:
    found, members = bytearray(), 0
    while body and len(found) <= limit:
        members += 1
        if members > _GZIP_MEMBERS_MAX:
            raise ValueError(f"gzip of more than {_GZIP_MEMBERS_MAX} members")
        member = zlib.decompressobj(_GZIP)
        found += member.decompress(body, limit + 1 - len(found))
        if len(found) <= limit and not member.eof:
            raise EOFError("gzip that ends too early")
        # Skip zeros that may follow a gzip member.
        body = member.unused_data.lstrip(b"\0")
    return bytes(found)


def _snappy(body: bytes, limit: int) -> bytes:
    if not body.startswith(_XERIAL):
        return _block(body, limit)
    found, rest = bytearray(), memoryview(body)[_XERIAL_HEADER:]
    while rest:
        length = int.from_bytes(rest[:_XERIAL_LENGTH])
        found += _block(bytes(rest[_XERIAL_LENGTH : _XERIAL_LENGTH + length]), limit - len(found))
        rest = rest[_XERIAL_LENGTH + length :]
    return bytes(found)


def _block(body: bytes, limit: int) -> bytes:
    # Read the decompressed length, with which a snappy body begins.
    length = 0
    for index, byte in enumerate(body[:5]):
        length |= (byte & 0x7F) << (7 * index)
        if not byte & 0x80:
            break
    if length > limit:
        raise TooLargeError
    return bytes(snappy.decompress(body))


def _lz4(body: bytes, limit: int) -> bytes:
    frame = lz4.frame.LZ4FrameDecompressor()
    ahead = iter([body])

    def read(size: int) -> bytes:
        return b"" if frame.eof else bytes(frame.decompress(next(ahead, b""), max_length=size))

    found = _read(read, limit)
    if len(found) <= limit and not frame.eof:
        raise EOFError("LZ4 that ends too early")
    return found


def _zstd(body: bytes, limit: int) -> bytes:
    with zstandard.ZstdDecompressor().stream_reader(body, read_across_frames=True) as reader:
        return _read(reader.read, limit)


def _read(read: Callable[[int], bytes], limit: int) -> bytes:
    """Read all output of a decompressor, up to one byte more than the limit.

    Each piece that is read is as large as all pieces before it. If a single piece of `limit` bytes
    were requested, the decompression libraries would allocate all that memory at once.
    """
    pieces, size = list[bytes](), 0
    while size <= limit and (piece := read(min(max(size, _PIECE_BYTES), limit + 1 - size))):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


_DECOMPRESS: Final[dict[int, Callable[[bytes, int], bytes]]] = {
    1: _gzip,
    2: _snappy,
    3: _lz4,
    4: _zstd,
}
