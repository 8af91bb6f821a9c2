"""Describes the problems of a body, field by field: what is wrong, and what would be right."""

from functools import cache
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from app.domain.errors import FieldProblem
from app.field_errors import error_text

_OUT_OF_RANGE: Final = {"greater_than_equal", "less_than_equal"}
_NOT_WHOLE: Final = {"int_type", "int_from_float", "int_parsing", "int_parsing_size"}
_NO_NUMBER: Final = {"float_type", "float_parsing", "finite_number"}


def problems_of(model: type[BaseModel], error: ValidationError) -> list[FieldProblem]:
    """Return every problem of the body, with the path of its field."""
    return [
        FieldProblem(
            path=".".join(str(part) for part in item["loc"]) or "body",
            message=_message(model, item),
        )
        for item in error.errors(include_url=False, include_input=False)
    ]


def schema_in(annotation: object) -> type[BaseModel] | None:
    """Return the model of a field that has an object or a list of objects; None without a model."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(schema_in, get_args(annotation))), None)


def _message(model: type[BaseModel], error: ErrorDetails) -> str:
    """Return a text that says what the value must be. For a number, the text names the limits."""
    kind, path = error["type"], error["loc"]
    if kind in _OUT_OF_RANGE and (span := _range_of(model, path)):
        return f"must be {span}"
    if kind in _NOT_WHOLE | _NO_NUMBER:
        return ", ".join(filter(None, (error_text(error), _range_of(model, path))))
    return error_text(error)


def _range_of(model: type[BaseModel], path: tuple[int | str, ...]) -> str:
    """Return a text with the limits of a number in the schema; empty if there are none."""
    schema = _json_schema(model)
    node = schema
    for part in path:
        node = _resolved(node, schema)
        node = node["items"] if isinstance(part, int) else node["properties"][part]
    node = _resolved(node, schema)
    low, high = node.get("minimum"), node.get("maximum")
    if low is not None and high is not None:
        return f"{low} to {high}"
    return f"at least {low}" if low is not None else f"at most {high}" if high is not None else ""


def _resolved(node: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema that a reference in `node` points to.

    If `node` is a choice between schemas, take the first schema that is not null.
    """
    for each in node.get("anyOf", ()):
        if each.get("type") != "null":
            return _resolved(each, schema)
    name = node.get("$ref", "").rpartition("/")[2]
    return schema["$defs"][name] if name else node


@cache
def _json_schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema()
