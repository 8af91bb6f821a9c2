"""Selects the part of a body that an expression reads.

The body is copied for CEL. Copying a value takes much longer than parsing it, so only the needed
values are copied.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from app.filtering.budget import Budget

# A text counts as one value, and as one value more for each so many characters.
_CHARACTERS_PER_WEIGHT: Final = 64

# The parts of a JSON object that an expression reads. The keys are the names of the members that it
# reads. The value of a key has the parts of this member that it reads, in the same form. None means
# the whole member.
Tree = dict[str, "Tree | None"]

_TOKEN: Final = re.compile(r"""'[^']*'|"[^"]*"|[A-Za-z_][A-Za-z0-9_]*|\S""")
_QUOTES: Final = ("'", '"')
_BODY: Final = "body"


class BodySelection:
    """Selects the values of a body that one expression can read."""

    __slots__ = ("_tree",)

    def __init__(self, expression: str) -> None:
        """Create a `BodySelection`.

        `expression` is CEL without loops, because in a loop the name `body` could mean another
        variable.
        """
        self._tree = _read(expression)

    def of(self, body: object) -> object:
        """Return `body` without the parts that the expression does not read."""
        return body if self._tree is None else _selected(body, self._tree)


def spend_weight(value: object, budget: Budget, work: int) -> None:
    """Subtract `work` units from the budget for each of the values that `value` consists of.

    Raises:
        ExhaustedError: Too little work is left.
    """
    left = most = budget.left // work
    waiting = [value]
    while waiting:
        each = waiting.pop()
        left -= 1
        if isinstance(each, str):
            left -= len(each) // _CHARACTERS_PER_WEIGHT
        elif isinstance(each, dict):
            left -= sum(map(len, each)) // _CHARACTERS_PER_WEIGHT
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)
        # Stop early if the values that are not counted yet are more than the budget allows, because
        # each of them takes at least `work` units.
        if left < len(waiting):
            break
    budget.spend((most - left + len(waiting)) * work)


def _selected(value: object, tree: Tree) -> object:
    if not isinstance(value, dict):
        # Replace a list by an empty list, so that it is not copied. The expression reads a member
        # by its name, which is an error for any list.
        return [] if isinstance(value, list) else value
    return {
        name: value[name] if below is None else _selected(value[name], below)
        for name, below in tree.items()
        if name in value
    }


def _read(expression: str) -> Tree | None:
    """Return the parts of the body that the expression reads; None if it may read all parts."""
    tokens: list[str] = _TOKEN.findall(expression)
    if _is_intricate(tokens):
        return None
    tree: Tree = {}
    for path in _paths(tokens):
        if not path:
            return None
        _add(tree, path)
    return tree


def _is_intricate(tokens: Sequence[str]) -> bool:
    """Whether it is hard to find where some tokens end.

    This is so after escapes in strings, strings in three quotation marks, and comments. All tokens
    before the first of these are right, so the first one is always found.
    """
    return any(
        (each.startswith(_QUOTES) and ("\\" in each or after.startswith(_QUOTES)))
        or (each == after == "/")
        for each, after in pairwise((*tokens, ""))
    )


def _paths(tokens: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the names of the members that follow each use of `body`, such as `("user", "name")`."""
    for index, token in enumerate(tokens):
        if token != _BODY:
            continue
        if index and tokens[index - 1] == ".":
            # A `body` after a dot is usually a member of another value, and is skipped. If there is
            # no value before the dot, it is the variable `body` itself. Then assume that the
            # expression reads the whole body.
            if index == 1 or not _ends_value(tokens[index - 2]):
                yield ()
        else:
            yield tuple(_members(tokens, index + 1))


def _ends_value(token: str) -> bool:
    return token != "in" and (  # noqa: S105 - a word of CEL
        token in {")", "]", "}"} or token.startswith(_QUOTES) or token[0].isidentifier()
    )


class _Member(NamedTuple):
    name: str
    end: int


def _members(tokens: Sequence[str], start: int) -> Iterator[str]:
    while (member := _member(tokens, start)) is not None:
        yield member.name
        start = member.end


def _member(tokens: Sequence[str], start: int) -> _Member | None:
    """Return the member `.name` or `["name"]` that begins at the token with the index `start`.

    The result is None if something else is there, such as the call of a function.
    """
    match tokens[start : start + 3]:
        case [".", name, "("]:
            return None
        case [".", name, *_] if name.isidentifier():
            return _Member(name, start + 2)
        case ["[", text, "]"] if text.startswith(_QUOTES):
            return _Member(text[1:-1], start + 3)
        case _:
            return None


def _add(tree: Tree, path: Sequence[str]) -> None:
    *above, last = path
    for name in above:
        below = tree.setdefault(name, {})
        if below is None:
            return
        tree = below
    tree[last] = None
