"""Settings of domain values as JSON, so that a new setting needs no migration.

A timedelta is stored in seconds, a time in seconds since the epoch, an enum by its value, a
dataclass as an object of its fields, a tuple or set as a list, all else as it is. A field marked
as a secret is sealed, for its path in the JSON (`headers.0.value`). On reading, a setting that is
not stored has its default, and one that is not known (written by a newer version) is passed over.
"""

import types
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import Field, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from app.domain.secrets import is_secret
from app.storage.models import Json
from app.storage.sealing import Sealing


def to_json(
    value: Any,  # noqa: ANN401 - any dataclass
    names: Iterable[str] | None = None,
    *,
    sealing: Sealing | None = None,
) -> Json:
    """The fields of a dataclass as JSON: all of them, or those in `names`.

    Its secrets, if it has any, are sealed by `sealing`; SecretKeyMissingError.
    """
    return _Encoder(sealing).fields(value, names)


def from_json(kind: type, stored: Json, *, sealing: Sealing | None = None) -> dict[str, Any]:
    """Keyword arguments for the dataclass `kind`, each of the type its field is declared with."""
    return _Decoder(sealing).fields(kind, stored)


_hints = cache(get_type_hints)


class _Encoder:
    def __init__(self, sealing: Sealing | None) -> None:
        self._sealing = sealing

    def fields(self, value: Any, names: Iterable[str] | None = None, path: str = "") -> Json:  # noqa: ANN401 - any dataclass
        wanted = None if names is None else frozenset(names)
        return {
            field.name: self._field(field, getattr(value, field.name), f"{path}{field.name}")
            for field in fields(value)
            if wanted is None or field.name in wanted
        }

    def _field(self, field: Field[Any], value: Any, path: str) -> Any:  # noqa: ANN401 - JSON out
        if not is_secret(field) or value is None:
            return self._encoded(value, path)
        return _required(self._sealing, path).seal(value, path)

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


class _Decoder:
    def __init__(self, sealing: Sealing | None) -> None:
        self._sealing = sealing

    def fields(self, kind: type, stored: Json, path: str = "") -> dict[str, Any]:
        hints = _hints(kind)
        known = (field for field in fields(kind) if field.name in stored)
        return {
            field.name: self._opened(stored[field.name], f"{path}{field.name}")
            if is_secret(field)
            else self._decoded(hints[field.name], stored[field.name], f"{path}{field.name}")
            for field in known
        }

    def _opened(self, stored: Any, path: str) -> str | None:  # noqa: ANN401 - JSON in
        return None if stored is None else _required(self._sealing, path).open(stored, path)

    def _decoded(self, kind: Any, stored: Any, path: str) -> Any:  # noqa: ANN401 - JSON in
        if get_origin(kind) in {Union, types.UnionType}:
            return None if stored is None else self._decoded(_not_none(kind), stored, path)
        if get_origin(kind) is not None:
            return self._collection(kind, stored, path)
        if isinstance(kind, type) and is_dataclass(kind):
            return kind(**self.fields(kind, stored, f"{path}."))
        if kind is timedelta:
            return timedelta(seconds=stored)
        if kind is datetime:
            return datetime.fromtimestamp(stored, UTC)
        return kind(stored) if issubclass(kind, Enum | float) else stored

    def _collection(self, kind: Any, stored: Any, path: str) -> Any:  # noqa: ANN401 - JSON in
        origin, of = get_origin(kind), get_args(kind)
        if issubclass(origin, Mapping):
            values = stored.items()
            return {key: self._decoded(of[1], value, f"{path}.{key}") for key, value in values}
        items = (self._decoded(of[0], item, f"{path}.{at}") for at, item in enumerate(stored))
        return frozenset(items) if issubclass(origin, AbstractSet) else tuple(items)


def _required(sealing: Sealing | None, path: str) -> Sealing:
    if sealing is None:
        raise TypeError(f"{path} is a secret: say what row it is in")
    return sealing


def _not_none(kind: Any) -> Any:  # noqa: ANN401 - a type
    (only,) = (each for each in get_args(kind) if each is not type(None))
    return only
