"""Compression of record batches, with the codecs that are installed for kafka-python."""

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Final

from kafka import codec

Compress = Callable[[bytes], bytes]

# The compression level. A fast level is used, as in brokers and Java producers.
_GZIP_LEVEL: Final = 6


class Compression(Enum):
    """A codec. Its value is the number of the codec in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    def compress(self, raw: bytes) -> bytes:
        """Return `raw` compressed, so that any Kafka client can decompress it."""
        return bytes(_COMPRESS[self](raw))


_COMPRESS: Final[dict[Compression, Compress]] = {
    Compression.NONE: bytes,
    Compression.GZIP: partial(codec.gzip_encode, compresslevel=_GZIP_LEVEL),
    Compression.SNAPPY: codec.snappy_encode,
    Compression.LZ4: codec.lz4_encode,
    Compression.ZSTD: codec.zstd_encode,
}
