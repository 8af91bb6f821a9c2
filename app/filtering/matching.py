"""Filters of a subscription, compiled: whether it wants a message."""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import re2

from app.domain.errors import FieldProblem, ValidationFailedError
from app.domain.filters import Filter, FilterType, MatchingStrategy
from app.domain.message import Message
from app.expressions import EvaluationError
from app.filtering.bodies import BodyError, ParsedBodies
from app.filtering.expressions import MessageCondition
from app.filtering.paths import Path, PathError
from app.filtering.texts import text_of

# RE2 is linear in the text, with a factor of the program's size: this bounds that factor.
_REGEX_MEMORY_MAX: Final = 1 << 18
# Whole texts up to this length are remembered with their answer: most fields have few values.
_REMEMBERED_LENGTH_MAX: Final = 128
_REMEMBERED_MAX: Final = 512


class Verdict(NamedTuple):
    """Whether a message is wanted; `error` says what kept a filter from looking at it."""

    wanted: bool
    error: str | None = None


WANTED: Final = Verdict(wanted=True)
UNWANTED: Final = Verdict(wanted=False)

_Condition = Callable[[Message], Verdict]


class FilterChain:
    """All filters of a subscription: a message is wanted if every one of them matches.

    As in Hermes, a path without a result, a header that is missing and an error of any kind mean
    that the message is not wanted, and so does an expression without a value. Headers are found
    whatever the case of their names. Filters are checked when they are created (`check_filters`):
    one that cannot be compiled all the same wants nothing, and `problem` says why.
    """

    def __init__(self, filters: Sequence[Filter], bodies: ParsedBodies) -> None:
        self._conditions, problems = _compiled(filters, bodies)
        self.problem = "; ".join(f"{problem.path} {problem.message}" for problem in problems)
        if problems:
            unusable = Verdict(wanted=False, error=self.problem)
            self._conditions.insert(0, lambda _: unusable)

    def judge(self, message: Message) -> Verdict:
        """Whether the message is wanted. Never raises."""
        for condition in self._conditions:
            verdict = condition(message)
            if not verdict.wanted:
                # Whether it is wanted cannot be said: it is discarded, and that with its reason.
                return WANTED if verdict.error and message.unreadable else verdict
        return WANTED


def check_filters(filters: Sequence[Filter]) -> None:
    """ValidationFailedError if any of them cannot be compiled, naming each."""
    _, problems = _compiled(filters, ParsedBodies())
    if problems:
        raise ValidationFailedError(problems)


def _compiled(
    filters: Sequence[Filter], bodies: ParsedBodies
) -> tuple[list[_Condition], list[FieldProblem]]:
    conditions: list[_Condition] = []
    problems: list[FieldProblem] = []
    for index, each in enumerate(filters):
        try:
            conditions.append(_condition(each, bodies))
        except ValidationFailedError as exc:
            problems += [
                FieldProblem(path=f"filters.{index}.{item.path}", message=item.message)
                for item in exc.details
            ]
    return conditions, problems


def _condition(each: Filter, bodies: ParsedBodies) -> _Condition:
    if each.type is FilterType.CEL:
        return _expression_condition(
            MessageCondition(each.expression, path="expression", bodies=bodies)
        )
    matches = full_match(each.matcher)
    if each.type is FilterType.HEADER:
        return _header_condition(each.header, matches)
    try:
        path = Path(each.path)
    except PathError as exc:
        raise ValidationFailedError.of("path", str(exc)) from exc
    every = each.matching_strategy is MatchingStrategy.ALL
    return _path_condition(path, bodies, _all_match(matches) if every else _any_matches(matches))


def _expression_condition(expression: MessageCondition) -> _Condition:
    def condition(message: Message) -> Verdict:
        try:
            return WANTED if expression.holds(message) else UNWANTED
        except EvaluationError as exc:
            return Verdict(wanted=False, error=str(exc))

    return condition


def _header_condition(header: str, matches: Callable[[str], bool]) -> _Condition:
    wanted = header.lower().encode("latin-1", "replace")

    def condition(message: Message) -> Verdict:
        for name, value in message.propagated:
            if name.lower() == wanted:
                return WANTED if matches(value.decode("utf-8", "replace")) else UNWANTED
        return UNWANTED

    return condition


def _path_condition(
    path: Path, bodies: ParsedBodies, agree: Callable[[Iterable[object]], bool]
) -> _Condition:
    def condition(message: Message) -> Verdict:
        try:
            found = path.values(bodies.of(message))
            return WANTED if found and agree(found) else UNWANTED
        except (BodyError, PathError) as exc:
            return Verdict(wanted=False, error=str(exc))

    return condition


def _all_match(matches: Callable[[str], bool]) -> Callable[[Iterable[object]], bool]:
    return lambda values: all(matches(_text(value)) for value in values)


def _any_matches(matches: Callable[[str], bool]) -> Callable[[Iterable[object]], bool]:
    return lambda values: any(matches(_text(value)) for value in values)


def _text(value: Any) -> str:  # noqa: ANN401 - JSON is of any type
    """A value as the text to match; numbers, objects and lists as JSON writes them."""
    if value is None:
        # Hermes' matcher breaks on a null, which filters the message out.
        raise PathError("the path finds a null, which matches nothing")
    return text_of(value)


def full_match(pattern: str) -> Callable[[str], bool]:
    """Whether a whole text matches; ValidationFailedError for `matcher`."""
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = _REGEX_MEMORY_MAX
    try:
        fullmatch = re2.compile(pattern, options=options).fullmatch
    except re2.error as exc:
        problem = exc.args[0].decode() if isinstance(exc.args[0], bytes) else exc
        raise ValidationFailedError.of("matcher", f"is not a regex of RE2: {problem}") from exc
    remembered = lru_cache(maxsize=_REMEMBERED_MAX)(lambda text: fullmatch(text) is not None)
    return lambda text: (
        remembered(text) if len(text) <= _REMEMBERED_LENGTH_MAX else fullmatch(text) is not None
    )
