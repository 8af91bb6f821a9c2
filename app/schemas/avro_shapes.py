"""Quick checks whether a JSON value can have an Avro type.

The types of a union are tried one after another. Quick checks first exclude most impossible types:
by the kind of the value, by the required members of records, and by the symbols of enums. Only the
types that are left are tried.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain, islice
from typing import Any, Final, NamedTuple

from app.schemas.avro_types import RECORDS, AvroSchema, AvroType, decimal_of

# The steps of work (avro_work.py) of a quick check whether a value can have a type.
_LOOK_STEPS: Final = 0.4
# The additional steps for each name of a required member that a quick check reads.
_NAME_STEPS: Final = 0.1
# The additional steps for each member whose value a quick check looks up.
_MEMBER_STEPS: Final = 0.25
# The maximum number of members whose values a quick check looks up.
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
    """A quick check whether a value can have a type, and the steps of work of this check.

    `may_be` is the check. It gets only values of a kind that the type can have (such as a text). If
    it is None, there is no check.
    """

    may_be: Callable[[Any], bool] | None
    steps: float


class Shapes:
    """The quick checks for the types of one schema. Each named type is analysed once."""

    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema
        # The symbols of each enum, by the enum's name.
        self._symbols: dict[str, frozenset[str]] = {}
        # The required members of each record, by the record's name.
        self._needed: dict[str, Mapping[str, AvroType]] = {}
        # The members that at least two of several records require, by the names of these records.
        self._shared: dict[tuple[str, ...], AbstractSet[str]] = {}

    def kinds(self, kind: AvroType) -> frozenset[type]:
        """Return the kinds of JSON values that can have the type."""
        found = self._schema.resolved(kind)
        if isinstance(found, list):
            return frozenset().union(*map(self.kinds, found))
        if isinstance(found, dict) and decimal_of(found):
            return _DECIMALS
        return _KINDS[self._schema.kind_of(kind)]

    def looks(self, union: list[AvroType]) -> list[FirstSight]:
        """Return, for each type of a union, a quick check that excludes values of other types."""
        if sum(self._schema.kind_of(kind) != "null" for kind in union) <= 1:
            # A union with only one type besides null needs no checks. Such unions are frequent in
            # large schemas.
            return [FirstSight(None, 0) for _ in union]
        records = tuple(self._schema.name_of(each) for each in union if self._is_record(each))
        if records not in self._shared:
            self._shared[records] = self._shared_by(records)
        return [self._look(kind, self._shared[records]) for kind in union]

    def _look(self, kind: AvroType, shared: AbstractSet[str]) -> FirstSight:
        if self._schema.kind_of(kind) == "enum":
            return FirstSight(self._symbols_of(kind).__contains__, _LOOK_STEPS)
        if not self._is_record(kind):
            return FirstSight(None, 0)
        needed = self._needed_of(self._schema.name_of(kind))
        # Only the values of members that another record also requires are checked. For all other
        # members, it is enough that they exist.
        within = islice((name for name in needed if name in shared), _MEMBERS_MAX)
        members = [self._member(name, needed[name]) for name in within]
        steps = _LOOK_STEPS + len(needed) * _NAME_STEPS + len(members) * _MEMBER_STEPS
        return FirstSight(_record_look(needed.keys(), members), steps)

    def _shared_by(self, records: Sequence[str]) -> AbstractSet[str]:
        """Return the members that more than one of these records must have."""
        times = Counter(chain.from_iterable(map(self._needed_of, records)))
        return {name for name, count in times.items() if count > 1}

    def _needed_of(self, record: str) -> Mapping[str, AvroType]:
        """Return the required members of a record with their types.

        Members that are enums come first, because they exclude most records.
        """
        if record not in self._needed:
            fields = self._schema.named[record]["fields"]
            needed = [(each["name"], each["type"]) for each in fields if "default" not in each]
            needed.sort(key=lambda field: self._schema.kind_of(field[1]) != "enum")
            self._needed[record] = dict(needed)
        return self._needed[record]

    def _member(self, name: str, kind: AvroType) -> _Member:
        is_enum = self._schema.kind_of(kind) == "enum"
        return name, self.kinds(kind), self._symbols_of(kind) if is_enum else None

    def _symbols_of(self, enum: AvroType) -> frozenset[str]:
        name = self._schema.name_of(enum)
        if name not in self._symbols:
            self._symbols[name] = frozenset(self._schema.resolved(enum)["symbols"])
        return self._symbols[name]

    def _is_record(self, kind: AvroType) -> bool:
        return self._schema.kind_of(kind) in RECORDS


def _record_look(needed: AbstractSet[str], members: list[_Member]) -> Callable[[Any], bool]:
    def may_be(value: dict[str, Any]) -> bool:
        if not value.keys() >= needed:
            return False
        for name, kinds, symbols in members:
            found = value[name]
            if type(found) not in kinds or (symbols is not None and found not in symbols):
                return False
        return True

    return may_be
