"""Expressions of subscribers over an answer, in CEL (cel.dev): checked when they are given.

They run on the loop that delivers for everybody, so what could take long is refused: loops over
lists, concatenation and regexes. What is left takes time in proportion to the body, which is
bounded.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from cel import Program
from cel import compile as compile_cel

from app.domain.delivery import Answered
from app.domain.errors import ValidationFailedError

LENGTH_MAX: Final = 1_000

_VARIABLES: Final = ("status", "headers", "body")
# As the library calls them; the loops are made of others: `_+_` and `@not_strictly_false`.
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
_POSITION: Final = re.compile(r"ERROR: <input>:(\d+):(\d+): ([^\n]*)")
# What the library raises when a value has the wrong type, is missing, or cannot be converted.
_EVALUATION_ERRORS: Final = (TypeError, ValueError, RuntimeError, KeyError, ArithmeticError)


class Expression:
    """A condition on an answer: `status`, `headers` by their lower-case names, `body` as text."""

    def __init__(self, text: str, *, path: str) -> None:
        """ValidationFailedError for the field `path`, with the position if it is no CEL."""
        self._program = _compiled(text, path)

    def is_true(self, answer: Answered) -> bool:
        """Whether it is; EvaluationError when that cannot be said of this answer."""
        values = {
            "status": answer.status,
            "headers": {name.lower(): value for name, value in answer.headers.items()},
            "body": answer.body.decode("utf-8", "replace"),
        }
        return _value(self._program, values)


class EvaluationError(Exception):
    """An expression has no value, or none that is true or false."""


def checked_expression(text: str, *, path: str) -> str:
    """`text`, if it is an expression over an answer; else ValidationFailedError for `path`."""
    Expression(text, path=path)
    return text


def _compiled(text: str, path: str) -> Program:
    if not 1 <= len(text) <= LENGTH_MAX:
        raise ValidationFailedError.of(path, f"must be 1 to {LENGTH_MAX} characters")
    try:
        program = compile_cel(text)
    except ValueError as exc:
        raise ValidationFailedError.of(path, _located(str(exc))) from exc
    _require_known(program, path)
    _require_condition(program, path)
    return program


def _located(error: str) -> str:
    found = _POSITION.search(error)
    if found is None:
        return "is not a CEL expression"
    line, column, problem = found.groups()
    return f"line {line}, column {column}: {problem}"


def _require_known(program: Program, path: str) -> None:
    for name in program.variables():
        if name not in _VARIABLES:
            known = ", ".join(_VARIABLES)
            raise ValidationFailedError.of(path, f"names {name}; there are {known}, and no loops")
    for name in program.functions():
        if name not in _FUNCTIONS:
            known = " ".join(_FUNCTIONS.values())
            raise ValidationFailedError.of(path, f"may only use {known}; and no loops")


def _require_condition(program: Program, path: str) -> None:
    """Refuse what has another value than true or false for an empty answer."""
    try:
        _value(program, {"status": 200, "headers": {}, "body": ""})
    except EvaluationError as exc:
        if exc.__cause__ is None:
            raise ValidationFailedError.of(path, "must be true or false") from exc


def _value(program: Program, values: Mapping[str, Any]) -> bool:
    try:
        value = program.execute(dict(values))
    except _EVALUATION_ERRORS as exc:
        raise EvaluationError(str(exc)) from exc
    if not isinstance(value, bool):
        message = f"is {type(value).__name__}, not true or false"
        raise EvaluationError(message)
    return value
