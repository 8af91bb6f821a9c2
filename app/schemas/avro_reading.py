"""Decodes Avro's binary encoding to JSON values, by a schema (Avro 1.12).

Bytes become texts of the characters 0 to 255. Decimals become texts with all their digits. Before a
value is read, its cost is subtracted from the work and memory that the message may take.
"""

import io
import struct
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import Any, Final, TypeVar

from app.schemas.avro_decimals import decimal_text
from app.schemas.avro_prices import BLOCK_ROOM, BLOCK_STEPS, AvroPrice, AvroPrices
from app.schemas.avro_types import RECORDS, AvroSchema, AvroType, decimal_of
from app.schemas.avro_work import (
    STEP_NS,
    AvroExhaustedError,
    AvroTooLargeError,
    room_allowed,
    steps_allowed,
)
from app.schemas.request_work import RequestWork

_MORE: Final = b"\x80"
# A table of all numbers that have one byte, which is the usual case.
_one: Final = {bytes([byte]): (byte >> 1) ^ -(byte & 1) for byte in range(0x80)}.get
# Tables for numbers with several bytes: what each byte adds to the number, by the byte's position.
# Tables are faster than shifts.
_FIRST, *_LATER = [
    {bytes([byte]): (byte & 0x7F) << shift for byte in range(0x100)} for shift in range(0, 63, 7)
]
_LAST: Final = {b"\0": 0, b"\1": 1 << 63}
_INT_LIMIT: Final = 1 << 31
_INDEXES: Final = [bytes([index << 1]) for index in range(0x40)]


class _Source(io.BytesIO):
    """The state of decoding one message: its bytes, and the work and memory that are left."""

    # The class has `__slots__`, because decoding a value uses several attributes, and they are
    # fastest in this way.
    __slots__ = ("left", "room", "size", "span")

    def __init__(self, body: bytes) -> None:
        super().__init__(body)
        self.size = len(body)
        self.left = steps_allowed(self.size)
        self.room = room_allowed(self.size)
        # The first and the last byte of the marked field.
        self.span = (0, 0)

    def spend(self, steps: float, room: int) -> None:
        """Subtract steps of work and bytes of memory from what is left.

        Raises:
            AvroExhaustedError: Too little work is left.
            AvroTooLargeError: The result would be too large.
        """
        self.left -= steps
        self.room -= room
        if self.left < 0:
            raise AvroExhaustedError
        if self.room < 0:
            raise AvroTooLargeError


_Any = TypeVar("_Any")
_Read = Callable[[_Source], Any]


class AvroReader:
    """Decodes messages of one schema to JSON values. Created once for each schema."""

    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema
        self._prices = AvroPrices(schema)
        self._named: dict[str, _Read] = {}
        self._price = self._prices.of(schema.root)
        self._read = self._reader(schema.root)
        # Readers of the whole record, by the field whose place they note. Made when needed.
        self._marking: dict[str, _Read] = {}
        self.certain_size = self._prices.certain_size()

    def value(self, body: bytes, work: RequestWork | None = None) -> Any:  # noqa: ANN401 - JSON can have any type
        """Return the message in `body`. The cost of reading is subtracted from `work`.

        Raises:
            EOFError, ValueError: The bytes do not match the schema.
            AvroExhaustedError: Reading takes more work than one message may take, or than is left
                in `work`.
            AvroTooLargeError: The result would be too large.
            RecursionError: The message has too many levels.
        """
        return self._whole(_Source(body), self._read, work)

    def marked(
        self, body: bytes, field: str, work: RequestWork | None = None
    ) -> tuple[dict[str, Any], tuple[int, int]]:
        """Return the record in `body`, and where the bytes of its field `field` begin and end.

        The errors are those of `value`.
        """
        if field not in self._marking:
            self._marking[field] = self._marking_reader(field)
        source = _Source(body)
        found = self._whole(source, self._marking[field], work)
        return found, source.span

    def _whole(self, source: _Source, read: _Read, work: RequestWork | None) -> Any:  # noqa: ANN401 - JSON can have any type
        if work is not None:
            source.left = min(source.left, work.left_ns / STEP_NS)
        steps = source.left
        try:
            source.spend(self._price.steps, self._price.room)
            value = read(source)
        except (KeyError, struct.error) as exc:
            raise EOFError from exc
        finally:
            if work is not None:
                work.left_ns -= (steps - max(source.left, 0)) * STEP_NS
        if source.tell() != source.size:
            raise ValueError(f"it ends at byte {source.tell()}")
        return value

    def _marking_reader(self, marked: str) -> _Read:
        """Return a reader for the whole record, which notes where its field `marked` is."""
        kinds = self._schema.resolved(self._schema.root)["fields"]
        fields = [(each["name"], self._reader(each["type"])) for each in kinds]

        def read(source: _Source) -> dict[str, Any]:
            found = {}
            for name, read_field in fields:
                start = source.tell()
                found[name] = read_field(source)
                if name == marked:
                    source.span = (start, source.tell())
            return found

        return read

    def _reader(self, kind: AvroType) -> _Read:
        if not self._schema.is_named(kind):
            return self._made(kind)
        name = self._schema.name_of(kind)
        if name not in self._named:
            self._made(self._schema.named[name])
        return self._named[name]

    def _made(self, kind: AvroType) -> _Read:
        name = self._schema.kind_of(kind)
        if name in RECORDS:
            return self._record(kind)
        makers: dict[str, Callable[[Any], _Read]] = {
            "union": self._union,
            "array": self._array,
            "map": self._map,
            "enum": _enum,
            "fixed": _fixed,
        }
        if isinstance(kind, dict) and decimal_of(kind):
            read = _decimal(kind)
        else:
            read = makers[name](kind) if name in makers else _PRIMITIVES[name]
        if name in {"enum", "fixed"}:
            self._named[kind["name"]] = read
        return read

    def _record(self, kind: Mapping[str, Any]) -> _Read:
        fields: list[tuple[str, _Read]] = []
        only = kind["fields"][0]["name"] if len(kind["fields"]) == 1 else ""

        def read(source: _Source) -> dict[str, Any]:
            found = {}
            for name, read_field in fields:
                found[name] = read_field(source)
            return found

        def read_only(source: _Source) -> dict[str, Any]:
            return {only: fields[0][1](source)}

        # Store the reader of the record before the readers of its fields are made, because a record
        # may contain itself.
        self._named[kind["name"]] = read_only if only else read
        fields += [(each["name"], self._reader(each["type"])) for each in kind["fields"]]
        return self._named[kind["name"]]

    def _array(self, kind: Mapping[str, Any]) -> _Read:
        read_item = self._reader(kind["items"])
        price = self._prices.of_item(kind["items"])

        def read(source: _Source) -> list[Any]:
            items: list[Any] = []
            while count := _number(source):
                items += map(read_item, repeat(source, _block(source, count, price)))
            return items

        return read

    def _map(self, kind: Mapping[str, Any]) -> _Read:
        read_value = self._reader(kind["values"])
        price = self._prices.of_entry(kind["values"])

        def read(source: _Source) -> dict[str, Any]:
            found = {}
            while count := _number(source):
                for _ in range(_block(source, count, price)):
                    key = _string(source)
                    found[key] = read_value(source)
            return found

        return read

    def _union(self, kind: list[AvroType]) -> _Read:
        prices = [self._prices.of_branch(each) for each in kind]
        branches = [
            (read_branch, price.steps, price.room)
            for read_branch, price in zip(map(self._reader, kind), prices, strict=True)
        ]
        known = dict(zip(_INDEXES, branches, strict=False)).get
        is_optional = [self._schema.kind_of(each) == "null" for each in kind] == [True, False]

        def read(source: _Source) -> Any:  # noqa: ANN401 - a value can have any type
            first = source.read(1)
            read_branch, steps, room = known(first) or _nth(source, first, branches)
            source.left -= steps
            source.room -= room
            if source.left < 0 or source.room < 0:
                source.spend(0, 0)
            return read_branch(source)

        return _optional(*branches[1]) if is_optional else read


def _optional(read_value: _Read, steps: float, room: int) -> _Read:
    """Return a reader for a union of null and one other type, which is the most frequent union."""

    def read(source: _Source) -> Any:  # noqa: ANN401 - a value can have any type
        first = source.read(1)
        if first == b"\0":
            return None
        if first != b"\2" and _nth(source, first, (None, read_value)) is None:
            return None
        source.left -= steps
        source.room -= room
        if source.left < 0 or source.room < 0:
            source.spend(0, 0)
        return read_value(source)

    return read


def _nth(source: _Source, first: bytes, among: Sequence[_Any]) -> _Any:
    """Read an index. Return the element of `among` at this index.

    `first` is the first byte of the index, which was read already.

    Raises:
        ValueError: There is no such element.
    """
    index = _one(first)
    if index is None:
        index = _longer(source, first)
    if not 0 <= index < len(among):
        raise ValueError(f"it has the number {index} of {len(among)} types or symbols")
    return among[index]


def _block(source: _Source, count: int, price: AvroPrice) -> int:
    """Subtract the cost of all items in a block of an array or a map. Return how many there are."""
    if count < 0:
        count = -count
        _number(source)
    # Each item has at least one byte. So a block with more items than the message has bytes is
    # refused.
    if count > source.size:
        raise EOFError
    source.spend(BLOCK_STEPS + count * price.steps, BLOCK_ROOM + count * price.room)
    return count


def _number(source: _Source) -> int:
    """Read an int or long, which is a zigzag number: seven bits per byte.

    Raises:
        KeyError: The message ends within the number.
    """
    found = _one(first := source.read(1))
    return _longer(source, first) if found is None else found


def _int(source: _Source) -> int:
    """Read an int, which has at most 32 bits. Other programs could not read a longer number."""
    found = _one(first := source.read(1))
    if found is None:
        found = _longer(source, first)
        if not -_INT_LIMIT <= found < _INT_LIMIT:
            raise ValueError("it has an int of more than 32 bits")
    return found


def _longer(source: _Source, first: bytes) -> int:
    """Return a number that has several bytes. Its first byte, `first`, was read already."""
    read, found = source.read, _FIRST[first]
    for part in _LATER:
        byte = read(1)
        found |= part[byte]
        if byte < _MORE:
            return (found >> 1) ^ -(found & 1)
    # The tenth byte of a number may only contain the last of its 64 bits.
    if (byte := read(1)) > b"\1":
        raise ValueError("it has a number of more than 64 bits")
    found |= _LAST[byte]
    return (found >> 1) ^ -(found & 1)


def _exactly(source: _Source, size: int) -> bytes:
    found = source.read(size)
    if len(found) != size:
        raise EOFError
    return found


def _null(source: _Source) -> None:
    """Return None. A null has no bytes in a message."""


def _boolean(source: _Source) -> bool:
    found = source.read(1)
    if not found:
        raise EOFError
    return found != b"\0"


def _string(source: _Source) -> str:
    size = _one(first := source.read(1))
    if size is None:
        size = _longer(source, first)
    found = source.read(size)
    if len(found) != size:
        raise EOFError
    return found.decode()


def _bytes(source: _Source) -> str:
    return _exactly(source, _number(source)).decode("latin-1")


def _fixed(kind: Mapping[str, Any]) -> _Read:
    size: int = kind["size"]

    def read(source: _Source) -> str:
        return _exactly(source, size).decode("latin-1")

    return read


def _enum(kind: Mapping[str, Any]) -> _Read:
    symbols: list[str] = kind["symbols"]
    known = dict(zip(_INDEXES, symbols, strict=False)).get

    def read(source: _Source) -> str:
        first = source.read(1)
        return known(first) or _nth(source, first, symbols)

    return read


def _decimal(kind: Mapping[str, Any]) -> _Read:
    _, scale = decimal_of(kind) or (0, 0)
    size: int | None = kind.get("size")

    def read(source: _Source) -> str:
        found = _exactly(source, _number(source) if size is None else size)
        return decimal_text(int.from_bytes(found, signed=True), scale)

    return read


def _real(form: struct.Struct) -> _Read:
    unpacked, size = form.unpack, form.size

    def read(source: _Source) -> float:
        found: float = unpacked(source.read(size))[0]
        return found

    return read


_PRIMITIVES: Final[Mapping[str, _Read]] = {
    "null": _null,
    "boolean": _boolean,
    "int": _int,
    "long": _number,
    "float": _real(struct.Struct("<f")),
    "double": _real(struct.Struct("<d")),
    "string": _string,
    "bytes": _bytes,
}
