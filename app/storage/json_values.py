"""Converts settings to JSON and back, so that a new setting needs no migration of the database.

A timedelta is stored in seconds, a time in seconds since the epoch, an enum by its value, a
dataclass as an object of its fields, a tuple or set as a list, everything else unchanged. A field
marked as a secret is encrypted together with its path in the JSON (`headers.0.value`). When the
JSON is read, a missing setting gets its default, and an unknown setting (from a newer version) is
ignored.
"""

import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import cache
from typing import Any, Final, NamedTuple, Union, get_args, get_origin, get_type_hints

from app.domain.secrets import is_secret
from app.storage.sealing import Sealing
from app.storage.tables import Json


def to_json(
    value: Any,  # noqa: ANN401 - the value may be any dataclass
    names: Iterable[str] | None = None,
    *,
    sealing: Sealing | None = None,
) -> Json:
    """Return the fields of a dataclass as JSON: all fields, or only the fields in `names`.

    Secrets, if any, are encrypted by `sealing`.

    Raises:
        SecretKeyMissingError: No secret key is configured.
    """
    return _Encoder(sealing).fields(value, names)


def from_json(kind: type, stored: Json, *, sealing: Sealing | None = None) -> dict[str, Any]:
    """Return keyword arguments for the dataclass `kind`, decoded from stored JSON."""
    return _read(kind, stored, _ValuePath(sealing))


_UNCHANGED: Final = frozenset({str, int, float, bool})


class _Encoder:
    def __init__(self, sealing: Sealing | None) -> None:
        self._sealing = sealing

    def fields(self, value: Any, names: Iterable[str] | None = None, path: str = "") -> Json:  # noqa: ANN401 - the value may be any dataclass
        wanted = None if names is None else frozenset(names)
        kind: type = type(value)
        return {
            name: self._field(getattr(value, name), f"{path}{name}", secret=secret)
            for name, secret, _ in _plan(kind)
            if wanted is None or name in wanted
        }

    def _field(self, value: Any, path: str, *, secret: bool) -> Any:  # noqa: ANN401 - the result is any JSON
        # Check first for None, strings, numbers and booleans. Most values are of these types, and
        # the other checks take longer.
        if value is None or (not secret and type(value) in _UNCHANGED):
            return value
        if secret:
            return _required(self._sealing, path).seal(value, path)
        return self._encoded(value, path)

    def _encoded(self, value: Any, path: str) -> Any:  # noqa: ANN401, PLR0911 - JSON out; one line a type
        match value:
            case timedelta():
                return value.total_seconds()
            case datetime():
                return value.timestamp()
            case Enum():
                return value.value
            case str():
                return value
            case Mapping():
                return {key: self._encoded(item, f"{path}.{key}") for key, item in value.items()}
            case AbstractSet():
                return sorted(self._encoded(item, path) for item in value)
            case Sequence():
                return [self._encoded(item, f"{path}.{at}") for at, item in enumerate(value)]
            case _:
                return self.fields(value, None, f"{path}.") if is_dataclass(value) else value


class _Plan(NamedTuple):
    """How to write and read one field. `decode` is None if its values are stored unchanged."""

    name: str
    secret: bool
    decode: "_Decode | None"


@cache
def _plan(kind: type) -> tuple[_Plan, ...]:
    """Return how to write and read the fields of a type.

    The result is cached, because inspecting a type takes longer than reading a value.
    """
    hints = get_type_hints(kind)
    return tuple(
        _Plan(each.name, is_secret(each), _decoder(hints[each.name])) for each in fields(kind)
    )


def _read(kind: type, stored: Json, path: "_ValuePath") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, secret, decode in _plan(kind):
        if name not in stored:
            continue
        value = stored[name]
        if value is not None and secret:
            value = path.below(name).opened(value)
        elif value is not None and decode is not None:
            value = decode(value, path, name)
        found[name] = value
    return found


class _ValuePath(NamedTuple):
    """The path of a value in the JSON of a row, and the object that decrypts the row's secrets."""

    sealing: Sealing | None
    path: str = ""

    def below(self, name: object) -> "_ValuePath":
        return _ValuePath(self.sealing, f"{self.path}.{name}" if self.path else str(name))

    def opened(self, stored: Any) -> str:  # noqa: ANN401 - JSON can have any type
        return _required(self.sealing, self.path).open(stored, self.path)


_Decode = Callable[[Any, _ValuePath, object], Any]
"""Decodes a value that is not null. Its arguments: the stored value, its row, and its name."""


@cache
def _decoder(kind: Any) -> _Decode | None:  # noqa: ANN401 - a type in any form
    """Return the function that decodes values of this type; None if values are stored unchanged."""
    if get_origin(kind) in {Union, types.UnionType}:
        # For a type such as `int | None`, use the type without None, because null in JSON is
        # handled before the decoder is called.
        return _decoder(_not_none(kind))
    if get_origin(kind) is not None:
        return _collection(get_origin(kind), get_args(kind))
    if not isinstance(kind, type):
        return None
    if is_dataclass(kind):
        return lambda stored, path, name: kind(**_read(kind, stored, path.below(name)))
    return _scalar(kind)


def _scalar(kind: type) -> _Decode | None:
    if kind is timedelta:
        return lambda stored, _path, _name: timedelta(seconds=stored)
    if kind is datetime:
        return lambda stored, _path, _name: datetime.fromtimestamp(stored, UTC)
    if issubclass(kind, Enum):
        members = {each.value: each for each in kind}
        # Call the enum if the value is unknown, so that the enum raises its usual error.
        return lambda stored, _path, _name: members.get(stored) or kind(stored)
    if issubclass(kind, float):
        return lambda stored, _path, _name: kind(stored)
    return None


def _collection(origin: Any, of: Sequence[Any]) -> _Decode | None:  # noqa: ANN401 - a type in any form
    if issubclass(origin, Mapping):
        return _mapping(_decoder(of[1]))
    decode, make = _decoder(of[0]), frozenset if issubclass(origin, AbstractSet) else tuple
    if decode is None:
        return lambda stored, _path, _name: make(stored)
    return lambda stored, path, name: make(
        _items(decode, stored, path.below(name)) if stored else ()
    )


def _mapping(decode: _Decode | None) -> _Decode | None:
    if decode is None:
        return None

    def mapping(stored: Json, path: _ValuePath, name: object) -> Json:
        below = path.below(name)
        return {
            key: None if value is None else decode(value, below, key)
            for key, value in stored.items()
        }

    return mapping


def _items(decode: _Decode, stored: Iterable[Any], path: _ValuePath) -> Iterator[Any]:
    for at, value in enumerate(stored):
        yield None if value is None else decode(value, path, at)


def _required(sealing: Sealing | None, path: str) -> Sealing:
    if sealing is None:
        raise TypeError(f"{path} is a secret: say what row it is in")
    return sealing


def _not_none(kind: Any) -> Any:  # noqa: ANN401 - a type in any form
    (only,) = (each for each in get_args(kind) if each is not type(None))
    return only
