"""The differences between two versions of settings or of a text (pure)."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

# Fields whose differences are not shown: the times of creation and change, and `supportTeam`, which
# repeats the owner.
_BESIDE: Final = frozenset({"modifiedAt", "createdAt", "supportTeam"})
# The maximum number of lines of a text that is compared, and of lines that are returned.
_COMPARED_MAX: Final = 1_000
_LINES_MAX: Final = 200
_AROUND: Final = 2


class Difference(NamedTuple):
    """A field whose value differs. `before` or `after` is None if that version lacks the field."""

    path: str
    before: Any
    after: Any


class ChangedLine(NamedTuple):
    """A line in the comparison of two texts.

    `kind` is + for a line only of the new text, - for a line only of the old text, and a blank for
    a line of both.
    """

    kind: str
    text: str


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Sequence[Difference]:
    """Return the fields that differ between two versions of settings, ordered by path."""
    old, new = dict(_leaves(before)), dict(_leaves(after))
    return [
        Difference(path, old.get(path), new.get(path))
        for path in sorted(old.keys() | new.keys())
        if old.get(path) != new.get(path) and path.partition(".")[0] not in _BESIDE
    ]


def changed_lines(before: str, after: str) -> Sequence[ChangedLine]:
    """Return the lines that differ between two texts, with some unchanged lines around them.

    For a very long text, the result is empty.
    """
    old, new = before.splitlines(), after.splitlines()
    if max(len(old), len(new)) > _COMPARED_MAX:
        return ()
    found = difflib.unified_diff(old, new, lineterm="", n=_AROUND)
    # Two kinds of lines of the diff are skipped: the first two lines, which have the names of
    # files, and lines that begin with @@, which have line numbers.
    lines = [each for number, each in enumerate(found) if number > 1 and not each.startswith("@@")]
    return [ChangedLine(each[:1], each[1:]) for each in lines[:_LINES_MAX]]


def _leaves(body: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in body.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
