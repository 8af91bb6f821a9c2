"""Encodes numbers as bytes of seven bits each (LEB128), the lowest bits first (pure)."""

from collections.abc import Iterator


def put_varint(out: bytearray, value: int) -> None:
    """Append `value` to `out`. The value must not be negative."""
    while value > 0x7F:  # noqa: PLR2004 - a byte has seven bits
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def varint_size(value: int) -> int:
    """Return how many bytes `value` takes when it is encoded."""
    return max(1, -(-value.bit_length() // 7))


def read_varints(encoded: bytes) -> Iterator[int]:
    """Yield all numbers that `encoded` contains.

    Raises:
        ValueError: The last number is cut off.
    """
    value = shift = 0
    for byte in encoded:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:  # noqa: PLR2004 - the high bit means that more bytes follow
            yield value
            value = shift = 0
    if shift:
        msg = "cut off within a number"
        raise ValueError(msg)
