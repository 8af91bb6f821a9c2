"""The compiled filters of a subscription, which decide whether it wants a message."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog

from app.domain.catalogue.filters import Filter, FilterType, MatchingStrategy
from app.domain.errors import FieldProblem, ValidationFailedError
from app.domain.message import Message
from app.expressions import EvaluationError
from app.filtering.bodies import ParsedBodies
from app.filtering.budget import WORK_MAX, BodyError, Budget, PathError
from app.filtering.expressions import MessageCondition
from app.filtering.regexes import Regex, Regexes, intersects_classes
from app.filtering.texts import text_of

if TYPE_CHECKING:
    from app.filtering.paths import Path

# The number of headers whose names a filter can compare with one unit of work.
_HEADERS_PER_WORK: Final = 2


_log = structlog.get_logger()


class Verdict(NamedTuple):
    """Whether a message is wanted. If a filter could not judge the message, `error` says why."""

    wanted: bool
    error: str | None = None


WANTED: Final = Verdict(wanted=True)
UNWANTED: Final = Verdict(wanted=False)

_Condition = Callable[[Message, Budget], Verdict]
_Agree = Callable[[Iterable[object], Budget], bool]
_TextOf = Callable[[Any, Budget], str]
# The units of work that are subtracted for each filter and message. They are enough to evaluate a
# CEL expression or a path of about 1,000 characters.
_FIXED_WORK: Final = 150


class FilterChain:
    """All filters of a subscription: a message is wanted if all of them match.

    As in Hermes, a message is not wanted if a path finds nothing, or a header is missing. A message
    is also not wanted if an expression has no value, or if there is any other error. The case of
    header names does not matter. Filters are checked when they are created (`check_filters`). If a
    stored filter can no longer be compiled, no message is wanted, and `problem` has the reason.
    """

    def __init__(self, filters: Sequence[Filter], bodies: ParsedBodies) -> None:
        self._conditions, problems = _compiled(filters, bodies)
        self.problem = "; ".join(f"{problem.path} {problem.message}" for problem in problems)
        if problems:
            unusable = Verdict(wanted=False, error=self.problem)
            self._conditions.insert(0, lambda _message, _budget: unusable)
        self._work = WORK_MAX - _FIXED_WORK * len(self._conditions)

    def judge(self, message: Message) -> Verdict:
        """Return whether the message is wanted. Only a bug can raise an error here."""
        budget = Budget(self._work)
        try:
            for condition in self._conditions:
                verdict = condition(message, budget)
                if not verdict.wanted:
                    break
            else:
                return WANTED
        except (BodyError, PathError) as exc:
            verdict = Verdict(wanted=False, error=str(exc))
        # Treat a message that cannot be read as wanted, although no filter can judge it. So the
        # consumer discards it, with the reason.
        return WANTED if verdict.error and message.unreadable else verdict

    def wants(self, message: Message) -> bool:
        """Return whether the message is wanted. If a bug raises an error, the result is False.

        This is for Spark jobs, which must not stop.
        """
        try:
            return self.judge(message).wanted
        except Exception:  # noqa: BLE001 - an error must affect only this message
            _log.exception("internal_error", step="look")
            return False


def check_filters(filters: Sequence[Filter], *, stored: Sequence[Filter] = ()) -> None:
    """Check that all filters can be compiled, and that new ones mean what they mean in Java.

    Filters that are among the `stored` ones are not new.

    Raises:
        ValidationFailedError: Some filters are refused; the error names each.
    """
    _, problems = _compiled(filters, ParsedBodies())
    if not problems:
        problems = [
            FieldProblem(path=f"filters.{index}.matcher", message=_INTERSECTION)
            for index, each in enumerate(filters)
            if each not in stored and intersects_classes(each.matcher)
        ]
    if problems:
        raise ValidationFailedError(problems)


_INTERSECTION: Final = (
    "has && in a class such as [a-z&&[^b]]: RE2 has no intersections. Write the class without it"
    " ([ac-z]). For the character & write it once"
)


def _compiled(
    filters: Sequence[Filter], bodies: ParsedBodies
) -> tuple[list[_Condition], list[FieldProblem]]:
    conditions: list[_Condition] = []
    problems: list[FieldProblem] = []
    regexes = Regexes()
    for index, each in enumerate(filters):
        try:
            conditions.append(_condition(each, bodies, regexes))
        except ValidationFailedError as exc:
            problems += [
                FieldProblem(path=f"filters.{index}.{item.path}", message=item.message)
                for item in exc.details
            ]
    return conditions, problems


def _condition(each: Filter, bodies: ParsedBodies, regexes: Regexes) -> _Condition:
    if each.type is FilterType.CEL:
        return _expression_condition(
            MessageCondition(each.expression, path="expression", bodies=bodies)
        )
    regex = regexes.compiled(each.matcher)
    if each.type is FilterType.HEADER:
        return _header_condition(each.header, regex)
    from app.filtering.paths import Path  # noqa: PLC0415 - 50 ms of CPU, needed only for paths

    try:
        path = Path(each.path)
    except PathError as exc:
        raise ValidationFailedError.of("path", str(exc)) from exc
    text = _avro_text if each.avropath else _text
    every = each.matching_strategy is MatchingStrategy.ALL
    agree = _all_match(regex, text) if every else _any_matches(regex, text)
    return _path_condition(path, bodies, agree)


def _expression_condition(expression: MessageCondition) -> _Condition:
    def condition(message: Message, budget: Budget) -> Verdict:
        try:
            return WANTED if expression.holds(message, budget) else UNWANTED
        except EvaluationError as exc:
            return Verdict(wanted=False, error=str(exc))

    return condition


def _header_condition(header: str, regex: Regex) -> _Condition:
    wanted = header.lower().encode("latin-1", "replace")

    def condition(message: Message, budget: Budget) -> Verdict:
        budget.spend(len(message.propagated) // _HEADERS_PER_WORK)
        for name, value in message.propagated:
            if name.lower() == wanted:
                matches = regex.matches(value.decode("utf-8", "replace"), budget)
                return WANTED if matches else UNWANTED
        return UNWANTED

    return condition


def _path_condition(path: "Path", bodies: ParsedBodies, agree: _Agree) -> _Condition:
    def condition(message: Message, budget: Budget) -> Verdict:
        found = path.values(bodies.of(message, budget), budget)
        return WANTED if found and agree(found, budget) else UNWANTED

    return condition


def _all_match(regex: Regex, text: _TextOf) -> _Agree:
    return lambda values, budget: all(
        regex.matches(text(value, budget), budget) for value in values
    )


def _any_matches(regex: Regex, text: _TextOf) -> _Agree:
    return lambda values, budget: any(
        regex.matches(text(value, budget), budget) for value in values
    )


def _avro_text(value: Any, budget: Budget) -> str:  # noqa: ANN401 - JSON can have any type
    """Return a value as text. As in Hermes, null is the text `null` in Avro."""
    return "null" if value is None else text_of(value, budget)


def _text(value: Any, budget: Budget) -> str:  # noqa: ANN401 - JSON can have any type
    """Return a value as the text that a regex must match: numbers, objects and lists as JSON.

    Raises:
        PathError: The value is null, which matches nothing.
    """
    if value is None:
        # Let null match no regex. Hermes' matcher raises an error for null, which filters the
        # message out, too.
        raise PathError("the path finds a null, which matches nothing")
    return text_of(value, budget)
