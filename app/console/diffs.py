"""The differences between two versions of settings or of a text (pure)."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

# Fields that are not shown as differences: times, and another name of the owner.
_BESIDE: Final = frozenset({"modifiedAt", "createdAt", "supportTeam"})
# The maximum number of lines that are compared, and of lines that are returned.
_COMPARED_MAX: Final = 1_000
_LINES_MAX: Final = 200
_AROUND: Final = 2


class Difference(NamedTuple):
    """A field whose value differs. None means that one version does not have the field."""

    path: str
    before: Any
    after: Any


class ChangedLine(NamedTuple):
    """A line of a text. `kind` is + for a new line, - for an old one, and a blank for both."""

    kind: str
    text: str


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Sequence[Difference]:
    """Return the fields that differ, ordered by path."""
    old, new = dict(_leaves(before)), dict(_leaves(after))
    return [
        Difference(path, old.get(path), new.get(path))
        for path in sorted(old.keys() | new.keys())
        if old.get(path) != new.get(path) and path.partition(".")[0] not in _BESIDE
    ]


def changed_lines(before: str, after: str) -> Sequence[ChangedLine]:
    """Return the lines that differ, with some lines around them; none of a very long text."""
    old, new = before.splitlines(), after.splitlines()
    if max(len(old), len(new)) > _COMPARED_MAX:
        return ()
    found = difflib.unified_diff(old, new, lineterm="", n=_AROUND)
    # Skip the first two lines, which have the names of files, and lines that begin with @, which
    # have line numbers.
    lines = [each for number, each in enumerate(found) if number > 1 and not each.startswith("@@")]
    return [ChangedLine(each[:1], each[1:]) for each in lines[:_LINES_MAX]]


def _leaves(body: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in body.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
