"""Finds the names of headers in expressions and filters, and checks these names.

It is an error if messages of the topic can never have one of these headers.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from app.domain.catalogue.dead_letter import HEADERS_PREFIX
from app.domain.catalogue.filters import Filter, FilterType
from app.domain.errors import FieldProblem, ValidationFailedError

# Headers that messages can have in any topic: headers of the trace context, and CloudEvents
# attributes.
_ALWAYS: Final = frozenset({"traceparent", "tracestate"})
_ALWAYS_PREFIX: Final = "ce-"
# The prefix of the headers that say why another subscription discarded a message. Dead letters have
# such headers.
_LETTERS_PREFIX: Final = HEADERS_PREFIX.lower()
_TEXT: Final = r"""(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
# Finds the names of headers in an expression. The pattern also matches texts, functions of
# `headers`, and members of the body with the name `headers`, so that no header name is found inside
# of these.
_NAMED: Final = re.compile(
    r"\.\s*headers\b"
    rf"|\bheaders\s*\[\s*(?P<index>{_TEXT})\s*\]"
    r"|\bheaders\s*\.\s*\w+\s*\("
    r"|\bheaders\s*\.\s*(?P<member>\w+)"
    rf"|(?P<key>{_TEXT})\s*\bin\s+headers\b"
    rf"|{_TEXT}"
)


def require_propagated(expression: str, propagated: Collection[str], *, path: str) -> None:
    """Check that messages of a topic can have all headers that an expression names.

    `propagated` is the topic's `propagatedHeaders`.

    Raises:
        ValidationFailedError: Messages cannot have one of the headers (field `path`).
    """
    if problem := _problem(expression, _known(propagated), (_ALWAYS_PREFIX,)):
        raise ValidationFailedError.of(path, problem)


def require_filterable(filters: Sequence[Filter], propagated: Collection[str]) -> None:
    """Check that messages of a topic can have all headers that the filters name.

    `propagated` is the topic's `propagatedHeaders`. The headers of dead letters are allowed, too.

    Raises:
        ValidationFailedError: Messages cannot have some of the headers.
    """
    known, problems = _known(propagated), []
    prefixes = (_ALWAYS_PREFIX, _LETTERS_PREFIX)
    for index, each in enumerate(filters):
        path, problem = "expression", _problem(each.expression, known, prefixes)
        if each.type is FilterType.HEADER and not _is_known(each.header, known, prefixes):
            path, problem = "header", _unknown(each.header)
        if problem is not None:
            problems.append(FieldProblem(path=f"filters.{index}.{path}", message=problem))
    if problems:
        raise ValidationFailedError(problems)


def headers_named(filters: Sequence[Filter]) -> frozenset[str]:
    """Return the names of the headers that the filters name, in lower case."""
    named = {each.header.lower() for each in filters if each.type is FilterType.HEADER}
    for each in filters:
        named.update(name.lower() for name in _names(each.expression))
    return frozenset(named)


def _known(propagated: Collection[str]) -> frozenset[str]:
    return frozenset(name.lower() for name in propagated) | _ALWAYS


def _is_known(name: str, known: Collection[str], prefixes: tuple[str, ...]) -> bool:
    return name.lower() in known or name.lower().startswith(prefixes)


def _problem(expression: str, known: Collection[str], prefixes: tuple[str, ...]) -> str | None:
    for name in _names(expression):
        if not _is_known(name, known, prefixes):
            return _unknown(name)
        if name != name.lower():
            return f"names the header {name}: names are in lower case here, {name.lower()}"
    return None


def _unknown(name: str) -> str:
    return f"names the header {name}, which propagatedHeaders of the topic must have, too"


def _names(expression: str) -> Iterator[str]:
    for found in _NAMED.finditer(expression):
        if text := found["index"] or found["key"]:
            yield text[1:-1]
        elif found["member"]:
            yield found["member"]
