"""What a value of JSON must look like, at first sight, to be of a type of Avro.

A union tries its types one after another. Most that cannot be are told by the kind of the value, by
the members that it must have, and by the symbols that stand in them; only the others are tried.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple

from app.schemas.avro_types import RECORDS, AvroSchema, AvroType, decimal_of

# Steps of work (avro_writing.py) of a look, of each name, and of each member: at most four.
_LOOK_STEPS: Final = 0.4
_NAME_STEPS: Final = 0.1
_MEMBER_STEPS: Final = 0.25
_MEMBERS_MAX: Final = 4

_KINDS: Final[dict[str, frozenset[type]]] = {
    "null": frozenset({type(None)}),
    "boolean": frozenset({bool}),
    "int": frozenset({int}),
    "long": frozenset({int}),
    "float": frozenset({int, float}),
    "double": frozenset({int, float}),
    "string": frozenset({str}),
    "bytes": frozenset({str}),
    "fixed": frozenset({str}),
    "enum": frozenset({str}),
    "array": frozenset({list}),
    "map": frozenset({dict}),
    "record": frozenset({dict}),
    "error": frozenset({dict}),
}
_DECIMALS: Final[frozenset[type]] = frozenset({int, float, str})
_Member = tuple[str, frozenset[type], frozenset[str] | None]


class FirstSight(NamedTuple):
    """Whether a value of a right kind may be of a type, and the steps that finding out takes."""

    may_be: Callable[[Any], bool] | None
    steps: float


def kinds_of(schema: AvroSchema, kind: AvroType) -> frozenset[type]:
    """The kinds of JSON values that may be of the type."""
    found = schema.resolved(kind)
    if isinstance(found, list):
        return frozenset().union(*(kinds_of(schema, each) for each in found))
    if isinstance(found, dict) and decimal_of(found):
        return _DECIMALS
    return _KINDS[schema.kind_of(kind)]


def looks_at(schema: AvroSchema, union: list[AvroType]) -> list[FirstSight]:
    """How values of one of the kinds of each type of a union are told apart further."""
    if sum(schema.kind_of(kind) != "null" for kind in union) <= 1:
        # What is not null is of the other type: large schemas are full of these.
        return [FirstSight(None, 0) for _ in union]
    times = Counter(each["name"] for kind in union for each in _needed(schema, kind))
    shared = {name for name, count in times.items() if count > 1}
    return [_look(schema, kind, shared) for kind in union]


def _look(schema: AvroSchema, kind: AvroType, shared: AbstractSet[str]) -> FirstSight:
    if schema.kind_of(kind) == "enum":
        return FirstSight(frozenset(schema.resolved(kind)["symbols"]).__contains__, _LOOK_STEPS)
    if schema.kind_of(kind) not in RECORDS:
        return FirstSight(None, 0)
    fields = _needed(schema, kind)
    # A member that no other type has tells enough by being there. Symbols tell most.
    within = [_member(schema, each) for each in fields if each["name"] in shared]
    members = sorted(within, key=lambda member: member[2] is None)[:_MEMBERS_MAX]
    needed = frozenset(each["name"] for each in fields)
    steps = _LOOK_STEPS + len(needed) * _NAME_STEPS + len(members) * _MEMBER_STEPS
    return FirstSight(_record_look(needed, members), steps)


def _needed(schema: AvroSchema, kind: AvroType) -> list[Mapping[str, Any]]:
    if schema.kind_of(kind) not in RECORDS:
        return []
    return [each for each in schema.resolved(kind)["fields"] if "default" not in each]


def _member(schema: AvroSchema, field: Mapping[str, Any]) -> _Member:
    kind = field["type"]
    symbols = schema.resolved(kind)["symbols"] if schema.kind_of(kind) == "enum" else None
    return field["name"], kinds_of(schema, kind), None if symbols is None else frozenset(symbols)


def _record_look(needed: frozenset[str], members: list[_Member]) -> Callable[[Any], bool]:
    def may_be(value: dict[str, Any]) -> bool:
        if not value.keys() >= needed:
            return False
        for name, kinds, symbols in members:
            found = value[name]
            if type(found) not in kinds or (symbols is not None and found not in symbols):
                return False
        return True

    return may_be
