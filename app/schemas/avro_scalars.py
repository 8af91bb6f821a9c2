"""Encodes values without parts in Avro's binary encoding: numbers, texts, bytes, and decimals."""

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

from app.schemas.avro_decimals import limit_of, unscaled
from app.schemas.avro_types import decimal_of
from app.schemas.avro_work import AvroExhaustedError
from app.schemas.problems import MismatchError

_BYTES_PER_STEP: Final = 1_024  # The bytes of texts that one step can copy.
# How many bytes of a fixed decimal one step writes. Even a small number has all these bytes.
_FIXED_BYTES_PER_STEP: Final = 16
_INT_BITS: Final = {"int": 31, "long": 63}
_NUMBERS: Final = (int, float)
_FLOATS: Final = {"float": struct.Struct("<f"), "double": struct.Struct("<d")}


class AvroWalk:
    """The state of encoding one message: its bytes, the current path, and the work that is left.

    `wrapped` means that values of unions are `{"type": value}`. `raw` means that texts of decimals
    have their bytes.
    """

    __slots__ = ("is_deep", "left", "out", "path", "raw", "wrapped")

    def __init__(self, *, wrapped: bool, steps: float, raw: bool) -> None:
        self.out = bytearray()
        self.path: list[str | int] = []
        self.left = steps
        self.wrapped = wrapped
        self.raw = raw
        self.is_deep = False

    def spend(self, steps: float) -> None:
        """Subtract steps from the work that is left. If too little is left, raise an error."""
        self.left -= steps
        if self.left < 0:
            raise AvroExhaustedError

    def mismatch(self, problem: str) -> MismatchError:
        """Return the error for the value at the current path."""
        return MismatchError(tuple(self.path), problem)

    def number(self, value: int) -> None:
        """Write an int or long as a zigzag number: seven bits per byte."""
        if 0 <= value < 64:  # noqa: PLR2004 - fits into one byte
            self.out.append(value << 1)
            return
        left = (value << 1) ^ (value >> 63)
        while left > 0x7F:  # noqa: PLR2004 - a byte has seven bits
            self.out.append((left & 0x7F) | 0x80)
            left >>= 7
        self.out.append(left)

    def sized(self, value: bytes) -> None:
        """Write bytes after their number."""
        self.number(len(value))
        self.out += value


AvroWrite = Callable[[Any, AvroWalk], None]


def number_bytes(value: int) -> bytes:
    """Return an int or long as a zigzag number."""
    walk = AvroWalk(wrapped=False, steps=0, raw=False)
    walk.number(value)
    return bytes(walk.out)


def _null(value: object, walk: AvroWalk) -> None:
    if value is not None:
        raise walk.mismatch("must be null")


def _boolean(value: object, walk: AvroWalk) -> None:
    if not isinstance(value, bool):
        raise walk.mismatch("must be true or false")
    walk.out.append(value)


def _whole(kind: str) -> AvroWrite:
    limit = 1 << _INT_BITS[kind]

    def write(value: object, walk: AvroWalk) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or not -limit <= value < limit:
            raise walk.mismatch(f"must be a whole number of {_INT_BITS[kind] + 1} bits ({kind})")
        walk.number(value)

    return write


def _real(kind: str) -> AvroWrite:
    form = _FLOATS[kind]

    def write(value: object, walk: AvroWalk) -> None:
        if not isinstance(value, _NUMBERS) or isinstance(value, bool):
            raise walk.mismatch(f"must be a number ({kind})")
        try:
            walk.out += form.pack(value)
        except (OverflowError, struct.error) as exc:
            raise walk.mismatch(f"is too large for a {kind}") from exc

    return write


def _string(value: object, walk: AvroWalk) -> None:
    if not isinstance(value, str):
        raise walk.mismatch("must be a string")
    walk.spend(len(value) // _BYTES_PER_STEP)
    walk.sized(value.encode())


def enum_writer(kind: Mapping[str, Any]) -> AvroWrite:
    """Return a function that writes values of the enum `kind`."""
    indexes = {symbol: index for index, symbol in enumerate(kind["symbols"])}
    problem = f"must be one of {', '.join(indexes)}"[:500]

    def write(value: object, walk: AvroWalk) -> None:
        if not isinstance(value, str) or value not in indexes:
            raise walk.mismatch(problem)
        walk.number(indexes[value])

    return write


def bytes_writer(size: int | None) -> AvroWrite:
    """Return a function that writes bytes; with a `size`, of a fixed type."""

    def write(value: object, walk: AvroWalk) -> None:
        found = _raw(value, size, walk)
        if size is None:
            walk.sized(found)
        else:
            walk.out += found

    return write


def _raw(value: object, size: int | None, walk: AvroWalk) -> bytes:
    """Return the bytes in a text of the characters 0 to 255. `size` is their required number."""
    try:
        found = value.encode("latin-1") if isinstance(value, str) else None
    except UnicodeEncodeError:
        found = None
    if found is None:
        raise walk.mismatch("must be a string of characters 0 to 255, a byte each")
    if size is not None and len(found) != size:
        raise walk.mismatch(f"must be {size} bytes")
    return found


def decimal_writer(kind: Mapping[str, Any]) -> AvroWrite:
    """Return a function that writes values of the decimal `kind`."""
    precision, scale = decimal_of(kind) or (0, 0)
    size: int | None = kind.get("size")
    limit = limit_of(precision)
    made = 0 if size is None else size / _FIXED_BYTES_PER_STEP
    problem = f"must be a number of at most {precision} digits, {scale} of them behind the point"

    def write(value: object, walk: AvroWalk) -> None:
        if walk.raw and isinstance(value, str):
            number: int | None = int.from_bytes(_raw(value, size, walk), signed=True)
            steps = 1.0 + len(value) // _BYTES_PER_STEP
        else:
            number, steps = unscaled(value, scale)
        walk.spend(steps + made)
        if number is None or abs(number) >= limit:
            raise walk.mismatch(problem)
        length = (number if number >= 0 else ~number).bit_length() // 8 + 1
        if size is not None and length > size:
            raise walk.mismatch(problem)
        found = number.to_bytes(length if size is None else size, signed=True)
        if size is None:
            walk.sized(found)
        else:
            walk.out += found

    return write


PRIMITIVES: Final[Mapping[str, AvroWrite]] = {
    "null": _null,
    "boolean": _boolean,
    "int": _whole("int"),
    "long": _whole("long"),
    "float": _real("float"),
    "double": _real("double"),
    "string": _string,
    "bytes": bytes_writer(None),
}
