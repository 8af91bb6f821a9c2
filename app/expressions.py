"""Users' expressions in CEL (cel.dev), checked when they are set.

Expressions run on the event loops that deliver and publish for all users. So slow features are
refused: loops over lists, concatenation and regexes. The time of all other features is in
proportion to the size of the values that they read. Callers limit this size.
"""

import re
import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from app.domain.delivery import Answered
from app.domain.errors import ValidationFailedError

if TYPE_CHECKING:
    from cel import Program

LENGTH_MAX: Final = 1_000

_EXTENSION: Final = "cel.cel"

# The allowed functions, by the names that the CEL library gives them. Loops are not possible,
# because they need the functions `_+_` and `@not_strictly_false`, which are not allowed.
_FUNCTIONS: Final = {
    "_==_": "==",
    "_!=_": "!=",
    "_<_": "<",
    "_<=_": "<=",
    "_>_": ">",
    "_>=_": ">=",
    "_&&_": "&&",
    "_||_": "||",
    "!_": "!",
    "_?_:_": "?:",
    "_-_": "-",
    "-_": "-",
    "_*_": "*",
    "_/_": "/",
    "_%_": "%",
    "_[_]": "[]",
    "@in": "in",
    "contains": "contains",
    "startsWith": "startsWith",
    "endsWith": "endsWith",
    "size": "size",
    "int": "int",
    "double": "double",
    "string": "string",
}
_NO_DATAWEAVE: Final = (
    "must be CEL: `#[…]` is how Mule writes DataWeave; without `#[` and `]` most conditions on"
    " body and headers are CEL, too (docs/coming-from.md)"
)
_POSITION: Final = re.compile(r"ERROR: <input>:(\d+):(\d+): ([^\n]*)")
# The errors of the CEL library for a value that is missing, has the wrong type, or cannot be
# converted.
_EVALUATION_ERRORS: Final = (TypeError, ValueError, RuntimeError, LookupError, ArithmeticError)
# A sample response, on which a new condition is tried once, to check whether its value is true or
# false.
_ANSWER: Final[dict[str, Any]] = {"status": 200, "headers": {}, "body": ""}


def _extension() -> ModuleType:
    """Import only the compiled part of the CEL library, when the first expression is created.

    The whole package would also import a terminal program, which takes 100 ms of CPU and 12 MB.
    """
    if _EXTENSION not in sys.modules:
        package = find_spec("cel")
        folders = None if package is None else package.submodule_search_locations
        found = PathFinder.find_spec(_EXTENSION, folders)
        if found is None or found.loader is None:
            raise ImportError("common-expression-language is not installed, or not as it was")
        module = sys.modules[_EXTENSION] = module_from_spec(found)
        found.loader.exec_module(module)
    return sys.modules[_EXTENSION]


class EvaluationError(Exception):
    """An expression has no value, or no value of the required kind.

    The error's text has the reason.
    """


class Expression:
    """A compiled CEL expression. `reads` has the names of the variables that it uses."""

    __slots__ = ("_program", "reads")

    def __init__(self, text: str, *, path: str, variables: dict[str, Any]) -> None:
        """Compile the expression; `variables` has an example of each possible variable.

        Raises:
            ValidationFailedError: The text is not CEL (field `path`); the error has the position.
        """
        self._program = _compiled(text, path)
        _require_known(self._program, path, tuple(variables))
        self.reads = frozenset(self._program.variables())

    def value(self, values: dict[str, Any]) -> Any:  # noqa: ANN401 - CEL can have any type
        """Return the expression's value for these variables.

        Raises:
            EvaluationError: The expression has no value.
        """
        try:
            return self._program.execute(values)
        except _EVALUATION_ERRORS as exc:
            raise EvaluationError(_reason(exc)) from exc


class Condition(Expression):
    """An expression that is true or false."""

    __slots__ = ()

    def __init__(self, text: str, *, path: str, variables: dict[str, Any]) -> None:
        super().__init__(text, path=path, variables=variables)
        try:
            self.holds(variables)
        except EvaluationError as exc:
            # An error without a cause means that the expression has a value, but the value is
            # neither true nor false.
            if exc.__cause__ is None:
                raise ValidationFailedError.of(path, "must be true or false") from exc

    def holds(self, values: dict[str, Any]) -> bool:
        """Return whether the condition is true for these variables.

        Raises:
            EvaluationError: The condition has no value.
        """
        value = self.value(values)
        if not isinstance(value, bool):
            raise EvaluationError(f"is {type(value).__name__}, not true or false")
        return value


class AnswerCondition(Condition):
    """A condition on a response. Its variables are `status`, `headers` and `body`.

    `headers` has the headers by their names in lower case. `body` is a text.
    """

    __slots__ = ()

    def __init__(self, text: str, *, path: str) -> None:
        super().__init__(text, path=path, variables=_ANSWER)

    def is_true(self, answer: Answered) -> bool:
        """Return whether the condition is true for a response.

        Raises:
            EvaluationError: The condition has no value for this response.
        """
        return self.holds(
            {
                "status": answer.status,
                "headers": {name.lower(): value for name, value in answer.headers.items()},
                "body": answer.body.decode("utf-8", "replace"),
            }
        )


def checked_expression(text: str, *, path: str) -> str:
    """Return `text`, if it is a condition on a response.

    Raises:
        ValidationFailedError: The text is not a condition on a response (field `path`).
    """
    AnswerCondition(text, path=path)
    return text


def _compiled(text: str, path: str) -> "Program":
    if not 1 <= len(text) <= LENGTH_MAX:
        raise ValidationFailedError.of(path, f"must be 1 to {LENGTH_MAX} characters")
    if "\0" in text:
        raise ValidationFailedError.of(path, "must be without zero characters")
    if text.lstrip().startswith("#["):
        raise ValidationFailedError.of(path, _NO_DATAWEAVE)
    try:
        program: Program = _extension().compile(text)
    except ValueError as exc:
        raise ValidationFailedError.of(path, _located(str(exc))) from exc
    return program


def _located(error: str) -> str:
    found = _POSITION.search(error)
    if found is None:
        return "is not a CEL expression"
    line, column, problem = found.groups()
    if "Recursion limit" in problem:
        problem = "is nested too deep"
    return f"line {line}, column {column}: {problem}"


def _require_known(program: "Program", path: str, variables: tuple[str, ...]) -> None:
    for name in program.variables():
        if name not in variables:
            known = ", ".join(variables)
            raise ValidationFailedError.of(path, f"names {name}; there are {known}, and no loops")
    for name in program.functions():
        if name not in _FUNCTIONS:
            known = " ".join(dict.fromkeys(_FUNCTIONS.values()))
            raise ValidationFailedError.of(path, f"may only use {known}; and no loops")


def _reason(exc: Exception) -> str:
    """Return the reason in an error of the CEL library, without the advice that is in it."""
    if isinstance(exc, KeyError):
        return f"there is no {exc}"
    return str(exc).partition(". ")[0].partition(": the operation")[0]
