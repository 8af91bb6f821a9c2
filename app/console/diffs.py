"""What a change changes, field by field (pure)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

# Fields that change with every change.
_BESIDE: Final = frozenset({"modifiedAt", "createdAt", "supportTeam", "trackingEnabled"})


class Difference(NamedTuple):
    """A field with another value; None where there is none."""

    path: str
    before: Any
    after: Any


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Sequence[Difference]:
    """Return the fields that differ, by path."""
    old, new = dict(_leaves(before)), dict(_leaves(after))
    return [
        Difference(path, old.get(path), new.get(path))
        for path in sorted(old.keys() | new.keys())
        if old.get(path) != new.get(path) and path.partition(".")[0] not in _BESIDE
    ]


def _leaves(body: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in body.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
