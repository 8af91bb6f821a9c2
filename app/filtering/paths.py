"""JSONPath (RFC 9535), compiled to plain functions with limited work.

A path without `$` is read as in Hermes' library (Jayway). The JSONPath library is used only to
parse paths. Its evaluation is too slow for every message (at least 20 µs for each value), and has
no limit. In filters (`[?...]`), only single values can be compared and tested. Functions, and paths
to many values, are refused there when the path is compiled. So a test takes the same work for any
message.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from jsonpath import JSONPathEnvironment, JSONPathError
from jsonpath.filter import (
    BaseExpression,
    FilterExpression,
    FilterExpressionLiteral,
    InfixExpression,
    Nil,
    PrefixExpression,
    RelativeFilterQuery,
    RootFilterQuery,
)
from jsonpath.path import JSONPath
from jsonpath.segments import JSONPathRecursiveDescentSegment, JSONPathSegment
from jsonpath.selectors import (
    Filter,
    IndexSelector,
    JSONPathSelector,
    NameSelector,
    SliceSelector,
    WildcardSelector,
)

from app.filtering.budget import Budget, PathError
from app.filtering.selection import spend_weight

# The maximum number of levels of lists and objects, one inside of the other, that `..` visits.
DEPTH_MAX: Final = 500


class _Missing:
    """The result of a path to a single value, if the document has no such value."""


_MISSING: Final = _Missing()
_ENVIRONMENT: Final = JSONPathEnvironment(strict=True)
# The types whose values may be large. Comparing two large values takes work.
_LARGE: Final = (str, dict, list)
# The units of work to compare one of the values that a large value consists of.
_COMPARING_WORK: Final = 1
# The units of work for each list or object that `..` visits. The work for its elements is counted
# separately.
_DESCENT_WORK: Final = 6
# The units of work for each value to which a key, a `*`, a slice or `[?...]` is applied.
_NODE_WORK: Final = 2
# The units of work for each comparison in `[?...]`.
_COMPARISON_WORK: Final = 4
# The units of work for each test in `[?...]` that checks whether a value exists.
_PRESENCE_WORK: Final = 1
# The number of keys in the paths of `[?...]` that can be read with one unit of work.
_KEYS_PER_WORK: Final = 4


class _Visit:
    """One evaluation of a path: the whole document, and the work that is left."""

    __slots__ = ("budget", "root", "spend")

    def __init__(self, root: object, budget: Budget) -> None:
        self.root = root
        self.budget = budget
        self.spend = budget.spend


_Step = Callable[[object, _Visit], Iterable[object]]
_Test = Callable[[object, _Visit], bool]
_Operand = Callable[[object, object], object]


class Path:
    """A compiled JSONPath.

    If the path is not valid, or not supported, its creation raises PathError.
    """

    __slots__ = ("_keys", "_segments")

    def __init__(self, text: str) -> None:
        parsed = _parsed(text)
        self._keys = _keys(parsed) if parsed.singular_query() else None
        self._segments = [_segment(segment) for segment in parsed.segments]

    def values(self, root: object, budget: Budget) -> list[object]:
        """Return the values that the path finds in `root`, in the order of the document.

        Raises:
            PathError: The document has too many levels.
            ExhaustedError: The evaluation takes too much work.
        """
        if self._keys is not None:
            value = _at(root, self._keys)
            return [] if value is _MISSING else [value]
        visit = _Visit(root, budget)
        found = [root]
        for segment in self._segments:
            found = [value for node in found for value in segment(node, visit)]
        return found


def _from_root(text: str) -> str:
    """Return the path with a `$` at its start.

    A path without `$` is read as Jayway reads it: `name` becomes `$.name`, and `.name` becomes
    `$..name`, which means a member of that name at any depth.
    """
    if text.startswith("@"):
        return f"${text[1:]}"
    if text.startswith("$"):
        return text
    return f"${text}" if text.startswith("[") else f"$.{text}"


def _parsed(text: str) -> JSONPath:
    path = _from_root(text.strip())
    try:
        parsed = _ENVIRONMENT.compile(path)
    except (JSONPathError, RecursionError, ValueError) as exc:
        # Take only the message of the error. str(exc) would add the position of the error, and
        # raises an error if there is no position.
        raise PathError(f"is not a JSONPath: {exc.args[0]}") from exc
    if not isinstance(parsed, JSONPath):
        raise PathError("must be one path")
    return parsed


def _keys(path: JSONPath) -> tuple[str | int, ...]:
    return tuple(_key(segment.selectors[0]) for segment in path.segments)


def _key(selector: JSONPathSelector) -> str | int:
    if isinstance(selector, NameSelector):
        return selector.name
    if isinstance(selector, IndexSelector):
        return selector.index
    raise PathError(f"{selector} is not supported")


def _at(node: object, keys: Iterable[str | int]) -> object:
    for key in keys:
        if isinstance(node, dict) and isinstance(key, str):
            node = node.get(key, _MISSING)
        elif isinstance(node, list) and isinstance(key, int) and -len(node) <= key < len(node):
            node = node[key]
        else:
            return _MISSING
    return node


def _segment(segment: JSONPathSegment) -> _Step:
    steps = [_selector(selector) for selector in segment.selectors]

    def of_children(node: object, visit: _Visit) -> Iterator[object]:
        for step in steps:
            yield from step(node, visit)

    def of_descendants(node: object, visit: _Visit) -> Iterator[object]:
        for below in _descendants(node, visit):
            yield from of_children(below, visit)

    deep = isinstance(segment, JSONPathRecursiveDescentSegment)
    return of_descendants if deep else of_children


def _descendants(node: object, visit: _Visit) -> Iterator[object]:
    """Yield `node` and all lists and objects in it, each before its content."""
    stack = [(node, 0)]
    while stack:
        current, depth = stack.pop()
        yield current
        children = _children(current)
        visit.spend(_DESCENT_WORK + len(children))
        containers = [(child, depth + 1) for child in children if isinstance(child, dict | list)]
        if containers and depth >= DEPTH_MAX:
            raise PathError(f"the message is nested deeper than {DEPTH_MAX} levels")
        stack.extend(reversed(containers))


def _children(node: object) -> list[object]:
    if isinstance(node, dict):
        return list(node.values())
    return node if isinstance(node, list) else []


def _selector(selector: JSONPathSelector) -> _Step:
    match selector:
        case NameSelector() | IndexSelector():
            return _single(_key(selector))
        case SliceSelector():
            return _sliced(selector.slice)
        case WildcardSelector():
            return _every
        case Filter():
            return _filtered(_test(selector.expression), 1 + _test_work(selector.expression))
        case _:
            raise PathError(f"{selector} is not supported")


def _single(key: str | int) -> _Step:
    keys = (key,)

    def step(node: object, visit: _Visit) -> Iterable[object]:
        visit.spend(_NODE_WORK)
        value = _at(node, keys)
        return () if value is _MISSING else (value,)

    return step


def _sliced(wanted: slice) -> _Step:
    def step(node: object, visit: _Visit) -> Iterable[object]:
        visit.spend(_NODE_WORK)
        if not isinstance(node, list) or wanted.step == 0:
            return ()
        found = node[wanted]
        visit.spend(len(found))
        return found

    return step


def _every(node: object, visit: _Visit) -> Iterable[object]:
    children = _children(node)
    visit.spend(_NODE_WORK + len(children))
    return children


def _filtered(test: _Test, work: int) -> _Step:
    def step(node: object, visit: _Visit) -> Iterable[object]:
        children = _children(node)
        visit.spend(_NODE_WORK + len(children) * work)
        return [child for child in children if test(child, visit)]

    return step


def _test_work(expression: BaseExpression) -> int:
    """Return the units of work of a condition in `[?...]`: for its comparisons, tests and keys."""
    path = getattr(expression, "path", None)
    if isinstance(path, JSONPath):
        return _PRESENCE_WORK + len(path.segments) // _KEYS_PER_WORK
    below = sum(map(_test_work, expression.children()))
    if isinstance(expression, InfixExpression) and expression.operator not in {"&&", "||"}:
        return _COMPARISON_WORK + below
    return below


def _test(expression: BaseExpression) -> _Test:
    """Return the condition in `[?...]` as a function of a value and the whole document."""
    match expression:
        case FilterExpression():
            return _test(expression.expression)
        case PrefixExpression(operator="!"):
            negated = _test(expression.right)
            return lambda node, visit: not negated(node, visit)
        case InfixExpression(operator="&&"):
            left, right = _test(expression.left), _test(expression.right)
            return lambda node, visit: left(node, visit) and right(node, visit)
        case InfixExpression(operator="||"):
            left, right = _test(expression.left), _test(expression.right)
            return lambda node, visit: left(node, visit) or right(node, visit)
        case InfixExpression():
            return _comparison(expression)
        case RelativeFilterQuery() | RootFilterQuery():
            operand = _operand(expression)
            return lambda node, visit: operand(node, visit.root) is not _MISSING
        case _:
            raise PathError(f"`{expression}` is not supported in [?...]")


def _comparison(expression: InfixExpression) -> _Test:
    left, right = _operand(expression.left), _operand(expression.right)
    compare: Callable[[Any, str, Any], bool] = _ENVIRONMENT.compare
    operator = expression.operator

    def test(node: object, visit: _Visit) -> bool:
        one, other = left(node, visit.root), right(node, visit.root)
        if isinstance(one, _LARGE) and isinstance(other, _LARGE):
            # Subtract work in proportion to the size of both values. For a value that is too large,
            # this raises an error before the whole value is counted.
            spend_weight(one, visit.budget, _COMPARING_WORK)
            spend_weight(other, visit.budget, _COMPARING_WORK)
        try:
            return compare(one, operator, other)
        except RecursionError as exc:
            raise PathError("the path compares what is nested too deep") from exc

    return test


def _operand(expression: BaseExpression) -> _Operand:
    match expression:
        case FilterExpressionLiteral():
            literal = expression.value
            return lambda _node, _root: literal
        case Nil():
            return lambda _node, _root: None
        case RelativeFilterQuery() | RootFilterQuery() if expression.path.singular_query():
            keys = _keys(expression.path)
            if isinstance(expression, RootFilterQuery):
                return lambda _node, root: _at(root, keys)
            return lambda node, _root: _at(node, keys)
        case _:
            raise PathError(f"`{expression}` is not supported in [?...]: use a path to one value")
