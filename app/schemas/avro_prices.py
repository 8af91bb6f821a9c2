"""The cost of reading Avro values. It is known from the types, before the values are read.

The cost has three parts: work, memory for the values, and bytes of JSON. Each type has a fixed
cost. The fixed cost of a record includes its fields. The fixed cost of a union, an array or a map
is only for the container itself. The message selects the type in the union and the number of items,
so the fixed costs of the values inside are added when these values are read.
"""

import math
import sys
from collections.abc import Iterator
from itertools import repeat
from typing import Any, Final, NamedTuple

from app.schemas.avro_types import RECORDS, AvroSchema, AvroType, decimal_of
from app.schemas.avro_work import (
    JSON_MAX,
    JSON_PER_BYTE,
    ROOM_MAX,
    ROOM_PER_BYTE,
    STEPS_MAX,
    STEPS_PER_BYTE,
)

# The steps of work (avro_work.py) for reading a value, by its type.
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
# The steps of work for reading a block of an array or a map, in addition to its items.
BLOCK_STEPS: Final = 2
# The additional steps for a value of a union, if its type is not null. Messages with many levels
# consist of such values.
_BRANCH_STEPS: Final = 0.4
# The steps of work for reading a key of a map.
_KEY_STEPS: Final = 0.9
# How many bytes of JSON from the schema are written in one step: names, symbols, and zeros in
# decimals. All other bytes of the JSON come from the message.
_BYTES_PER_STEP: Final = 100
# The bytes of the quotes and punctuation around a name in JSON.
_QUOTES: Final = 4
_FEWEST_BYTES: Final = {"null": 0, "float": 4, "double": 8}
# The bytes of memory for a value of each type. Texts and integers are not in the list, because
# their own bytes in the message allow enough memory (ROOM_PER_BYTE).
_MEMORY: Final = {
    "float": sys.getsizeof(0.0),
    "double": sys.getsizeof(0.0),
    "array": sys.getsizeof([]),
    "map": sys.getsizeof({}),
}
# How many bytes of memory a list needs for each item, in addition to the item itself.
_ITEM_MEMORY: Final = 9
# How many bytes of memory a map needs for each entry, in addition to the entry's value.
_ENTRY_MEMORY: Final = 100
# The additional bytes of memory of a list or a map that has at least one item.
BLOCK_ROOM: Final = 128
# The maximum bytes of JSON for one byte of the message. For example, a control character and the
# value false become so many bytes. The bytes of JSON that come from the schema are counted
# separately (`AvroPrice.json`).
_JSON_OF_BYTE: Final = 6
_NULL_JSON: Final = 5


class AvroPrice(NamedTuple):
    """The fixed cost of reading a value of a type.

    Attributes:
        steps: the work, in steps (avro_work.py).
        bytes: the least number of bytes that the value takes in a message.
        memory: the memory for the value, in bytes.
        json: the bytes of JSON that come from the schema and not from the message.
    """

    steps: float
    bytes: int
    memory: int = 0
    json: int = 0

    @property
    def room(self) -> int:
        """The bytes of memory and JSON together."""
        return self.memory + self.json

    @property
    def excess(self) -> tuple[float, float, float]:
        """The part of the cost that is above the allowance for the value's own bytes.

        The result has three numbers: for work, memory and JSON. Each is a fraction of the fixed
        allowance that a message of any size has.
        """
        json_per_byte = JSON_PER_BYTE - _JSON_OF_BYTE
        return (
            (self.steps - STEPS_PER_BYTE * self.bytes) / STEPS_MAX,
            (self.room - ROOM_PER_BYTE * self.bytes) / ROOM_MAX,
            (self.json - json_per_byte * self.bytes) / JSON_MAX,
        )


class AvroPrices:
    """The fixed costs of the types of one schema."""

    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema
        self._known: dict[str, AvroPrice] = {}

    def of(self, kind: AvroType) -> AvroPrice:
        """Return the fixed cost of a value of this type."""
        kind = self._schema.resolved(kind)
        if not self._schema.is_named(kind):
            return self._plain(kind)
        name = kind["name"]
        if name not in self._known:
            is_record = kind["type"] in RECORDS
            self._known[name] = self._record(kind) if is_record else self._plain(kind)
        return self._known[name]

    def of_item(self, kind: AvroType) -> AvroPrice:
        """Return the fixed cost of an array's item of this type."""
        price = self.of(kind)
        return price._replace(memory=price.memory + _ITEM_MEMORY)

    def of_entry(self, kind: AvroType) -> AvroPrice:
        """Return the cost of a map's key, together with the fixed cost of a value of this type."""
        steps, length, memory, json = self.of(kind)
        return AvroPrice(steps + _KEY_STEPS, length + 1, memory + _ENTRY_MEMORY, json)

    def of_branch(self, kind: AvroType) -> AvroPrice:
        """Return the fixed cost of a value that has this type in a union."""
        # Null has no cost of its own, because the cost of the union includes it.
        if self._schema.kind_of(kind) == "null":
            return AvroPrice(0, 0)
        price = self.of(kind)
        return price._replace(steps=price.steps + _BRANCH_STEPS)

    def certain_size(self) -> float:
        """Return a size. No message up to this size exceeds the limits, whatever it contains."""
        # Compute the cost for each byte of a value. A value without bytes, such as null, needs
        # another byte of the message that announces it, for example the index of a type in a union.
        # Half of this other byte counts as a byte of the value.
        rates = [[each / max(part.bytes, 0.5) for each in part.excess] for part in self._parts()]
        steepest = map(max, zip(*rates, strict=True)) if rates else repeat(0.0)
        root = self.of(self._schema.root).excess
        return min(map(_certain, root, steepest))

    def _plain(self, kind: AvroType) -> AvroPrice:
        name = self._schema.kind_of(kind)
        steps, length = _STEPS[name], _FEWEST_BYTES.get(name, 1)
        memory, json = _MEMORY.get(name, 0), _NULL_JSON if name == "null" else 0
        if not isinstance(kind, dict):
            return AvroPrice(steps, length, memory, json)
        if name == "enum":
            json = max(map(_json_length, kind["symbols"]))
            steps += json / _BYTES_PER_STEP
        if decimal := decimal_of(kind):
            json = decimal[1] + _QUOTES
            memory = sys.getsizeof("") + json
            steps = _DECIMAL_STEPS + json / _BYTES_PER_STEP
        return AvroPrice(steps, kind.get("size", length), memory, json)

    def _record(self, kind: dict[str, Any]) -> AvroPrice:
        names = [field["name"] for field in kind["fields"]]
        steps, length, json = _STEPS["record"], 0, _QUOTES
        memory = sys.getsizeof(dict.fromkeys(names))
        for field in kind["fields"]:
            price, named = self.of(field["type"]), _json_length(field["name"])
            steps += _FIELD_STEPS + named / _BYTES_PER_STEP + price.steps
            length, memory, json = (
                length + price.bytes,
                memory + price.memory,
                json + named + price.json,
            )
        return AvroPrice(steps, length, memory, json)

    def _parts(self) -> Iterator[AvroPrice]:
        for kind in self._schema.types():
            if isinstance(kind, list):
                yield from map(self.of_branch, kind)
            elif isinstance(kind, dict) and kind["type"] in {"array", "map"}:
                is_map = kind["type"] == "map"
                item = self.of_entry(kind["values"]) if is_map else self.of_item(kind["items"])
                # Count both possible cases: all items are in one block, or each item is in a block
                # of its own.
                yield item
                yield item._replace(
                    steps=item.steps + BLOCK_STEPS,
                    bytes=item.bytes + 1,
                    memory=item.memory + BLOCK_ROOM,
                )


def _json_length(name: str) -> int:
    return len(name.encode()) + _QUOTES


def _certain(root: float, rate: float) -> float:
    """Return how large a message may be if each byte costs at most `rate`.

    `root` is the fixed cost of the whole message. `root` and `rate` are fractions of the limit.
    """
    if root >= 1:
        return 0
    return (1 - root) / rate if rate > 0 else math.inf
