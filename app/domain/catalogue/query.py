"""Queries over topics and subscriptions, in Hermes' language: conditions joined by and, or, not.

::

    {"query": {"name": {"like": ".*orders"}, "owner.id": "Shop", "or": [{…}, {…}]}}

Fields are dotted paths into the responses. All members of an object must match.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, assert_never

from app.domain.errors import InvalidQueryError

LEVELS_MAX: Final = 20
CONDITIONS_MAX: Final = 100
PATTERN_LENGTH_MAX: Final = 1_000

_QUERY: Final = "query"


class Operator(StrEnum):
    """How a field is compared. LIKE: a regex for the whole text. GT and LT: compare numbers."""

    EQ = "eq"
    NE = "ne"
    LIKE = "like"
    IN = "in"
    GT = "gt"
    LT = "lt"


class Junction(StrEnum):
    """How queries are joined."""

    AND = "and"
    OR = "or"
    NOT = "not"


_OPERATORS: Final = frozenset(each.value for each in Operator)
_JUNCTIONS: Final = frozenset(each.value for each in Junction)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryCondition:
    """A condition for one field of a response, which is compared with `value`.

    `path` is the dotted path of the field. For the operator IN, `value` is a list, and one of its
    values must be equal to the field.
    """

    path: str
    operator: Operator
    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class CombinedQuery:
    """A query that consists of several. All (AND), any (OR) or none (NOT) of them must match.

    An empty AND matches everything.
    """

    by: Junction
    parts: tuple["Query", ...]


Query = QueryCondition | CombinedQuery


def parsed_query(body: Mapping[str, Any]) -> Query:
    """Parse the query in a body `{"query": {…}}`.

    Raises:
        InvalidQueryError: The query is not valid.
    """
    requested = body.get(_QUERY)
    if not isinstance(requested, dict):
        raise InvalidQueryError('the body must be {"query": {…}}')
    query = _all_of(requested, level=1)
    if sum(1 for _ in _conditions(query)) > CONDITIONS_MAX:
        raise InvalidQueryError(f"must have at most {CONDITIONS_MAX} conditions")
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
    """Parse a value to compare with, or an object of operators that must all match."""
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
    """Return a value as a number, also a text of digits, because Hermes' metrics are texts.

    None for any other value.
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
