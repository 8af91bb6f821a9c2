"""Whatever is wrong with a value, no user reads the words of the validation library.

Schemas, parameters and settings are found, and each of their constraints is broken.
"""

import math
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
from fastapi.dependencies.utils import get_flat_params
from fastapi.routing import APIRoute
from pydantic import ValidationError

from app.api.bodies.base import Schema
from app.api.bodies.problems import problems_of
from app.api.management.application import ROUTERS
from app.cli.errors import CliError
from app.cli.settings import settings_with
from app.config import Settings
from app.domain.errors import FieldProblem
from app.field_errors import error_text

VALUES: Final[list[Any]] = [
    None, True, "true", 7, -1, 1.5, 10**40, -(10**40), math.nan, math.inf, "", "x", "x\0",
    "\ud800", "x" * 200_001, "4 4", "-1", [], [None], [7], ["x"], [""], ["x"] * 2_001, [{}], {},
    {"a": None}, {"a": 7}, {"x" * 200: "y"},
]  # fmt: skip
TEXTS: Final = [value for value in VALUES if isinstance(value, str)]
# Words of the library; and its way to say that something is wrong, without what would be right.
FOREIGN: Final = re.compile(
    r"\b(Input|should|validation|unable|parsing|Value error|Path does|is(?: not a?)? valid)\b|[{}]"
)


def bodies(model: type[Schema] = Schema) -> Iterator[type[Schema]]:
    """The schemas of what is sent to us."""
    for each in model.__subclasses__():
        yield from bodies(each)
        if each.__name__.endswith("Body"):
            yield each


def refused(model: type[Schema], name: str, value: object) -> list[FieldProblem]:
    """What is said of a value of that field."""
    try:
        model.model_validate({name: value}, by_alias=True, by_name=False)
    except ValidationError as exc:
        found = problems_of(model, exc)
        return [each for each in found if each.path.split(".")[0] == name]
    return []


def foreign(found: Iterator[tuple[str, str]]) -> set[tuple[str, str]]:
    """Of places and what is said there, what is not in our words."""
    return {(place, text) for place, text in found if FOREIGN.search(text)}


def said_of_bodies() -> Iterator[tuple[str, str]]:
    for model in set(bodies()):
        for name, info in model.model_fields.items():
            field = info.alias or name
            for value in VALUES:
                problems = refused(model, field, value)
                yield from ((f"{model.__name__}.{each.path}", each.message) for each in problems)


def test_each_constraint_of_a_body_is_told_in_our_words() -> None:
    said = set(said_of_bodies())
    assert foreign(iter(said)) == set()
    assert ("KeyBody.scopes", "must have at least 1 item") in said
    assert ("TopicBody.description", "must have at most 10000 characters") in said


def said_of_parameters() -> Iterator[tuple[str, str]]:
    routes = [route for router in ROUTERS for route in router.routes]
    for route in (each for each in routes if isinstance(each, APIRoute)):
        for field in get_flat_params(route.dependant):
            for value in TEXTS:
                errors: Any = field.validate(value, {}, loc=("query",))[1] or ()
                yield from ((f"{route.path} {field.alias}", error_text(each)) for each in errors)


def test_each_constraint_of_a_parameter_is_told_in_our_words() -> None:
    said = set(said_of_parameters())
    assert foreign(iter(said)) == set()
    assert {text for _, text in said} >= {"must be true or false"}


def said_of_settings() -> Iterator[tuple[str, str]]:
    for name in Settings.model_fields:
        # An environment has texts; flags of ours may be of another type.
        for value in (*TEXTS, 70_000):
            try:
                settings_with(**{name: value})
            except CliError as exc:
                yield from ((each.path, each.message) for each in exc.details)


def test_each_constraint_of_a_setting_is_told_in_our_words() -> None:
    said = set(said_of_settings())
    assert foreign(iter(said)) == set()
    assert ("ANGELIA_PORT", "must be at most 65535") in said


def test_a_check_of_ours_speaks_for_itself() -> None:
    with pytest.raises(CliError) as refusal:
        settings_with(otlp_headers="x")
    [problem] = refusal.value.details
    assert problem == FieldProblem(path="ANGELIA_OTLP_HEADERS", message="must be name=value,…")
