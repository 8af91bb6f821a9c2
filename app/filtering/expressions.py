"""Expressions over a message, in CEL: conditions of filters, and ids of publishers."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from app.domain.message import Message
from app.expressions import Condition, EvaluationError, Expression
from app.filtering.bodies import BodyError, ParsedBodies
from app.filtering.selection import Selection, WeightError, require_light

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


class MessageVariables:
    """What an expression sees of a message: only what it names, for each value has its price.

    `body` is its body as JSON and `text` the same as text; `headers` the propagated ones by their
    lower-case names, the first of each; `key` its Partition-Key, or empty; `id`, `topic`, and
    `timestamp`, when it was published, in milliseconds since the epoch.
    """

    __slots__ = ("_bodies", "_readers", "_selection")

    def __init__(self, expression: Expression, text: str, bodies: ParsedBodies) -> None:
        self._selection = Selection(text)
        self._bodies = bodies
        readers = {**_READERS, "body": self._body}
        self._readers = tuple((name, readers[name]) for name in sorted(expression.reads))

    def of(self, message: Message) -> dict[str, Any]:
        """The variables; EvaluationError when the body is no JSON, or too large to look at."""
        try:
            return {name: read(message) for name, read in self._readers}
        except (BodyError, WeightError) as exc:
            raise EvaluationError(str(exc)) from exc

    def _body(self, message: Message) -> object:
        return self._selection.of(self._bodies.of(message))


class MessageExpression:
    """An expression over a message, of any value."""

    __slots__ = ("_expression", "_variables")

    def __init__(self, text: str, *, path: str, bodies: ParsedBodies) -> None:
        """ValidationFailedError for the field `path`."""
        self._expression = Expression(text, path=path, variables=VARIABLES)
        self._variables = MessageVariables(self._expression, text, bodies)

    def value(self, message: Message) -> Any:  # noqa: ANN401 - CEL is of any type
        """Its value; EvaluationError when it has none for this message."""
        return self._expression.value(self._variables.of(message))


class MessageCondition:
    """An expression over a message that is true or false."""

    __slots__ = ("_condition", "_variables")

    def __init__(self, text: str, *, path: str, bodies: ParsedBodies) -> None:
        """ValidationFailedError for the field `path`."""
        self._condition = Condition(text, path=path, variables=VARIABLES)
        self._variables = MessageVariables(self._condition, text, bodies)

    def holds(self, message: Message) -> bool:
        """Whether it is true; EvaluationError when that cannot be said of this message."""
        return self._condition.holds(self._variables.of(message))


def checked_message_expression(text: str, *, path: str) -> str:
    """`text`, if it is an expression over a message; else ValidationFailedError for `path`."""
    Expression(text, path=path, variables=VARIABLES)
    return text


def _text(message: Message) -> str:
    body = message.body
    if body is None and message.unreadable:
        raise BodyError(message.problem)
    text = (body or b"").decode("utf-8", "replace")
    require_light(text)
    return text


def _headers(message: Message) -> dict[str, str]:
    # Reversed, so that of repeated ones the first is kept.
    return {
        name.decode("latin-1").lower(): value.decode("utf-8", "replace")
        for name, value in reversed(message.propagated)
    }


_READERS: Final[Mapping[str, Callable[[Message], object]]] = {
    "text": _text,
    "headers": _headers,
    "key": lambda message: (message.key or b"").decode("utf-8", "replace"),
    "id": lambda message: message.id.decode("utf-8", "replace"),
    "topic": lambda message: message.partition.topic,
    "timestamp": lambda message: message.published_ms,
}
