"""Settings of domain values as JSON, so that a new setting needs no migration.

A timedelta is stored in seconds, a time in seconds since the epoch, an enum by its value, a
dataclass as an object of its fields, a tuple or set as a list, all else as it is. On reading, a
setting that is not stored has its default, and one that is not known (written by a newer version)
is passed over.
"""

import types
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from app.storage.models import Json


def to_json(value: Any, names: Iterable[str] | None = None) -> Json:  # noqa: ANN401 - any dataclass
    """The fields of a dataclass as JSON: all of them, or those in `names`."""
    wanted = (field.name for field in fields(value)) if names is None else names
    return {name: _encoded(getattr(value, name)) for name in wanted}


def from_json(kind: type, stored: Json) -> dict[str, Any]:
    """Keyword arguments for the dataclass `kind`, each of the type its field is declared with."""
    hints = _hints(kind)
    return {
        field.name: _decoded(hints[field.name], stored[field.name])
        for field in fields(kind)
        if field.name in stored
    }


_hints = cache(get_type_hints)


def _encoded(value: Any) -> Any:  # noqa: ANN401, PLR0911 - JSON in, JSON out; one line a type
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
            return {key: _encoded(item) for key, item in value.items()}
        case AbstractSet():
            return sorted(_encoded(item) for item in value)
        case Sequence():
            return [_encoded(item) for item in value]
        case _:
            return to_json(value) if is_dataclass(value) else value


def _decoded(kind: Any, stored: Any) -> Any:  # noqa: ANN401 - JSON in, JSON out
    if get_origin(kind) in {Union, types.UnionType}:
        return None if stored is None else _decoded(_not_none(kind), stored)
    if get_origin(kind) is not None:
        return _decoded_collection(get_origin(kind), get_args(kind), stored)
    if isinstance(kind, type) and is_dataclass(kind):
        return kind(**from_json(kind, stored))
    if kind is timedelta:
        return timedelta(seconds=stored)
    if kind is datetime:
        return datetime.fromtimestamp(stored, UTC)
    return kind(stored) if issubclass(kind, Enum | float) else stored


def _decoded_collection(kind: type, of: tuple[Any, ...], stored: Any) -> Any:  # noqa: ANN401 - JSON in, JSON out
    if issubclass(kind, Mapping):
        return {key: _decoded(of[1], item) for key, item in stored.items()}
    items = (_decoded(of[0], item) for item in stored)
    return frozenset(items) if issubclass(kind, AbstractSet) else tuple(items)


def _not_none(kind: Any) -> Any:  # noqa: ANN401 - a type
    (only,) = (each for each in get_args(kind) if each is not type(None))
    return only
