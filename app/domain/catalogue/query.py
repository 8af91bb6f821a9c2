"""Queries over topics and subscriptions, in the query language of Hermes.

::

    {"query": {"name": {"like": ".*orders"}, "owner.id": "Shop", "or": [{…}, {…}]}}

A query consists of conditions that are joined by and, or, not. The name of a condition is the
dotted path of a field in the API's responses. If an object has several conditions, all of them must
match.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, assert_never

from app.domain.errors import InvalidQueryError

LEVELS_MAX: Final = 20
CONDITIONS_MAX: Final = 100
PATTERN_LENGTH_MAX: Final = 1_000
# The maximum number of values in all `in` lists of a query. Each value is a condition in SQL.
VALUES_MAX: Final = 1_000

_QUERY: Final = "query"


class Operator(StrEnum):
    """How a field is compared with a value.

    LIKE: a regular expression must match the whole text. GT and LT: the field is compared as a
    number.
    """

    EQ = "eq"
    NE = "ne"
    LIKE = "like"
    IN = "in"
    GT = "gt"
    LT = "lt"


class Junction(StrEnum):
    """How several queries are joined to one query."""

    AND = "and"
    OR = "or"
    NOT = "not"


_OPERATORS: Final = frozenset(each.value for each in Operator)
_JUNCTIONS: Final = frozenset(each.value for each in Junction)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryCondition:
    """A condition: one field of a response is compared with `value`.

    `path` is the dotted path of the field. With the operator IN, `value` is a list, and the field
    must be equal to one item of the list.
    """

    path: str
    operator: Operator
    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class CombinedQuery:
    """A query that joins several queries (`parts`).

    AND: all of them must match. OR: at least one must match. NOT: none must match. An AND without
    parts matches everything.
    """

    by: Junction
    parts: tuple["Query", ...]


Query = QueryCondition | CombinedQuery


def parsed_query(body: Mapping[str, Any]) -> Query:
    """Parse the query in the body of a request. The body has the form `{"query": {…}}`.

    Raises:
        InvalidQueryError: The query is not valid.
    """
    requested = body.get(_QUERY)
    if not isinstance(requested, dict):
        raise InvalidQueryError('the body must be {"query": {…}}')
    query = _all_of(requested, level=1)
    if sum(1 for _ in _conditions(query)) > CONDITIONS_MAX:
        raise InvalidQueryError(f"must have at most {CONDITIONS_MAX} conditions")
    _require_few_values(query)
    return query


def paths_of(query: Query) -> frozenset[str]:
    """Return the dotted paths of all fields that the query uses."""
    return frozenset(condition.path for condition in _conditions(query))


def _conditions(query: Query) -> Iterator[QueryCondition]:
    match query:
        case QueryCondition():
            yield query
        case CombinedQuery(parts=parts):
            for part in parts:
                yield from _conditions(part)
        case _:
            assert_never(query)


def _require_few_values(query: Query) -> None:
    count = 0
    for condition in _conditions(query):
        if condition.operator is Operator.IN:
            count += len(condition.value)
            if count > VALUES_MAX:
                raise InvalidQueryError(
                    f"{condition.path}: in must have at most {VALUES_MAX:,} values, together with"
                    " all other in of the query"
                )


def _all_of(members: Mapping[str, Any], *, level: int) -> Query:
    if level > LEVELS_MAX:
        raise InvalidQueryError(f"must have at most {LEVELS_MAX} levels")
    parts = tuple(_member(name, value, level) for name, value in members.items())
    return parts[0] if len(parts) == 1 else CombinedQuery(by=Junction.AND, parts=parts)


def _member(name: str, value: object, level: int) -> Query:
    if name in _JUNCTIONS:
        below = _objects(name, value)
        return CombinedQuery(
            by=Junction(name), parts=tuple(_all_of(each, level=level + 1) for each in below)
        )
    return _field(name, value, level)


def _field(path: str, value: object, level: int) -> Query:
    """Parse the condition of the field `path`.

    `value` is a value to which the field must be equal, or an object of operators that must all
    match. `level` counts how deep the condition is inside other queries.
    """
    if not isinstance(value, dict):
        return QueryCondition(path=path, operator=Operator.EQ, value=value)
    if level > LEVELS_MAX:
        raise InvalidQueryError(f"must have at most {LEVELS_MAX} levels")
    parts = tuple(_compared(path, name, (each, level)) for name, each in value.items())
    return parts[0] if len(parts) == 1 else CombinedQuery(by=Junction.AND, parts=parts)


def _compared(path: str, name: str, operand: tuple[object, int]) -> Query:
    value, level = operand
    if name in _JUNCTIONS:
        below = value if isinstance(value, list) else [value]
        parts = tuple(_field(path, each, level + 1) for each in below)
        return CombinedQuery(by=Junction(name), parts=parts)
    if name not in _OPERATORS:
        raise InvalidQueryError(f"{path}: {name} is no operator; there are {_NAMES}")
    operator = Operator(name)
    _require_comparable(path, operator, value)
    return QueryCondition(path=path, operator=operator, value=value)


def _require_comparable(path: str, operator: Operator, value: object) -> None:
    match operator:
        case Operator.LIKE:
            fits = isinstance(value, str) and len(value) <= PATTERN_LENGTH_MAX
            wanted = f"a regex of at most {PATTERN_LENGTH_MAX} characters"
        case Operator.IN:
            fits, wanted = isinstance(value, list), "a list"
        case Operator.GT | Operator.LT:
            fits, wanted = number_in(value) is not None, "a number"
        case Operator.EQ | Operator.NE:
            return
        case _:
            assert_never(operator)
    if not fits:
        raise InvalidQueryError(f"{path}: {operator} must be {wanted}")


def number_in(value: object) -> float | None:
    """Return a value as a number; None if it is no number.

    A text of digits is also a number, because Hermes' metrics are texts.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _objects(name: str, value: object) -> Sequence[Mapping[str, Any]]:
    if name != Junction.NOT and not isinstance(value, list):
        raise InvalidQueryError(f"{name} must be a list of queries")
    below = value if isinstance(value, list) else [value]
    found = [each for each in below if isinstance(each, dict)]
    if not below or len(found) < len(below):
        raise InvalidQueryError(f"{name} must be made of objects, at least one")
    return found


_NAMES: Final = ", ".join((*Operator, *Junction))
