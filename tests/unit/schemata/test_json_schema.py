"""JSON Schemas: what they say of messages, and which of them are refused."""

import json
from typing import Any

import pytest

from app.domain.errors import ValidationFailedError
from app.schemata.json_schema import JsonSchema


def problems(schema: object, value: object) -> list[tuple[str, str]]:
    found = JsonSchema(json.dumps(schema)).problems(value, json.dumps(value).encode())
    return [(each.path, each.message) for each in found]


def nested(levels: int) -> object:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"n": value}
    return value


TWICE = {"properties": {"n": {"$ref": "#/$defs/n"}}}
DOUBLING = {
    "$defs": {"n": {"anyOf": [TWICE | {"required": ["q"]}, TWICE | {"required": ["z"]}]}},
    "$ref": "#/$defs/n",
}


def test_a_valid_message_has_no_problems() -> None:
    assert problems({"type": "object", "required": ["a"]}, {"a": 1}) == []


def test_each_problem_has_its_path() -> None:
    schema = {
        "required": ["a"],
        "properties": {"b": {"items": {"properties": {"c": {"type": "string"}}}}},
    }
    assert problems(schema, {"b": [{}, {"c": 1}]}) == [
        ("message", '"a" is a required property'),
        ("b.1.c", '1 is not of type "string"'),
    ]


def test_of_many_problems_the_first_are_told_and_long_ones_are_cut() -> None:
    found = problems({"items": {"type": "string"}}, [1] * 100)
    assert len(found) == 10
    ((_, message),) = problems({"type": "string"}, ["x" * 1000])
    assert len(message) == 201


def test_formats_are_checked() -> None:
    assert problems({"format": "date-time"}, "yesterday") != []


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ("{", "is not JSON"),
        ("[]", "object, true or false"),
        ('{"type": "nope"}', "is not a JSON Schema"),
        ('{"$ref": "http://127.0.0.1:1/x"}', "Retrieval is disabled"),
        ('{"$ref": "file:///etc/passwd"}', "Retrieval is disabled"),
        ('{"pattern": "(?=x)"}', "regex"),
        ('{"pattern": "(a{1000}){1000}"}', "regex"),
        ('{"$ref": "#/nowhere"}', "does not exist"),
        ('{"$ref": "#/x", "x": {"properties": 7}}', ""),
        ('{"$ref": "#/x", "x": {"patternProperties": [1]}}', ""),
        ('{"$ref": "#/x/1", "x": [7]}', ""),
        ('{"$dynamicRef": "#"}', "by $ref alone"),
        ('{"$defs": {"a": {"$id": "http://h/a"}}}', "$id at its root"),
    ],
)
def test_what_is_no_schema_or_leads_elsewhere_is_refused(schema: str, says: str) -> None:
    with pytest.raises(ValidationFailedError) as refused:
        JsonSchema(schema)
    ((path, message),) = [(each.path, each.message) for each in refused.value.details]
    assert (path, says in message, "\n" in message) == ("schema", True, False), message


def test_a_schema_that_looks_at_one_place_too_often_is_refused() -> None:
    defs: dict[str, Any] = {
        f"a{level}": {"allOf": [{"$ref": f"#/$defs/a{level + 1}"}] * 2} for level in range(40)
    }
    schema = {"$defs": defs | {"a40": {"type": "string"}}, "$ref": "#/$defs/a0"}
    with pytest.raises(ValidationFailedError, match="more often than any message may take"):
        JsonSchema(json.dumps(schema))


def test_a_message_that_a_schema_would_look_at_forever_is_refused_at_once() -> None:
    ((path, message),) = problems(DOUBLING, nested(60))
    assert (path, message.startswith("takes more work")) == ("message", True)
    assert problems(DOUBLING, nested(3))[0][1].endswith("'anyOf' keyword")


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"n": {"$ref": "#"}, "m": {"$ref": "#"}}},
        {"anyOf": [{"const": 1}, {"properties": {"n": {"$ref": "#"}}}]},
        {
            "$defs": {"a b": {"properties": {"n": {"$ref": "#/$defs/a%20b"}}}},
            "$ref": "#/$defs/a%20b",
        },
        {"$anchor": "node", "additionalProperties": {"$ref": "#node"}},
    ],
    ids=["two members", "one branch", "a name with a space", "an anchor"],
)
def test_schemas_of_trees_take_messages_of_any_depth(schema: dict[str, Any]) -> None:
    assert problems(schema, nested(200)) == []
