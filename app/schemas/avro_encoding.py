"""Encodes JSON in Avro's binary encoding, by a schema (Avro 1.12).

The JSON has one of two forms. In plain JSON, the types of a union are tried in order, and a value
gets the first type that matches. In Avro's own JSON encoding (`avro/json`), the value of a union is
`{"type": value}`. In both forms, bytes are a text of the characters 0 to 255, a missing field has
its default, and unknown members are ignored, as in Hermes. A decimal may be a number in both forms.
If it is a text, plain JSON has its digits (`"1.20"`), and Avro's JSON has the bytes that Avro
stores for it (`"x"` is byte 120, which is 1.20 if the scale is 2). So have the defaults in schemas.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from app.domain.errors import ThroughputQuotaError
from app.schemas.avro_scalars import (
    PRIMITIVES,
    AvroWalk,
    AvroWrite,
    bytes_writer,
    decimal_writer,
    enum_writer,
    number_bytes,
)
from app.schemas.avro_shapes import Shapes
from app.schemas.avro_types import RECORDS, AvroSchema, AvroType, decimal_of
from app.schemas.avro_work import STEP_NS, AvroExhaustedError, steps_allowed
from app.schemas.problems import MismatchError
from app.schemas.request_work import TOO_MUCH, RequestWork

# The limit of work, in steps (avro_work.py), for a default value, which is encoded once.
_DEFAULT_STEPS_MAX: Final = 28_000
# The steps of work for each failed try: a value does not match a type of the union.
_TRY_STEPS: Final = 10
# An error has the path to the wrong value: field names and indexes. One step of work pays for so
# many elements of this path.
_PATH_ELEMENTS_PER_STEP: Final = 16
_FIELD_STEPS: Final = 0.3  # The steps for each field of a record.
_MEMBER_STEPS: Final = 2  # The steps for each member of an object.
# An object has few members if its record has more than this number of fields for each member.
_FEW: Final = 4
_DEFAULT_BYTES_PER_STEP: Final = 16  # The bytes of defaults that one step can copy.
_DEFAULT_BYTES_FREE: Final = 4  # A default up to this size in bytes is copied without a step.
# A message with at most this many levels can be written as JSON, because orjson allows 254 levels.
_SHALLOW: Final = 100
_EXHAUSTED: Final = (
    "takes more work than a message of its size may to be written as Avro: name the types of unions"
    " (avro/json), and leave out fewer fields"
)

# One type of a union: its index, a check whether a value can have it, and the steps of the check.
_Choice = tuple[int, Callable[[Any], bool] | None, float]


class AvroBytes(NamedTuple):
    """A message in Avro's binary encoding.

    If `is_deep` is true, the message may have too many levels to be written as JSON.
    """

    body: bytes
    is_deep: bool


class AvroWriter:
    """Encodes JSON values as Avro, by one schema. Created once for each schema."""

    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema
        self._shapes = Shapes(schema)
        self._named: dict[str, AvroWrite] = {}
        self._write = self._writer(schema.root)

    def written(
        self,
        value: object,
        *,
        wrapped: bool = False,
        size: int = 0,
        work: RequestWork | None = None,
    ) -> AvroBytes:
        """Return `value`, which was JSON of `size` bytes, in Avro's binary encoding.

        `wrapped` means that `value` is in Avro's own JSON encoding.

        Raises:
            MismatchError: The value does not match the schema, or takes too much work.
            ThroughputQuotaError: The work that is left for the whole request is too little.
        """
        steps = steps_allowed(size)
        left = steps if work is None else min(steps, work.left_ns / STEP_NS)
        walk = AvroWalk(wrapped=wrapped, steps=left, raw=wrapped)
        try:
            self._write(value, walk)
        except RecursionError as exc:
            raise MismatchError((), "is nested too deep") from exc
        except AvroExhaustedError as exc:
            if left < steps:
                raise ThroughputQuotaError(TOO_MUCH) from exc
            raise MismatchError((), _EXHAUSTED) from exc
        finally:
            if work is not None:
                work.left_ns -= (left - max(walk.left, 0)) * STEP_NS
        return AvroBytes(bytes(walk.out), is_deep=walk.is_deep)

    def _writer(self, kind: AvroType) -> AvroWrite:
        schema = self._schema
        if not schema.is_named(kind):
            return self._made(kind)
        name = schema.name_of(kind)
        if name not in self._named:
            # Store the name first, because a record may contain itself.
            self._named[name] = self._later(name)
            self._named[name] = self._made(schema.named[name])
        return self._named[name]

    def _later(self, name: str) -> AvroWrite:
        def write(value: object, walk: AvroWalk) -> None:
            walk.is_deep = walk.is_deep or len(walk.path) > _SHALLOW
            self._named[name](value, walk)

        return write

    def _made(self, kind: AvroType) -> AvroWrite:
        name = self._schema.kind_of(kind)
        if name in {"bytes", "fixed"} and isinstance(kind, dict):
            return decimal_writer(kind) if decimal_of(kind) else bytes_writer(kind.get("size"))
        if name in RECORDS:
            return self._record(kind)
        makers: dict[str, Callable[[Any], AvroWrite]] = {
            "union": self._union,
            "array": self._array,
            "map": self._map,
            "enum": enum_writer,
        }
        return makers[name](kind) if name in makers else PRIMITIVES[name]

    def _record(self, kind: Mapping[str, Any]) -> AvroWrite:
        fields = [(each["name"], self._writer(each["type"]), each) for each in kind["fields"]]
        name, count = kind["name"], len(fields)
        defaults = _Defaults(fields)

        def write(value: Any, walk: AvroWalk) -> None:  # noqa: ANN401 - JSON can have any type
            if not isinstance(value, dict):
                raise walk.mismatch(f"must be an object ({name})")
            if len(value) * _FEW < count and defaults.suffice(value):
                defaults.around(value, walk)
                return
            walk.spend(_FIELD_STEPS * count + _MEMBER_STEPS * min(len(value), count))
            for field, write_field, _ in fields:
                if field in value:
                    walk.path.append(field)
                    write_field(value[field], walk)
                    walk.path.pop()
                else:
                    defaults.write(field, walk)

        return write

    def _array(self, kind: Mapping[str, Any]) -> AvroWrite:
        write_item = self._writer(kind["items"])
        steps = _steps(write_item)

        def write(value: Any, walk: AvroWalk) -> None:  # noqa: ANN401 - JSON can have any type
            if not isinstance(value, list):
                raise walk.mismatch("must be an array")
            walk.spend(steps * len(value))
            if value:
                walk.number(len(value))
            for index, item in enumerate(value):
                walk.path.append(index)
                write_item(item, walk)
                walk.path.pop()
            walk.number(0)

        return write

    def _map(self, kind: Mapping[str, Any]) -> AvroWrite:
        write_value = self._writer(kind["values"])
        steps = 1 + _steps(write_value)

        def write(value: Any, walk: AvroWalk) -> None:  # noqa: ANN401 - JSON can have any type
            if not isinstance(value, dict):
                raise walk.mismatch("must be an object")
            walk.spend(steps * len(value))
            if value:
                walk.number(len(value))
            for key, item in value.items():
                walk.path.append(key)
                walk.sized(key.encode())
                write_value(item, walk)
                walk.path.pop()
            walk.number(0)

        return write

    def _union(self, kind: list[AvroType]) -> AvroWrite:
        names = [self._schema.name_of(each) for each in kind]
        return _Union(names, [self._writer(each) for each in kind], self._choices(kind))

    def _choices(self, kind: list[AvroType]) -> Mapping[type, list[_Choice]]:
        """Return which types of a union a JSON value can have, for each kind of JSON value."""
        choices: dict[type, list[_Choice]] = {}
        for index, (may_be, steps) in enumerate(self._shapes.looks(kind)):
            for known in self._shapes.kinds(kind[index]):
                choices.setdefault(known, []).append((index, may_be, steps))
        return choices


class _Defaults:
    """The encoded default values of a record's fields, for JSON objects that lack these fields."""

    __slots__ = ("_fields", "_indexes", "_joined", "_known", "_needed", "_starts", "_tried")

    def __init__(self, fields: list[tuple[str, AvroWrite, Mapping[str, Any]]]) -> None:
        self._fields = fields
        self._indexes = {field: index for index, (field, _, _) in enumerate(fields)}
        self._needed = frozenset(field for field, _, schema in fields if "default" not in schema)
        self._known: dict[str, bytes] = {}
        self._joined = b""
        self._starts: list[int] = []
        self._tried = False

    def write(self, field: str, walk: AvroWalk) -> None:
        """Write the default value of one field.

        Raises:
            MismatchError: The field has no default.
            AvroExhaustedError: Too little work is left.
        """
        if field not in self._known:
            if field in self._needed:
                walk.path.append(field)
                raise walk.mismatch("is missing")
            self._known[field] = self._made(field)
        found = self._known[field]
        if len(found) > _DEFAULT_BYTES_FREE:
            walk.spend(len(found) / _DEFAULT_BYTES_PER_STEP)
        walk.out += found

    def suffice(self, value: Mapping[str, Any]) -> bool:
        """Whether all fields that the object lacks have defaults, which are all encoded already."""
        if not self._tried:
            self._tried = True
            self._join()
        return bool(self._starts) and value.keys() >= self._needed

    def around(self, value: Mapping[str, Any], walk: AvroWalk) -> None:
        """Write a record from an object with few members. Copy the defaults of all other fields."""
        joined, starts, at = self._joined, self._starts, 0
        walk.spend(_MEMBER_STEPS * len(value) + len(joined) / _DEFAULT_BYTES_PER_STEP)
        for index in sorted(self._indexes[each] for each in value if each in self._indexes):
            field, write_field, _ = self._fields[index]
            walk.out += joined[starts[at] : starts[index]]
            walk.path.append(field)
            write_field(value[field], walk)
            walk.path.pop()
            at = index + 1
        walk.out += joined[starts[at] :]

    def _join(self) -> None:
        found, starts = bytearray(), [0]
        try:
            for field, _, _ in self._fields:
                found += b"" if field in self._needed else self._made(field)
                starts.append(len(found))
        except (MismatchError, AvroExhaustedError, RecursionError):
            # One default cannot be encoded, and a message may never need it. So each default is
            # encoded when a message needs it.
            return
        self._joined, self._starts = bytes(found), starts

    def _made(self, field: str) -> bytes:
        # Encode the default as Avro's JSON, but without the names of types in unions: the value may
        # have any type of a union.
        _, write, schema = self._fields[self._indexes[field]]
        walk = AvroWalk(wrapped=False, steps=_DEFAULT_STEPS_MAX, raw=True)
        walk.path.append(field)
        write(schema["default"], walk)
        return bytes(walk.out)


class _Union:
    """Writes a value of a union, with the type of the union that the value has."""

    __slots__ = ("_branches", "_choices", "_names", "_null", "_one", "_prefixes", "_problem")

    def __init__(
        self, names: list[str], branches: list[AvroWrite], choices: Mapping[type, list[_Choice]]
    ) -> None:
        self._names = names
        self._problem = f"must be one of {', '.join(names)}"
        self._branches = branches
        self._prefixes = [number_bytes(index) for index in range(len(names))]
        self._choices = choices
        self._null = names.index("null") if "null" in names else None
        others = [index for index, name in enumerate(names) if name != "null"]
        self._one = others[0] if len(others) == 1 else None

    def __call__(self, value: Any, walk: AvroWalk) -> None:  # noqa: ANN401 - JSON can have any type
        if value is None and self._null is not None:
            walk.out += self._prefixes[self._null]
        elif walk.wrapped:
            index, inner = _unwrapped(value, self._names, walk)
            walk.path.append(self._names[index])
            self._write(index, inner, walk)
            walk.path.pop()
        elif self._one is not None and value is not None:
            # Only this type is possible, so report the exact error of this type.
            walk.out += self._prefixes[self._one]
            self._branches[self._one](value, walk)
        else:
            self._try(value, walk)

    def _write(self, index: int, value: object, walk: AvroWalk) -> None:
        walk.out += self._prefixes[index]
        self._branches[index](value, walk)

    def _try(self, value: object, walk: AvroWalk) -> None:
        start, depth = len(walk.out), len(walk.path)
        looked = 0.0
        for index, may_be, steps in self._choices.get(type(value), ()):
            looked += steps
            if may_be is not None and not may_be(value):
                continue
            if looked:
                walk.spend(looked)
                looked = 0.0
            try:
                walk.out += self._prefixes[index]
                return self._branches[index](value, walk)
            except MismatchError:
                walk.spend(_TRY_STEPS + depth / _PATH_ELEMENTS_PER_STEP)
                del walk.out[start:]
                del walk.path[depth:]
        walk.spend(looked)
        raise walk.mismatch(self._problem)


def _steps(write: AvroWrite) -> int:
    """Return how many steps of work `write` takes for a value that matches the type."""
    return 2 if isinstance(write, _Union) else 1


def _unwrapped(value: object, names: list[str], walk: AvroWalk) -> tuple[int, object]:
    if isinstance(value, dict) and len(value) == 1:
        ((name, inner),) = value.items()
        if name in names:
            return names.index(name), inner
    raise walk.mismatch(f"must be an object with one member, named {' or '.join(names)}")
