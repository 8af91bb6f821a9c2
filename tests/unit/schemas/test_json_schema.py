"""JSON Schemas: what they say of messages, and which of them are refused."""

import json
from typing import Any

import pytest

from app.domain.errors import ValidationFailedError
from app.schemas.json_schema import JsonSchema


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


def test_a_message_deeper_than_the_engine_goes_is_not_valid() -> None:
    first, second = (json.loads("[" * 500 + "]" * 500) for _ in range(2))
    schema = {"uniqueItems": True, "items": {"$ref": "#"}}
    ((_, message),) = problems(schema, [first, second, 1])
    assert "nested too deep" in message


def test_formats_are_checked() -> None:
    assert problems({"format": "date-time"}, "yesterday") != []


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ("{", "is not JSON"),
        ("[]", "object, true or false"),
        ('{"type": "nope"}', "is not a JSON Schema"),
        ('{"$ref": "http://127.0.0.1:1/x"}', "to its own parts alone"),
        ('{"$ref": "file:///etc/passwd"}', "to its own parts alone"),
        ('{"pattern": "(?=x)"}', "regex"),
        ('{"pattern": "(a{1000}){1000}"}', "regex"),
        ('{"$ref": "#/nowhere"}', "does not exist"),
        ('{"$ref": "#/x", "x": {"properties": 7}}', ""),
        ('{"$ref": "#/x", "x": {"patternProperties": [1]}}', ""),
        ('{"$ref": "#/x/1", "x": [7]}', ""),
        ('{"$dynamicRef": "#"}', "by $ref alone"),
        ('{"$defs": {"a": {"$id": "http://h/a"}}}', "$id at its root"),
        ('{"$ref": "#/const", "const": {"$id": "http://h/a"}}', "$id at its root"),
        ('{"$ref": "#/const/a", "const": {"$id": "http://h/a", "a": {}}}', "$id at its root"),
        ('{"$id": "http://h/a", "$ref": "b"}', "to its own parts alone"),
        ('{"$ref": "#/x", "x": {"$ref": ""}}', "to # instead"),
        ('{"$ref": "https://json-schema.org/draft/2020-12/schema"}', "to its own parts alone"),
        (
            '{"$ref": "#x", "$defs": {"a": {"$dynamicAnchor": "x"}, "b": {"$anchor": "x"}}}',
            "several anchors of the name x",
        ),
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


@pytest.mark.parametrize(
    "base", [{}, {"$id": "https://h/s.json"}, {"$id": "s.json#"}, {"$id": "urn:a:b"}]
)
@pytest.mark.parametrize("name", ["examples", "const", "enum", "default"])
def test_what_is_in_a_value_is_no_part_of_a_schema(base: dict[str, Any], name: str) -> None:
    value = {"$id": "http://h/b", "$anchor": "x"}
    given = {"not": {"required": ["z"], name: value if name in {"const", "default"} else [value]}}
    schema = base | given | {"$defs": {"a": {"$anchor": "x", "required": ["a"]}}, "$ref": "#x"}
    assert problems(schema, {"a": 1}) == []
    assert len(problems(schema, {})) == 1


@pytest.mark.parametrize(
    ("base", "reference"),
    [
        ("https://h/s.json", "https://h/s.json#/$defs/a"),
        ("https://h/s.json", "s.json#/$defs/a"),
        ("https://h/s.json", "/s.json#x"),
        ("https://h/s.json#", "s.json#x"),
        ("s.json", "s.json#/$defs/a"),
        ("urn:a:b", "urn:a:b#x"),
        ("https://json-schema.org/draft/2020-12/schema", "#x"),
    ],
)
def test_a_reference_may_name_the_schema_itself(base: str, reference: str) -> None:
    part = {"$anchor": "x", "type": "string"}
    schema = {"$id": base, "$defs": {"a": part}, "properties": {"n": {"$ref": reference}}}
    assert problems(schema, {"n": "a"}) == []
    assert [path for path, _ in problems(schema, {"n": 1})] == ["n"]


@pytest.mark.parametrize("reference", ["", "#", "https://h/s.json", "s.json", "s.json#"])
def test_a_reference_may_be_to_the_whole_schema(reference: str) -> None:
    below = {"n": {"$ref": reference}}
    schema = {"$id": "https://h/s.json", "type": "object", "properties": below}
    assert problems(schema, nested(20)) == []
    assert [path for path, _ in problems(schema, {"n": {"n": 1}})] == ["n.n"]


def test_names_of_which_several_parts_have_one_as_anchors_may_be_left_unused() -> None:
    schema = {"$defs": {"a": {"$anchor": "x"}, "b": {"$anchor": "x"}}}
    assert problems(schema, 1) == []


def test_what_refers_to_each_other_in_too_many_ways_is_refused() -> None:
    every = {"allOf": [{"$ref": f"#/$defs/a{n}"} for n in range(30)]}
    schema = {"$defs": {f"a{n}": every for n in range(30)}, "$ref": "#/$defs/a0"}
    with pytest.raises(ValidationFailedError, match="lead to the same ones in too many ways"):
        JsonSchema(json.dumps(schema))
