"""JSON Schema (2020-12), compiled: what a message must be."""

from typing import Any, Final

import jsonschema_rs
import orjson

from app.domain.errors import FieldProblem, ValidationFailedError
from app.schemata.json_schema_cost import SchemaCost
from app.schemata.problems import PROBLEMS_MAX, QUOTED_MAX, dotted

# Patterns without look-around and back references: those no message can hang.
_PATTERNS = jsonschema_rs.RegexOptions(size_limit=1 << 20)

_TOO_MUCH: Final = (
    "is nested too deep for its size: its schema has branches that would look at the same places"
    " again and again"
)


class JsonSchema:
    """One JSON Schema. References lead to itself alone: nothing is fetched from elsewhere."""

    def __init__(self, text: str) -> None:
        """ValidationFailedError for `schema`."""
        schema = _parsed(text)
        self._validator = _compiled(schema)
        self._cost = _cost_of(schema)

    def problems(self, value: Any, *, size: int) -> list[FieldProblem]:  # noqa: ANN401 - JSON is of any type
        """What is wrong with a message of `size` bytes, the first few things; nothing if valid."""
        if self._cost.is_too_much(value, size):
            return [FieldProblem(path="message", message=_TOO_MUCH)]
        if self._validator.is_valid(value):
            return []
        found: list[FieldProblem] = []
        for error in self._validator.iter_errors(value):
            message = error.message
            if len(message) > QUOTED_MAX:
                message = f"{message[:QUOTED_MAX]}…"
            found.append(FieldProblem(path=dotted(error.instance_path), message=message))
            if len(found) == PROBLEMS_MAX:
                break
        return found


def _parsed(text: str) -> Any:  # noqa: ANN401 - JSON is of any type
    try:
        schema = orjson.loads(text)
    except orjson.JSONDecodeError as exc:
        raise ValidationFailedError.of("schema", f"is not JSON: {exc}") from exc
    if not isinstance(schema, dict | bool):
        raise ValidationFailedError.of("schema", "must be a JSON object, true or false")
    return schema


def _compiled(schema: Any) -> jsonschema_rs.Draft202012Validator:  # noqa: ANN401 - JSON
    try:
        return jsonschema_rs.Draft202012Validator(
            schema, validate_formats=True, offline=True, pattern_options=_PATTERNS
        )
    except (ValueError, jsonschema_rs.ReferencingError) as exc:
        # Where it fails comes in lines of its own.
        reason = str(exc).partition("\n")[0][:300]
        message = f"is not a JSON Schema (2020-12): {reason}"
        raise ValidationFailedError.of("schema", message) from exc


def _cost_of(schema: Any) -> SchemaCost:  # noqa: ANN401 - JSON is of any type
    try:
        return SchemaCost(schema)
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as exc:
        # A reference to what is no schema, or in a way that only the engine can follow.
        message = "has references that cannot be followed, or is nested too deep"
        raise ValidationFailedError.of("schema", message) from exc
