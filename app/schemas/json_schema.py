"""Compiled JSON Schemas (2020-12), which validate messages."""

import math
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

import jsonschema_rs
import orjson

from app.domain.errors import FieldProblem, ValidationFailedError
from app.schemas.json_schema_cost import SchemaCost
from app.schemas.json_schema_references import name_the_whole, parts
from app.schemas.json_schema_work import PreparationWork
from app.schemas.patterns import PatternPrices
from app.schemas.problems import PROBLEMS_MAX, QUOTED_MAX, dotted
from app.schemas.request_work import RequestWork

# The engine for patterns of schemas, with a limit of size. This engine has no look-around and no
# back references, so no message can block it.
_PATTERNS = jsonschema_rs.RegexOptions(size_limit=1 << 20)

# The allowed cost of validating a message, in ns. It is the same for messages of any size.
LIMIT_NS: Final = 10_000_000
# The additional allowed cost of validating a message, in ns, for each byte of the message.
BYTE_LIMIT_NS: Final = 60
# The allowed cost of reporting several problems of a message, in ns.
REPORT_LIMIT_NS: Final = 10_000_000
# The cost in ns of copying a value into an error. The cost is counted for each comma, list and
# object in the value's JSON.
_COPIED_NS: Final[Mapping[bytes, int]] = {b",": 200, b"[": 300, b"{": 1_000}
_DIALECT: Final = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
_CHOICES: Final = (b'"anyOf"', b'"oneOf"')

_TOO_MUCH: Final = (
    "takes more work than a message of its size may to be held against its schema: that has too"
    " many branches, patterns or values to compare with for so many values, or for so deep ones"
)
_INVALID: Final = FieldProblem(
    path="message",
    message="is not what its schema asks for; it is too large or nested too deep to say where",
)


class JsonSchema:
    """A compiled JSON Schema.

    A reference may lead only to a part of the schema itself. Nothing is fetched.
    """

    def __init__(self, text: str) -> None:
        """Compile the schema.

        Raises:
            ValidationFailedError: The schema is not valid (field `schema`).
        """
        schema = _parsed(text)
        name_the_whole(schema)
        # All work that could block the engine is limited before the engine gets the schema.
        work = PreparationWork(schema)
        patterns = _patterns_of(schema, work)
        _require_meta(schema)
        self._cost = _cost_of(schema, work, patterns)
        self._validator = _compiled(schema)
        self._has_choices = any(name in orjson.dumps(schema) for name in _CHOICES)

    def problems(
        self,
        value: Any,  # noqa: ANN401 - JSON can have any type
        body: bytes,
        work: RequestWork | None = None,
    ) -> list[FieldProblem]:
        """Return the first few problems of `value`, which was read from `body`.

        The result is empty if the value is valid.

        The time is limited. A message whose validation would take too long is refused without
        validation. If a report of all problems would take too long, the result has only the first
        problem, or only says that the message is invalid.

        Raises:
            ThroughputQuotaError: The work that is left for the whole request is too little.
        """
        limit = LIMIT_NS + BYTE_LIMIT_NS * len(body)
        cost = self._cost.of(value, body, limit, is_exact=work is not None and not work.is_ample)
        if cost is None:
            # The whole limit counts as spent, because the computation of the cost itself may take
            # so much work.
            if work is not None:
                work.spend(min(limit, work.left_ns))
            return [FieldProblem(path="message", message=_TOO_MUCH)]
        if work is not None:
            work.spend(cost)
        try:
            # The engine raises ValueError if references lead to more levels than it supports.
            if self._validator.is_valid(value):
                return []
            errors = self._errors(value, body, work)
        except ValueError:
            # Report only that the value is invalid. An exact error would have a copy of the value,
            # and such a copy must not have too many levels.
            errors = []
        return [_problem(error) for error in errors] or [_INVALID]

    def _errors(
        self,
        value: Any,  # noqa: ANN401 - JSON can have any type
        body: bytes,
        work: RequestWork | None,
    ) -> list[jsonschema_rs.ValidationError]:
        """Return the errors that can be found at low cost.

        If the cost is too high, the result is empty.
        """
        left_ns = math.inf if work is None else work.left_ns
        reported = self._cost.of_report(value, body, REPORT_LIMIT_NS)
        if reported <= min(REPORT_LIMIT_NS, left_ns):
            if work is not None:
                work.spend(reported)
            return list(islice(self._validator.iter_errors(value), PROBLEMS_MAX))
        copied = sum(price * body.count(begin) for begin, price in _COPIED_NS.items())
        # Schemas with branches get no exact error here, because the engine would collect the errors
        # of each branch.
        if self._has_choices or copied > min(LIMIT_NS + BYTE_LIMIT_NS * len(body), left_ns):
            return []
        if work is not None:
            work.spend(copied)
        try:
            self._validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            return [error]
        return []


def _problem(error: jsonschema_rs.ValidationError) -> FieldProblem:
    message = error.message
    if len(message) > QUOTED_MAX:
        message = f"{message[:QUOTED_MAX]}…"
    return FieldProblem(path=dotted(error.instance_path), message=message)


def _parsed(text: str) -> Any:  # noqa: ANN401 - JSON can have any type
    try:
        schema = orjson.loads(text)
    except orjson.JSONDecodeError as exc:
        raise ValidationFailedError.of("schema", f"is not JSON: {exc}") from exc
    if not isinstance(schema, dict | bool):
        raise ValidationFailedError.of("schema", "must be a JSON object, true or false")
    return schema


def _patterns_of(schema: object, work: PreparationWork) -> PatternPrices:
    """Return the costs of matching with the patterns in the schema.

    Raises:
        ValidationFailedError: The patterns would take the engine too long.
    """
    patterns = PatternPrices(work)
    for part in parts(schema):
        named = part.get("patternProperties")
        given = [part.get("pattern"), *(named if isinstance(named, dict) else ())]
        for each in given:
            if isinstance(each, str):
                patterns.of(each, at=part)
    return patterns


def _require_meta(schema: Any) -> None:  # noqa: ANN401 - JSON can have any type
    try:
        jsonschema_rs.meta.validate(schema | _DIALECT if isinstance(schema, dict) else schema)
    except (ValueError, jsonschema_rs.ReferencingError) as exc:
        raise _no_schema(exc) from exc


def _compiled(schema: Any) -> jsonschema_rs.Draft202012Validator:  # noqa: ANN401 - JSON can have any type
    try:
        return jsonschema_rs.Draft202012Validator(
            schema, validate_formats=True, offline=True, pattern_options=_PATTERNS
        )
    except (ValueError, jsonschema_rs.ReferencingError) as exc:
        raise _no_schema(exc) from exc


def _no_schema(error: Exception) -> ValidationFailedError:
    # Use only the first line of the error. The other lines say where in the schema the error is.
    reason = str(error).partition("\n")[0][:300]
    return ValidationFailedError.of("schema", f"is not a JSON Schema (2020-12): {reason}")


def _cost_of(schema: Any, work: PreparationWork, patterns: PatternPrices) -> SchemaCost:  # noqa: ANN401 - JSON can have any type
    try:
        return SchemaCost(schema, work, patterns)
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as exc:
        # A reference that this code cannot follow leads to a refusal, even if the engine could
        # follow it.
        message = "has references that cannot be followed, or is nested too deep"
        raise ValidationFailedError.of("schema", message) from exc
