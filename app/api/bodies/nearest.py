"""Finds the field that a sender may have meant by an unknown name."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Final

from pydantic import BaseModel

from app.api.bodies.problems import schema_in

# Two names with a similarity above this value differ only by a prefix, a plural or a typing error.
_ALIKE: Final = 0.72
# The maximum length of names that are compared. Longer names take long to compare, and no known
# field has such a long name.
_LENGTH_MAX: Final = 64


def nearest_field(root: type[BaseModel], model: type[BaseModel], path: str) -> str | None:
    """Return the known field that a sender may have meant by the unknown field at `path`.

    First look for the most similar field name of `model`, the model of the object that has the
    unknown field. If no name is similar, look in all of `root` for a field with exactly the unknown
    name, and return its path.
    """
    name = path.rpartition(".")[2].lower()
    if len(name) > _LENGTH_MAX:
        return None
    own = _fields(model)
    near = get_close_matches(name, own, n=1, cutoff=_ALIKE)
    return own[near[0]] if near else _paths(root).get(name)


@cache
def _fields(model: type[BaseModel]) -> Mapping[str, str]:
    """Return the field names of a model by their lower-case forms."""
    names = (info.alias or name for name, info in model.model_fields.items())
    return {name.lower(): name for name in names}


@cache
def _paths(root: type[BaseModel]) -> Mapping[str, str]:
    """Return the paths of all fields below `root`, by the lower-case names of the fields.

    If two fields have the same name, the path of the first one counts.
    """
    found: dict[str, str] = {}
    for path in _walked(root):
        found.setdefault(path.rpartition(".")[2].lower(), path)
    return found


def _walked(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    named = [(info.alias or name, info) for name, info in model.model_fields.items()]
    yield from (f"{prefix}{name}" for name, _ in named)
    for name, info in named:
        if below := schema_in(info.annotation):
            yield from _walked(below, f"{prefix}{name}.")
