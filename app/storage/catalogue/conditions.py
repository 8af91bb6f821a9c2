"""Converts queries over topics and subscriptions to SQL conditions.

The SQL condition of a query is true for all table rows that match the query. An exact condition is
true for no other rows. Some queries cannot be written exactly in SQL (with a regex, a number in a
text, or a field without a column). Their condition may be true for further rows, so the caller
checks the found rows again.
"""

import math
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, assert_never

from sqlalchemy import (
    ColumnElement,
    Double,
    Text,
    and_,
    cast,
    false,
    func,
    literal,
    not_,
    or_,
    true,
)

from app.domain.catalogue.query import (
    CombinedQuery,
    Junction,
    Operator,
    Query,
    QueryCondition,
    number_in,
)
from app.storage.catalogue.columns import Column, Columns, Of

_ESCAPE: Final = "/"
_TOKEN: Final = re.compile(r"(\\.|.)([*+?]*)", re.DOTALL)
_ANY: Final = "%"
# The special characters of regexes that cannot be written in a pattern of SQL's LIKE.
_INTRICATE: Final = frozenset("()[]{}|")
_GAPS: Final = frozenset(".^$*+?")
_ZERO: Final = "\0"
_RATE_ERROR: Final = 1e-9
# An integer below this limit can be converted to a float without a change of its value.
_EXACT_MAX: Final = 1 << 53


class Narrowing(NamedTuple):
    """An SQL condition for a query. `where` is true for all rows that match, and is never null.

    If `exact` is true, `where` is false for all rows that do not match. Otherwise, `where` may be
    true for some rows that do not match.
    """

    where: ColumnElement[bool]
    exact: bool


_ALL: Final = Narrowing(true(), exact=False)
_NONE: Final = Narrowing(false(), exact=True)


def narrowed(query: Query, columns: Columns) -> Narrowing:
    """Return the SQL condition for the query. `columns` has the SQL of the fields."""
    match query:
        case QueryCondition():
            return _condition(query, columns)
        case CombinedQuery(by=by, parts=parts):
            return _joined(by, [narrowed(part, columns) for part in parts])
        case _:
            assert_never(query)


def _joined(by: Junction, parts: Sequence[Narrowing]) -> Narrowing:
    exact = all(part.exact for part in parts)
    match by:
        case Junction.AND:
            return Narrowing(and_(true(), *(part.where for part in parts)), exact)
        case Junction.OR:
            return Narrowing(or_(false(), *(part.where for part in parts)), exact)
        case Junction.NOT:
            # Negate only exact conditions. Other conditions are true for too many rows, so their
            # negation would leave out rows that match the query.
            denied = (not_(part.where) for part in parts if part.exact)
            return Narrowing(and_(true(), *denied), exact)
        case _:
            assert_never(by)


def _condition(condition: QueryCondition, columns: Columns) -> Narrowing:
    column, wanted = columns.get(condition.path), condition.value
    if column is None:
        return _ALL
    match condition.operator:
        case Operator.EQ:
            return _equal(column, wanted)
        case Operator.NE:
            return _joined(Junction.NOT, [_equal(column, wanted)])
        case Operator.IN:
            return _joined(Junction.OR, [_equal(column, each) for each in wanted])
        case Operator.LIKE:
            return _like(column, wanted)
        case Operator.GT | Operator.LT:
            return _ordered(column, condition.operator, wanted)
        case _:
            assert_never(condition.operator)


def _equal(column: Column, wanted: Any) -> Narrowing:  # noqa: ANN401 - JSON can have any type
    if wanted is None:
        return Narrowing(column.sql.is_(None), exact=True)
    match column.of:
        case Of.TEXT:
            return _text_is(column.sql, _text(wanted))
        case Of.FLAG:
            return _flag_is(column, wanted)
        case Of.INTEGER if isinstance(wanted, str):
            return _text_is(cast(column.sql, Text), wanted)
        case _ if type(wanted) in {int, float}:
            return _number_is(column, wanted)
        case _:
            # Let Python compare a number with a fraction to a text. SQL cannot do this, because it
            # does not write such numbers in the same form as Python.
            return _ALL if isinstance(wanted, str) else _NONE


def _number_is(column: Column, wanted: float) -> Narrowing:
    if abs(wanted) >= _EXACT_MAX:
        return _ALL
    if column.of is Of.RATE:
        near = func.abs(column.sql - literal(float(wanted), Double)) <= _slack(wanted)
        return Narrowing(_known(near).where, exact=False)
    # Give the number in the query the type of a float. With the type of an integer column, 8.5
    # would be rounded.
    return _known(column.sql == literal(float(wanted), Double))


def _flag_is(column: Column, wanted: object) -> Narrowing:
    text = _text(wanted) if isinstance(wanted, bool | str) else None
    if text not in {"true", "false"}:
        return _NONE
    return _known(column.sql if text == "true" else not_(column.sql))


def _text_is(expression: Any, wanted: str | None) -> Narrowing:  # noqa: ANN401 - any expression of SQLAlchemy
    # Match no rows for a text with a zero character. The database cannot store this character, and
    # refuses it in a query.
    if wanted is None or _ZERO in wanted:
        return _NONE
    return _known(expression == wanted)


def _text(value: object) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else None


def _like(column: Column, regex: str) -> Narrowing:
    pattern = like_pattern(regex)
    if column.of is not Of.TEXT or pattern is None:
        return _ALL
    if _ZERO in pattern:
        return _NONE
    return Narrowing(_known(column.sql.like(pattern, escape=_ESCAPE)).where, exact=False)


def like_pattern(regex: str) -> str | None:
    """Return a pattern for SQL's LIKE that matches at least the texts that `regex` matches.

    The result is None if no useful pattern is found.
    """
    parts: list[str] = []
    for atom, times in _TOKEN.findall(regex):
        if atom in _INTRICATE or (len(atom) > 1 and atom[1].isalnum()) or atom == "\\":
            return None
        if atom in _GAPS or "*" in times or "?" in times:
            parts.append(_ANY)
            continue
        literal = atom[-1]
        parts.append(f"{_ESCAPE}{literal}" if literal in {_ESCAPE, "%", "_"} else literal)
        if times:
            parts.append(_ANY)
    pattern = "".join(parts)
    return pattern if pattern.strip(_ANY) else None


def _ordered(column: Column, operator: Operator, wanted: object) -> Narrowing:
    if column.of is Of.FLAG:
        return _NONE
    bound = number_in(wanted)
    if column.of is Of.TEXT or bound is None or not math.isfinite(bound):
        return _ALL
    above = operator is Operator.GT
    slack = _slack(bound) if column.of is Of.RATE else 0.0
    limit = literal(bound - slack if above else bound + slack, Double)
    ordered = _known(column.sql > limit if above else column.sql < limit)
    return Narrowing(ordered.where, exact=column.of is not Of.RATE)


def _slack(value: float) -> float:
    """Return the largest rounding error that a rate of about `value` may have."""
    return max(1.0, abs(value)) * _RATE_ERROR


def _known(condition: Any) -> Narrowing:  # noqa: ANN401 - any expression of SQLAlchemy
    """Return an exact condition. If a value is missing, the condition is false instead of null."""
    return Narrowing(func.coalesce(condition, false()), exact=True)
