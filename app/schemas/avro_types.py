"""Parsed Avro schemas with named types, checked for safety.

The author of a schema decides how much work it is to read a few bytes. A schema could turn a small
message into a huge value, or into a value nested deeper than the stack. Such schemas are refused
here, or marked.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import fastavro
import orjson
from fastavro.schema import SchemaParseException, UnknownType

from app.domain.catalogue.topic import MESSAGE_SIZE_MAX
from app.domain.errors import ValidationFailedError

# A type in any of Avro's forms: a name, a union, or an object.
AvroType = Any

NAMED: Final = frozenset({"record", "error", "enum", "fixed"})
RECORDS: Final = frozenset({"record", "error"})
# The maximum number of values that a reader creates from no bytes of the message, such as empty
# records and nulls in records.
FREE_VALUES_MAX: Final = 1_000
NESTING_MAX: Final = 64
# The maximum number of records inside each other, directly or by name. The computation of costs
# visits all these records.
RECORDS_MAX: Final = 100


class _Free(NamedTuple):
    """How many values without bytes a type contains, and how many levels of records it has."""

    values: int
    depth: int


class AvroSchema:
    """A parsed Avro schema.

    `root` is the type of a whole message. `named` has the named types by their full names.
    """

    def __init__(self, text: str) -> None:
        """Parse the schema.

        Raises:
            ValidationFailedError: The schema is not valid, or is refused (field `schema`).
        """
        self.named: dict[str, AvroType] = {}
        self.root: AvroType = _parsed(text, self.named)
        self._require_bounded()

    def resolved(self, kind: AvroType) -> AvroType:
        """Return the type that `kind` names; if `kind` is not a name, return `kind` itself."""
        if isinstance(kind, str) and kind in self.named:
            return self.named[kind]
        return kind

    def name_of(self, kind: AvroType) -> str:
        """Return the type's name in a union: its full name, or its kind if it has no full name."""
        kind = self.resolved(kind)
        if isinstance(kind, dict):
            return str(kind["name"] if kind["type"] in NAMED else kind["type"])
        # A union gets a short name here, because it has no name, and the text of all its types is
        # long.
        return "[]" if isinstance(kind, list) else str(kind)

    def is_named(self, kind: AvroType) -> bool:
        """Whether the type has a full name, as records, enums and fixed types have.

        The type `map` has no full name, even if the schema has a record that is called `map`.
        """
        kind = self.resolved(kind)
        return isinstance(kind, dict) and kind["type"] in NAMED

    def kind_of(self, kind: AvroType) -> str:
        """Return the kind of the type: `record`, `array`, `long`, …, or `union`."""
        kind = self.resolved(kind)
        if isinstance(kind, list):
            return "union"
        return str(kind["type"] if isinstance(kind, dict) else kind)

    def _require_bounded(self) -> None:
        kinds = list(self.types())
        free: dict[str, _Free] = {}
        for kind in kinds:
            if problem := self._problem(kind):
                raise _refused(problem)
            if self._free(kind, free, ()).values > FREE_VALUES_MAX:
                raise _refused("has a record of which too much takes no room in a message")
        # Check arrays last. By then it is known that no record contains itself without end, so the
        # recursion of this check ends.
        for kind in kinds:
            items = kind.get("items") if isinstance(kind, dict) else None
            if items is not None and self._is_free(items):
                raise _refused("has an array of items that take no room in a message")

    def _problem(self, kind: AvroType) -> str | None:
        """Return why libraries other than fastavro would refuse the type; None if none would."""
        if isinstance(kind, list):
            names = [self.name_of(each) for each in kind]
            if not names or len(set(names)) < len(names) or any(map(_is_union, kind)):
                return "has a union that is empty, has a union in it, or a type twice"
        if not isinstance(kind, dict):
            return None
        size, symbols = kind.get("size", 0), kind.get("symbols", ("",))
        fields = [each["name"] for each in kind.get("fields", ())]
        if type(size) is not int or not 0 <= size <= MESSAGE_SIZE_MAX:
            return f"has a fixed type whose size is no whole number of 0 to {MESSAGE_SIZE_MAX}"
        if not symbols or len(set(symbols)) < len(symbols):
            return f"has an enum, {kind.get('name')}, without symbols or with one twice"
        if len(set(fields)) < len(fields):
            return f"has a record, {kind.get('name')}, with a field twice"
        return None

    def types(self) -> Iterator[AvroType]:
        """Yield all types in the schema. A type may come twice."""
        waiting = [self.root, *self.named.values()]
        while waiting:
            kind = waiting.pop()
            yield kind
            waiting += _parts(kind)

    def _free(self, kind: AvroType, known: dict[str, _Free], above: tuple[str, ...]) -> _Free:
        kind = self.resolved(kind)
        if self._is_nothing(kind):
            return _Free(1, 0)
        if not isinstance(kind, dict) or kind["type"] not in RECORDS:
            return _Free(0, 0)
        name = kind["name"]
        if name in above:
            raise _refused(f"has a record without end: {name} is in itself")
        if name not in known and len(above) < RECORDS_MAX:
            below = [self._free(each["type"], known, (*above, name)) for each in kind["fields"]]
            depth = 1 + max((each.depth for each in below), default=0)
            known[name] = _Free(1 + sum(each.values for each in below), depth)
        if name not in known or known[name].depth > RECORDS_MAX:
            raise _refused(f"has more than {RECORDS_MAX} records in each other: in {name}")
        return known[name]

    def _is_nothing(self, kind: AvroType) -> bool:
        # Check whether a value of this type has no bytes: null, or a fixed type of size 0. Null may
        # also be written as an object.
        is_empty = isinstance(kind, dict) and kind.get("size") == 0
        return is_empty or self.kind_of(kind) == "null"

    def _is_free(self, kind: AvroType) -> bool:
        kind = self.resolved(kind)
        if self._is_nothing(kind):
            return True
        if not isinstance(kind, dict) or kind["type"] not in RECORDS:
            return False
        return all(self._is_free(each["type"]) for each in kind["fields"])


def decimal_of(kind: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the precision and scale of a valid decimal; None for any other type."""
    precision, scale = kind.get("precision"), kind.get("scale", 0)
    if kind.get("logicalType") != "decimal" or kind.get("type") not in {"bytes", "fixed"}:
        return None
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision:
        return None
    return (precision, scale) if precision > 0 else None


def _parsed(text: str, named: dict[str, AvroType]) -> AvroType:
    try:
        written = _physical(orjson.loads(text))
        return fastavro.parse_schema(written, named)
    except orjson.JSONDecodeError as exc:
        raise _refused(f"is not JSON: {exc}") from exc
    except UnknownType as exc:
        raise _refused(f"is not an Avro schema: unknown type {str(exc.name)[:100]}") from exc
    except SchemaParseException as exc:
        raise _refused(f"is not an Avro schema: {str(exc)[:300]}") from exc
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError) as exc:
        raise _refused("is not an Avro schema") from exc


def _physical(kind: Any, depth: int = 0) -> AvroType:  # noqa: ANN401 - JSON can have any type
    """Return the type without logical types (such as times and UUIDs), except decimals.

    So a time has the same number in JSON as in the Avro message.
    """
    if depth > NESTING_MAX:
        raise _refused(f"is nested deeper than {NESTING_MAX} levels")
    if isinstance(kind, list):
        return [_physical(each, depth + 1) for each in kind]
    if not isinstance(kind, dict):
        return kind
    if isinstance(kind.get("type"), dict | list):
        return _physical(kind["type"], depth + 1)
    written = dict(kind)
    if decimal_of(written) is None:
        written.pop("logicalType", None)
    for part in ("items", "values"):
        if part in written:
            written[part] = _physical(written[part], depth + 1)
    if isinstance(written.get("fields"), list):
        if not all(isinstance(each["name"], str) for each in written["fields"]):
            raise _refused("is not an Avro schema: the name of a field must be a text")
        written["fields"] = [
            {**each, "type": _physical(each["type"], depth + 1)} for each in written["fields"]
        ]
    return written


def _is_union(kind: AvroType) -> bool:
    return isinstance(kind, list)


def _parts(kind: AvroType) -> list[AvroType]:
    """Return the types inside a type: of a record's fields, of an array or map, or of a union."""
    if isinstance(kind, list):
        return list(kind)
    if not isinstance(kind, dict):
        return []
    if kind["type"] in RECORDS:
        return [each["type"] for each in kind["fields"]]
    return [kind[part] for part in ("items", "values") if part in kind]


def _refused(problem: str) -> ValidationFailedError:
    return ValidationFailedError.of("schema", problem)
