"""Expressions over a message, in CEL: conditions of filters, and ids of publishers."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from app.domain.message import Message
from app.expressions import Condition, EvaluationError, Expression
from app.filtering.bodies import ParsedBodies
from app.filtering.budget import BodyError, Budget
from app.filtering.selection import BodySelection, spend_weight

# Each variable, as it is of an empty message.
VARIABLES: Final[dict[str, Any]] = {
    "body": {},
    "text": "",
    "headers": {},
    "key": "",
    "id": "",
    "topic": "",
    "timestamp": 0,
}

# Those that may be large.
_HEAVY: Final = frozenset({"body", "text", "headers", "key", "id"})
_NAMED: Final = re.compile(rf"\b(?:{'|'.join(_HEAVY)})\b")
_HANDING_WORK: Final = 7
# Bytes that are decoded by one step of work.
_BYTES_PER_WORK: Final = 512


class MessageVariables:
    """What an expression sees of a message: only what it names, for each value has its price.

    `body` is its body as JSON and `text` the same as text; `headers` the propagated ones by their
    lower-case names, the first of each; `key` its Partition-Key, or empty; `id`, `topic`, and
    `timestamp`, when it was published, in milliseconds since the epoch.
    """

    __slots__ = ("_bodies", "_readers", "_selection", "_work")

    def __init__(self, expression: Expression, text: str, bodies: ParsedBodies) -> None:
        self._selection = BodySelection(text)
        # Each value is handed over, and looked at as often as it is named.
        self._work = _HANDING_WORK + len(_NAMED.findall(text))
        self._bodies = bodies
        readers = {**_READERS, "body": self._body}
        self._readers = tuple((name, readers[name]) for name in sorted(expression.reads))

    def of(self, message: Message, budget: Budget) -> dict[str, Any]:
        """The variables; EvaluationError when the body is no JSON, or too much to look at."""
        try:
            values = {name: read(message, budget) for name, read in self._readers}
            for name in _HEAVY & values.keys():
                spend_weight(values[name], budget, self._work)
        except BodyError as exc:
            raise EvaluationError(str(exc)) from exc
        return values

    def _body(self, message: Message, budget: Budget) -> object:
        return self._selection.of(self._bodies.of(message, budget))


class MessageExpression:
    """An expression over a message, of any value."""

    __slots__ = ("_expression", "_variables")

    def __init__(self, text: str, *, path: str, bodies: ParsedBodies) -> None:
        """ValidationFailedError for the field `path`."""
        self._expression = Expression(text, path=path, variables=VARIABLES)
        self._variables = MessageVariables(self._expression, text, bodies)

    def value(self, message: Message, budget: Budget) -> Any:  # noqa: ANN401 - CEL is of any type
        """Its value; EvaluationError when it has none for this message."""
        return self._expression.value(self._variables.of(message, budget))


class MessageCondition:
    """An expression over a message that is true or false."""

    __slots__ = ("_condition", "_variables")

    def __init__(self, text: str, *, path: str, bodies: ParsedBodies) -> None:
        """ValidationFailedError for the field `path`."""
        self._condition = Condition(text, path=path, variables=VARIABLES)
        self._variables = MessageVariables(self._condition, text, bodies)

    def holds(self, message: Message, budget: Budget) -> bool:
        """Whether it is true; EvaluationError when that cannot be said of this message."""
        return self._condition.holds(self._variables.of(message, budget))


def checked_message_expression(text: str, *, path: str) -> str:
    """`text`, if it is an expression over a message; else ValidationFailedError for `path`."""
    Expression(text, path=path, variables=VARIABLES)
    return text


def _text(message: Message, budget: Budget) -> str:
    body = message.body
    if body is None and message.unreadable:
        raise BodyError(message.problem)
    budget.spend(len(body or b"") // _BYTES_PER_WORK)
    return (body or b"").decode("utf-8", "replace")


def _headers(message: Message, budget: Budget) -> dict[str, str]:
    budget.spend(2 * len(message.propagated))
    # Reversed, so that of repeated ones the first is kept.
    return {
        name.decode("latin-1").lower(): value.decode("utf-8", "replace")
        for name, value in reversed(message.propagated)
    }


_READERS: Final[Mapping[str, Callable[[Message, Budget], object]]] = {
    "text": _text,
    "headers": _headers,
    "key": lambda message, _: (message.key or b"").decode("utf-8", "replace"),
    "id": lambda message, _: message.id.decode("utf-8", "replace"),
    "topic": lambda message, _: message.partition.topic,
    "timestamp": lambda message, _: message.published_ms,
}
