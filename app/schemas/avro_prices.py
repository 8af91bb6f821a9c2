"""What reading a value of Avro costs, known from its type before a byte of it is read.

A value has a fixed part: a record with its fields, and of a union, an array or a map only that it
is there. Which type of a union, and how many items, the message says; each of those is a fixed part
of its own.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from app.schemas.avro_types import RECORDS, AvroSchema, AvroType, decimal_of
from app.schemas.avro_work import STEPS_MAX, STEPS_PER_BYTE

# Steps of work (avro_work.py).
_STEPS: Final = {
    "null": 0.15,
    "boolean": 0.3,
    "int": 0.35,
    "long": 0.35,
    "float": 0.6,
    "double": 0.6,
    "string": 0.65,
    "bytes": 0.75,
    "fixed": 0.5,
    "enum": 0.35,
    "union": 0.35,
    "array": 0.7,
    "map": 0.7,
    "record": 0.6,
    "error": 0.6,
}
_DECIMAL_STEPS: Final = 2.2
_FIELD_STEPS: Final = 0.12
# Of each block of an array or a map, and of each key.
BLOCK_STEPS: Final = 2
# Of a type of a union that is not null: deep messages are made of these.
_BRANCH_STEPS: Final = 0.4
_KEY_STEPS: Final = 0.9
# Bytes of JSON in one step: of names, of symbols, and of zeros in decimals. Others are bytes of the
# message, too.
_BYTES_PER_STEP: Final = 100
# Around a name in JSON.
_QUOTES: Final = 4
_FEWEST_BYTES: Final = {"null": 0, "float": 4, "double": 8}


class AvroPrice(NamedTuple):
    """The steps that a fixed part takes, and the fewest bytes that it has in a message."""

    steps: float
    bytes: int

    @property
    def excess(self) -> float:
        """The steps that are not allowed for by its own bytes."""
        return self.steps - STEPS_PER_BYTE * self.bytes


class AvroPrices:
    """The prices of the types of one schema."""

    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema
        self._known: dict[str, AvroPrice] = {}

    def of(self, kind: AvroType) -> AvroPrice:
        """The price of the fixed part of a value of the type."""
        kind = self._schema.resolved(kind)
        if not isinstance(kind, dict) or kind["type"] not in RECORDS:
            return self._plain(kind)
        name = kind["name"]
        if name not in self._known:
            self._known[name] = self._record(kind)
        return self._known[name]

    def of_entry(self, kind: AvroType) -> AvroPrice:
        """The price of a key of a map, and of the fixed part of its value."""
        steps, length = self.of(kind)
        return AvroPrice(steps + _KEY_STEPS, length + 1)

    def of_branch(self, kind: AvroType) -> AvroPrice:
        """The price of the fixed part of a value of a type of a union, once that is chosen."""
        # Null is in the price of the union.
        if self._schema.kind_of(kind) == "null":
            return AvroPrice(0, 0)
        steps, length = self.of(kind)
        return AvroPrice(steps + _BRANCH_STEPS, length)

    def certain_size(self) -> float:
        """All messages of so many bytes may be read, whatever is in them."""
        # Each part has a byte of its own, or follows one that says that it is there.
        parts = list(self._parts())
        rate = max((part.excess / max(part.bytes, 0.5) for part in parts), default=0)
        left = STEPS_MAX - self.of(self._schema.root).excess
        if left <= 0:
            return 0
        return left / rate if rate > 0 else float("inf")

    def _plain(self, kind: AvroType) -> AvroPrice:
        name = self._schema.kind_of(kind)
        steps, length = _STEPS[name], _FEWEST_BYTES.get(name, 1)
        if not isinstance(kind, dict):
            return AvroPrice(steps, length)
        if name == "enum":
            steps += _produced(max(map(len, kind["symbols"])))
        if decimal := decimal_of(kind):
            steps = _DECIMAL_STEPS + _produced(decimal[1])
        return AvroPrice(steps, kind.get("size", length))

    def _record(self, kind: dict[str, Any]) -> AvroPrice:
        steps, length = _STEPS["record"], 0
        for field in kind["fields"]:
            price = self.of(field["type"])
            steps += _FIELD_STEPS + _produced(len(field["name"])) + price.steps
            length += price.bytes
        return AvroPrice(steps, length)

    def _parts(self) -> Iterator[AvroPrice]:
        for kind in self._schema.types():
            if isinstance(kind, list):
                yield from map(self.of_branch, kind)
            elif isinstance(kind, dict) and kind["type"] in {"array", "map"}:
                is_map = kind["type"] == "map"
                item = self.of_entry(kind["values"]) if is_map else self.of(kind["items"])
                # All in one block, or each in a block of its own.
                yield item
                yield AvroPrice(item.steps + BLOCK_STEPS, item.bytes + 1)


def _produced(length: int) -> float:
    return (length + _QUOTES) / _BYTES_PER_STEP
