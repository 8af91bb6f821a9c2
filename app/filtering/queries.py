"""Compiles queries to functions that check whether a topic or subscription matches."""

from collections.abc import Callable, Mapping
from typing import Any, Final, assert_never

from app.domain.catalogue.query import (
    CombinedQuery,
    Junction,
    Operator,
    Query,
    QueryCondition,
    number_in,
)
from app.domain.errors import InvalidQueryError, ValidationFailedError
from app.filtering.regexes import Regexes

Read = Callable[[str], Any]
"""Returns the value of a field by its dotted path; None if there is none."""

Holds = Callable[[Read], bool]

_SCALARS: Final = (str, int, float)


def compiled(query: Query) -> Holds:
    """Return a function that checks whether a topic or subscription matches the query.

    Raises:
        InvalidQueryError: A regex is not valid, or the regexes take too long to compile.
    """
    return _compiled(query, Regexes())


def reader(resource: Mapping[str, Any]) -> Read:
    """Return a function that reads a field of `resource` by its path, such as `retention.days`.

    `resource` is a topic or subscription in the form of a response.
    """

    def read(path: str) -> Any:  # noqa: ANN401 - JSON can have any type
        found: Any = resource
        for name in path.split("."):
            found = found.get(name) if isinstance(found, Mapping) else None
        return found

    return read


def _compiled(query: Query, regexes: Regexes) -> Holds:
    match query:
        case QueryCondition():
            return _condition(query, regexes)
        case CombinedQuery(by=by, parts=parts):
            return _joined(by, [_compiled(part, regexes) for part in parts])
        case _:
            assert_never(query)


def _joined(by: Junction, parts: list[Holds]) -> Holds:
    match by:
        case Junction.AND:
            return lambda read: all(part(read) for part in parts)
        case Junction.OR:
            return lambda read: any(part(read) for part in parts)
        case Junction.NOT:
            return lambda read: not any(part(read) for part in parts)
        case _:
            assert_never(by)


def _condition(condition: QueryCondition, regexes: Regexes) -> Holds:
    path, wanted = condition.path, condition.value
    match condition.operator:
        case Operator.EQ:
            return lambda read: _same(read(path), wanted)
        case Operator.NE:
            return lambda read: not _same(read(path), wanted)
        case Operator.IN:
            return lambda read: any(_same(read(path), each) for each in wanted)
        case Operator.LIKE:
            return _like(path, wanted, regexes)
        case Operator.GT:
            return _ordered(path, wanted, lambda found, bound: found > bound)
        case Operator.LT:
            return _ordered(path, wanted, lambda found, bound: found < bound)
        case _:
            assert_never(condition.operator)


def _same(found: Any, wanted: Any) -> bool:  # noqa: ANN401 - JSON can have any type
    """Return whether two values are equal. If one of them is a text, both are compared as texts."""
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted or _text(found) == wanted or found == _text(wanted)
    if isinstance(found, str) != isinstance(wanted, str):
        return _text(found) is not None and _text(found) == _text(wanted)
    return bool(found == wanted)


def _like(path: str, pattern: str, regexes: Regexes) -> Holds:
    try:
        matches = regexes.compiled(pattern).is_match
    except ValidationFailedError as exc:
        raise InvalidQueryError(f"{path}: like {exc.details[0].message}") from exc

    def holds(read: Read) -> bool:
        text = _text(read(path))
        return text is not None and matches(text)

    return holds


def _ordered(path: str, wanted: object, compare: Callable[[float, float], bool]) -> Holds:
    bound = number_in(wanted)
    if bound is None:
        raise InvalidQueryError(f"{path}: must be compared with a number")

    def holds(read: Read) -> bool:
        found = number_in(read(path))
        return found is not None and compare(found, bound)

    return holds


def _text(value: object) -> str | None:
    """Return a text, number or boolean as text; None for other values."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, _SCALARS) else None
