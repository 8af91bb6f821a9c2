"""CEL expressions over a message: conditions of filters, and ids that publishers choose."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from app.domain.message import Message
from app.expressions import Condition, EvaluationError, Expression
from app.filtering.bodies import ParsedBodies
from app.filtering.budget import BodyError, Budget
from app.filtering.selection import BodySelection, spend_weight

# The variables of an expression, each with the value that it has for an empty message.
VARIABLES: Final[dict[str, Any]] = {
    "body": {},
    "text": "",
    "headers": {},
    "key": "",
    "id": "",
    "topic": "",
    "timestamp": 0,
}

# The variables of an expression whose values may be large.
_HEAVY: Final = frozenset({"body", "text", "headers", "key", "id"})
# Finds each use of a variable with a large value in the text of an expression.
_NAMED: Final = re.compile(rf"\b(?:{'|'.join(_HEAVY)})\b")
# The work to pass all variables to an expression, in units of a budget.
_HANDING_WORK: Final = 7
# The number of bytes of a body that one unit of work can decode to text.
_BYTES_PER_WORK: Final = 512


class MessageVariables:
    """The values of the variables that an expression uses, for a message.

    Variables that the expression does not use are left out, because each takes work.

    * `body`: the message's body as JSON.
    * `text`: the body as text.
    * `headers`: the propagated headers, by their names in lower case. If a header is repeated, the
      first one counts.
    * `key`: the partition key, or an empty text.
    * `id`, `topic`: the message's id, and the name of its topic.
    * `timestamp`: the time of publication in milliseconds since the epoch.
    """

    __slots__ = ("_bodies", "_readers", "_selection", "_work")

    def __init__(self, expression: Expression, text: str, bodies: ParsedBodies) -> None:
        self._selection = BodySelection(text)
        # Count each use of a variable in the expression, because CEL copies and reads the whole
        # value for each use.
        self._work = _HANDING_WORK + len(_NAMED.findall(text))
        self._bodies = bodies
        readers = {**_READERS, "body": self._body}
        self._readers = tuple((name, readers[name]) for name in sorted(expression.reads))

    def of(self, message: Message, budget: Budget) -> dict[str, Any]:
        """Return the variables with their values for the message.

        Raises:
            EvaluationError: The body is not JSON, or takes too much work.
        """
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
    """An expression over a message. Its value may have any type."""

    __slots__ = ("_expression", "_variables")

    def __init__(self, text: str, *, path: str, bodies: ParsedBodies) -> None:
        """Compile the expression.

        Raises:
            ValidationFailedError: The expression is not valid (field `path`).
        """
        self._expression = Expression(text, path=path, variables=VARIABLES)
        self._variables = MessageVariables(self._expression, text, bodies)

    def value(self, message: Message, budget: Budget) -> Any:  # noqa: ANN401 - CEL is of any type
        """Return the expression's value for the message.

        Raises:
            EvaluationError: The expression has no value for this message.
        """
        return self._expression.value(self._variables.of(message, budget))


class MessageCondition:
    """An expression over a message that must be true or false."""

    __slots__ = ("_condition", "_variables")

    def __init__(self, text: str, *, path: str, bodies: ParsedBodies) -> None:
        """Compile the expression.

        Raises:
            ValidationFailedError: The expression is not valid (field `path`).
        """
        self._condition = Condition(text, path=path, variables=VARIABLES)
        self._variables = MessageVariables(self._condition, text, bodies)

    def holds(self, message: Message, budget: Budget) -> bool:
        """Return whether the condition is true for the message.

        Raises:
            EvaluationError: The condition has no value for this message.
        """
        return self._condition.holds(self._variables.of(message, budget))


def checked_message_expression(text: str, *, path: str) -> str:
    """Return `text` unchanged, if it is an expression over a message.

    Raises:
        ValidationFailedError: The text is not an expression over a message (field `path`).
    """
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
    # Go through the headers in reverse, so that the first of repeated headers is kept.
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
