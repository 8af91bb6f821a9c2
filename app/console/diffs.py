"""The differences between two versions of settings, field by field (pure)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

# Fields that are not shown as differences.
_BESIDE: Final = frozenset({"modifiedAt", "createdAt", "supportTeam", "trackingEnabled"})


class Difference(NamedTuple):
    """A field whose value differs. None means that one version does not have the field."""

    path: str
    before: Any
    after: Any


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Sequence[Difference]:
    """Return the fields that differ, ordered by path."""
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
