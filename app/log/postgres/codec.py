"""The stored form of headers, and the partition of a key."""

from collections.abc import Iterable
from hashlib import blake2b
from struct import Struct
from typing import Final

_LENGTHS: Final = Struct(">HI")


def packed(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the headers as one value.

    Each header has name length (u16), value length (u32), name and value.
    """
    return b"".join(
        part
        for name, value in headers
        for part in (_LENGTHS.pack(len(name), len(value)), name, value)
    )


def unpacked(stored: bytes) -> list[tuple[bytes, bytes]]:
    """Return the list of headers that `packed` has encoded as `stored`."""
    headers = []
    at = 0
    while at < len(stored):
        name_length, value_length = _LENGTHS.unpack_from(stored, at)
        name_at = at + _LENGTHS.size
        value_at = name_at + name_length
        at = value_at + value_length
        headers.append((stored[name_at:value_at], stored[value_at:at]))
    return headers


def partition_of_key(key: bytes, partitions: int) -> int:
    """Return the partition of `key`, a number below `partitions`.

    The result is the same in every process and release.
    """
    return int.from_bytes(blake2b(key, digest_size=4).digest(), "big") % partitions
