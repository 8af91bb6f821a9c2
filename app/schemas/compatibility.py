"""Checks whether a new version of an Avro schema can read messages of an older version (Avro 1.12).

For some time, subscribers with the new version get messages of both versions: older messages in the
log, and messages of publishers that still use the old version.
"""

from functools import lru_cache
from typing import Any, Final

from app.domain.catalogue.schema import ContentType
from app.schemas.avro_types import RECORDS, AvroSchema, AvroType, decimal_of
from app.schemas.compiled import avro_codec

# For each type, the wider types: a reader with a wider type can also read values of the type.
_WIDER: Final = {
    "int": {"long", "float", "double"},
    "long": {"float", "double"},
    "float": {"double"},
    "string": {"bytes"},
    "bytes": {"string"},
}

# The maximum number of pairs of types that are compared; each takes some microseconds.
PAIRS_MAX: Final = 100_000
# The number of cached results. A thread compares the schemas, and the event loop reads the result
# later.
COMPARED_MAX: Final = 16


@lru_cache(maxsize=COMPARED_MAX)
def backward_problem(
    kind: ContentType, *, new: str, old: str, pairs_max: int = PAIRS_MAX
) -> str | None:
    """Return why the schema `new` cannot read messages of `old`; None if it can.

    Both must be valid Avro schemas. (A JSON Schema may change in any way.)
    """
    if kind is ContentType.JSON:
        return None
    reader, writer = avro_codec(new).schema, avro_codec(old).schema
    try:
        return _Comparison(reader, writer, pairs_max).problem(reader.root, writer.root, "")
    except RecursionError:
        return "is nested too deep to compare"
    except _ExhaustedError:
        return "has too many types to compare"


class _ExhaustedError(Exception):
    """The comparison takes too much work."""


class _Comparison:
    def __init__(self, reader: AvroSchema, writer: AvroSchema, pairs_max: int) -> None:
        self._reader = reader
        self._writer = writer
        self._left = pairs_max
        # Pairs of named types that are known or assumed to be compatible. A pair counts as
        # compatible while it is being compared, because a record may contain itself.
        self._known: dict[tuple[str, str], None] = {}
        # For each incompatible pair of types, the reason why it is not compatible. Without this
        # cache, each pair in a chain of records would be compared again and again.
        self._misfits: dict[tuple[str, str], str] = {}

    def problem(self, new: AvroType, old: AvroType, path: str) -> str | None:
        """Return why the type `new` cannot read values of the type `old`; None if it can.

        The result begins with the path to the type.
        """
        self._left -= 1
        if self._left < 0:
            raise _ExhaustedError
        new, old = self._reader.resolved(new), self._writer.resolved(old)
        if isinstance(old, list):
            return next((p for each in old if (p := self.problem(new, each, path))), None)
        if isinstance(new, list):
            if any(self.problem(each, old, path) is None for each in new):
                return None
            return _problem_at(path, f"cannot be {self._writer.name_of(old)} any more")
        return self._plain(new, old, path)

    def _plain(self, new: AvroType, old: AvroType, path: str) -> str | None:
        is_now, was = self._reader.kind_of(new), self._writer.kind_of(old)
        if is_now != was and not (is_now in RECORDS and was in RECORDS):
            if is_now in _WIDER.get(was, ()) and not (_has_scale(new) or _has_scale(old)):
                return None
            return _problem_at(path, f"was {was} and is {is_now}")
        if is_now == "array":
            return self.problem(new["items"], old["items"], f"{path}[]")
        if is_now == "map":
            return self.problem(new["values"], old["values"], f"{path}{{}}")
        return self._named(new, old, path) if "name" in _members(new) else _scales(new, old, path)

    def _named(self, new: dict[str, Any], old: dict[str, Any], path: str) -> str | None:
        pair = (new["name"], old["name"])
        if not _same_name(new, old):
            return _problem_at(path, f"was {old['name']} and is {new['name']}")
        if new["type"] == "fixed":
            if new["size"] != old["size"]:
                return _problem_at(path, f"was of {old['size']} bytes and is of {new['size']}")
            return _scales(new, old, path)
        if new["type"] == "enum":
            gone = [each for each in old["symbols"] if each not in new["symbols"]]
            default = new.get("default") is not None
            return (
                _problem_at(path, f"lacks the symbol {gone[0]}") if gone and not default else None
            )
        if pair in self._known or pair in self._misfits:
            return self._misfits.get(pair)
        before = len(self._known)
        self._known[pair] = None
        found = self._fields(new, old, path)
        if found is not None:
            # This pair is not compatible, but it was assumed to be compatible during the
            # comparison. Forget the pairs that were found to be compatible during this time,
            # because the reason may be this assumption.
            while len(self._known) > before:
                self._known.popitem()
            self._misfits[pair] = found
        return found

    def _fields(self, new: dict[str, Any], old: dict[str, Any], path: str) -> str | None:
        before = {each["name"]: each for each in old["fields"]}
        for field in new["fields"]:
            names = (field["name"], *field.get("aliases", ()))
            was = next((before[name] for name in names if name in before), None)
            below = f"{path}.{field['name']}" if path else field["name"]
            if was is None:
                if "default" not in field:
                    return _problem_at(below, "is new and has no default")
            elif problem := self.problem(field["type"], was["type"], below):
                return problem
        return None


def _same_name(new: dict[str, Any], old: dict[str, Any]) -> bool:
    """Whether two types have the same name. Namespaces do not count.

    An alias of the new type counts as its name, too. fastavro and Java compare names in the same
    way.
    """
    short = old["name"].rpartition(".")[2]
    names = (new["name"], *new.get("aliases", ()))
    return any(name.rpartition(".")[2] == short for name in names)


def _scales(new: AvroType, old: AvroType, path: str) -> str | None:
    if _scale(new) != _scale(old):
        return _problem_at(path, "was a decimal of another scale, or none")
    return None


def _has_scale(kind: AvroType) -> bool:
    return _scale(kind) is not None


def _scale(kind: AvroType) -> int | None:
    found = decimal_of(kind) if isinstance(kind, dict) else None
    return found[1] if found else None


def _members(kind: AvroType) -> dict[str, Any]:
    return kind if isinstance(kind, dict) else {}


def _problem_at(path: str, problem: str) -> str:
    return f"{path or 'its root'} {problem}"
