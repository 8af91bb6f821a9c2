"""Settings of domain values as JSON, so that a new setting needs no migration.

A timedelta is stored in seconds, an enum by its value, all else as it is. On reading, a setting
that is not stored has its default, and one that is not known (written by a newer version) is
passed over.
"""

from collections.abc import Iterable
from dataclasses import fields
from datetime import timedelta
from enum import Enum
from typing import Any

from app.storage.models import Json


def to_json(value: Any, names: Iterable[str] | None = None) -> Json:  # noqa: ANN401 - any dataclass
    """The fields of a dataclass as JSON: all of them, or those in `names`."""
    wanted = (field.name for field in fields(value)) if names is None else names
    return {name: _encoded(getattr(value, name)) for name in wanted}


def from_json(kind: type, stored: Json) -> dict[str, Any]:
    """Keyword arguments for the dataclass `kind`, each of the type of the field's default."""
    return {
        field.name: _decoded(type(field.default), stored[field.name])
        for field in fields(kind)
        if field.name in stored
    }


def _encoded(value: Any) -> Any:  # noqa: ANN401 - JSON in, JSON out
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value.value if isinstance(value, Enum) else value


def _decoded(kind: type, stored: Any) -> Any:  # noqa: ANN401 - JSON in, JSON out
    if kind is timedelta:
        return timedelta(seconds=stored)
    return kind(stored) if issubclass(kind, Enum | float) else stored
