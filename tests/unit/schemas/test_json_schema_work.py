"""The work of holding one message against a JSON Schema: bounded, whatever both of them are."""

import gc
import json
import random
import time
from collections.abc import Callable, Mapping
from functools import cache
from statistics import median
from typing import Any, Final

import orjson
import pytest
from hypothesis import HealthCheck, given, settings, target
from hypothesis import strategies as st

from app.schemas.json_schema import JsonSchema
from app.schemas.patterns import EACH_STATE_NS, FEW_STATES_NS, PROPERTY_NS, PatternPrices
from tests.work import SHARE_MAX, least_share

# A plain message of 1 KB and its schema cost about 20 µs: 500 of them are 10 ms. The rest is for a
# busy machine, where what is long pays more for the caches than what is short.
RATIO_MAX: Final = 1_200
# For each byte of the message, above that: 60 ns.
RATIO_OF_BYTE: Final = RATIO_MAX / 166_000

MIB: Final = 1 << 20
Body = Callable[[int], bytes]

LINE: Final = {
    "type": "object",
    "required": ["sku", "count", "price"],
    "properties": {
        "sku": {"type": "string", "pattern": "^[A-Z]-[0-9]{1,12}$"},
        "count": {"type": "integer", "minimum": 1},
        "price": {"type": "number", "multipleOf": 0.01},
        "kind": {"enum": ["a", "b", None]},
    },
}
ORDER: Final = {
    "type": "object",
    "required": ["id", "email", "items"],
    "properties": {
        "id": {"type": "string", "pattern": "^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$"},
        "email": {"type": "string", "format": "email"},
        "items": {"type": "array", "items": LINE},
    },
}


def order(size: int) -> bytes:
    item = {"sku": "A-1234", "count": 2, "price": 19.9, "kind": "a"}
    given = {"id": "0e3f1a52-9b1c-4f6e-8d1a-0123456789ab", "email": "anna@example.com"}
    return json.dumps(given | {"items": [item] * (size // 62)}).encode()


def listed(item: bytes) -> Body:
    return lambda size: b"[" + (item + b",") * (size // (len(item) + 1)) + item + b"]"


def nested(levels: int) -> bytes:
    return b'{"n":' * levels + b"1" + b"}" * levels


@cache
def letters() -> bytes:
    """Letters without order, a and b."""
    each = bytes(b"ab"[byte % 2] for byte in range(256))
    return random.Random(1).randbytes(2 * MIB).translate(each)


NAMES: Final = [f"p{n}" for n in range(100)]
BODIES: Final[Mapping[str, Body]] = {
    "whole": listed(b"1"),
    "fractions": listed(b"1.5"),
    "extreme": listed(b"1e300"),
    "lists": listed(b"[1]"),
    "objects": listed(b'{"a":1}'),
    "empty": listed(b"{}"),
    "texts": listed(b'"a"'),
    "all names": listed(json.dumps(dict.fromkeys(NAMES, 1)).encode()),
    "text": lambda size: b'"%b"' % letters()[:size],
    "longer texts": lambda size: json.dumps(
        [letters()[at : at + 50].decode() for at in range(0, size, 54)]
    ).encode(),
    "members": lambda size: json.dumps({f"k{n}": n for n in range(size // 13)}).encode(),
    "different": lambda size: json.dumps(list(range(size // 8))).encode(),
    "fifteen": listed(json.dumps(list(range(15))).encode()),
    "deep": lambda size: nested(min(900, size // 6)),
    "many deep": listed(nested(8)),
    "ladder": lambda size: (b"[" + b"1," * (size // 400)) * 200 + b"1" + b"]" * 200,
    "order": order,
}


def inline(levels: int) -> Mapping[str, Any]:
    if not levels:
        return {"type": "integer"}
    branch = {"properties": {"n": inline(levels - 1)}}
    return {"anyOf": [branch], "unevaluatedProperties": False}


def items(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"items": schema}


REFERRED: Final = {"$ref": "#"}
TREE: Final = {"additionalProperties": REFERRED, "items": REFERRED}
SCHEMAS: Final[Mapping[str, Mapping[str, Any]]] = {
    "order": ORDER,
    "texts": items({"type": "string"}),
    "object": {"type": "object"},
    "unique": {"uniqueItems": True},
    "all unique": {"uniqueItems": True, "items": REFERRED},
    "fractions": items({"not": {"enum": [n + 0.25 for n in range(50)]}}),
    "lists": items({"not": {"enum": [[n] for n in range(10, 60)]}}),
    "many values": items({"enum": list(range(10_000, 20_000))}),
    "constants": items({"anyOf": [{"const": n} for n in range(100, 160)]}),
    "patterns": {"allOf": [{"pattern": f"(a|b|c)*d{n}|x"} for n in range(60)]},
    "slow pattern": {"not": {"pattern": "[ab]*a[ab]{20}c"}},
    "slow patterns": items({"not": {"pattern": "[ab]*a[ab]{200}c"}}),
    "patterns of names": {"patternProperties": {f"x{n}.*y": {} for n in range(100)}},
    "slow pattern of names": {"propertyNames": {"pattern": "k*[0-9]*1[0-9]{20}c|k"}},
    "dependent": items({"dependentRequired": dict.fromkeys(NAMES, NAMES)}),
    "dependent schemas": items({"dependentSchemas": {each: {"required": NAMES} for each in NAMES}}),
    "required": items({"not": {"required": NAMES}}),
    "addresses": items({"anyOf": [{"format": "email"}, {}]}),
    "names of hosts": items({"anyOf": [{"format": "idn-hostname"}, {}]}),
    "multiples": items({"anyOf": [{"multipleOf": 0.01}, {}]}),
    "small multiples": items({"anyOf": [{"multipleOf": 1e-300}, {}]}),
    "contained": {"contains": {"const": -1}, "minContains": 0},
    "branches": items({"anyOf": [{"type": "string"}] * 100 + [{}]}),
    "bounds": items({"minimum": 0, "maximum": 10**30, "exclusiveMinimum": -0.5}),
    "unevaluated": {
        "allOf": [{"patternProperties": {f"x{n}.*": {}}} for n in range(100)],
        "unevaluatedProperties": {"type": "integer"},
    },
    "unevaluated branches": items(inline(8)),
    "tree": {"type": ["object", "array", "integer"], **TREE},
    "branching tree": {"oneOf": [{"type": "array", **TREE}, {"type": "object", **TREE}, {}]},
    "tree that fails": {"anyOf": [{**TREE, "required": ["q"]}, {**TREE, "required": ["z"]}]},
}


@cache
def compiled(schema: str) -> JsonSchema:
    return JsonSchema(json.dumps(SCHEMAS[schema]))


def took(schema: JsonSchema, body: bytes) -> float:
    """The CPU time of one look."""
    value = orjson.loads(body)
    # A collection looks at all objects of the process, whatever the message is.
    gc.disable()
    try:
        began = time.process_time()
        schema.problems(value, body)
        return time.process_time() - began
    finally:
        gc.enable()


def plain_s() -> float:
    schema, body = compiled("order"), order(1_000)
    value, times = orjson.loads(body), []
    for _ in range(9):
        began = time.process_time()
        for _ in range(50):
            schema.problems(value, body)
        times.append((time.process_time() - began) / 50)
    return median(times)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(sorted(BODIES)), st.sampled_from(sorted(SCHEMAS)), st.integers(9, 21))
def test_no_message_and_no_schema_take_long(body: str, schema: str, log2: int) -> None:
    made = BODIES[body](1 << log2)
    most = RATIO_MAX + RATIO_OF_BYTE * len(made)
    share = least_share(lambda: took(compiled(schema), made), plain_s, most)
    target(share)
    assert share <= SHARE_MAX


@pytest.mark.parametrize(
    ("schema", "body"),
    [
        # Each took seconds, or all memory.
        ("dependent schemas", "all names"),
        ("fractions", "fractions"),
        ("lists", "lists"),
        ("small multiples", "extreme"),
        ("slow pattern", "text"),
        ("slow patterns", "longer texts"),
        ("patterns of names", "members"),
        ("all unique", "ladder"),
        ("branching tree", "many deep"),
    ],
)
def test_what_would_take_too_long_is_refused_unseen(schema: str, body: str) -> None:
    made = BODIES[body](MIB)
    (problem,) = compiled(schema).problems(orjson.loads(made), made)
    assert problem.path == "message"
    assert problem.message.startswith("takes more work than a message of its size may")


def test_of_a_large_message_with_many_problems_the_first_is_told() -> None:
    made = order(MIB).replace(b'"count": 2', b'"count": 0')
    problems = compiled("order").problems(orjson.loads(made), made)
    assert [each.path for each in problems] == ["items.0.count"]


def test_of_a_large_message_that_no_branch_takes_only_that_is_told() -> None:
    schema = {"anyOf": [items({"type": "string"}), items({"type": "boolean"})]}
    made = BODIES["whole"](MIB // 2)
    (problem,) = JsonSchema(json.dumps(schema)).problems(orjson.loads(made), made)
    assert (problem.path, "too large" in problem.message) == ("message", True)


def test_what_is_wrong_and_nested_deeper_than_the_engine_can_copy_is_refused_as_all_is() -> None:
    made = nested(300)
    schema = JsonSchema('{"type": "array"}')
    (problem,) = schema.problems(orjson.loads(made), made)
    assert (problem.path, "nested too deep" in problem.message) == ("message", True)


@pytest.mark.parametrize("size", [1_000, 50_000, MIB])
def test_usual_messages_of_any_size_are_held_against_usual_schemas(size: int) -> None:
    made = order(size)
    assert compiled("order").problems(orjson.loads(made), made) == []


@pytest.mark.parametrize(
    "pattern",
    [
        r"^[^@\s]+@[^@\s]+\.[a-z]{2,}$",
        r"^https?://[\w.-]+(/[\w./?%&=-]*)?$",
        r"^(\+\d{1,3})?[ -]?(\(?\d{1,4}\)?[ -]?){2,5}$",
        "^.{1,200}$",
        r"^(?<year>\d{4})-(?<month>\d{2})$",
        r"^[\cA-\cZ\u{1F600}-\u{1F64F}]+\x{41}\u0042$",
        r"^\\p{2}$",
        "(?i)^[a-z]+@[a-z]+$",
    ],
)
def test_patterns_with_few_states_cost_little(pattern: str) -> None:
    assert PatternPrices().of(pattern) == FEW_STATES_NS


@pytest.mark.parametrize(
    "pattern", ["[ab]*a[ab]{20}c", "[ab]*a[ab]{20}$", ".*a.{300}z", r"\w*a\w{200}!"]
)
def test_patterns_with_very_many_states_cost_what_all_their_parts_do(pattern: str) -> None:
    assert PatternPrices().of(pattern) > 20 * EACH_STATE_NS


@pytest.mark.parametrize(
    ("pattern", "properties"),
    [
        (r"^\p{L}{1,50}$", 50),
        (r"^[\p{L}\p{Nd} ]{1,20}$", 20),
        (r"\P{Letter}x", 1),
        (r"[^\pL]x", 1),
    ],
)
def test_properties_of_characters_cost_more_each(pattern: str, properties: int) -> None:
    assert PatternPrices().of(pattern) == FEW_STATES_NS + PROPERTY_NS * properties


@pytest.mark.parametrize(
    "pattern",
    [
        r"[^,]*,\P{L}{20}c",
        r".*\p{Lu}.{20}z",
        "(?i)[ab]*A[AB]{20}c",
        "[ab]*(?i:A)[ab]{20}c",
        r"[^x]*[éx]\W{20}c",
    ],
)
def test_what_only_the_engine_reads_so_costs_what_all_its_parts_do(pattern: str) -> None:
    assert PatternPrices().of(pattern) > 20 * EACH_STATE_NS


def test_a_pattern_that_is_not_read_costs_what_its_length_does() -> None:
    assert PatternPrices().of(r"^\p{Greek}+$") < 20 * EACH_STATE_NS


def is_too_much(schema: Mapping[str, Any], value: object) -> bool:
    body = orjson.dumps(value)
    problems = JsonSchema(json.dumps(schema)).problems(value, body)
    return any(each.message.startswith("takes more work") for each in problems)


def members(**given: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"properties": given}


@pytest.mark.parametrize(
    "schema",
    [
        members(date={"pattern": r"^(?<y>\d{4})-(?<m>\d{2})$"}),
        members(date={"not": {"pattern": "foo.{0,20}bar"}}, text={"type": "string"}),
        members(date={"not": {"pattern": ".*a.{30}z"}}, lines=items({"type": "string"})),
        {"prefixItems": [{"not": {"pattern": "foo.{0,20}bar"}}], "$ref": "#/$defs/a"}
        | {"$defs": {"a": members(date={"not": {"pattern": "foo.{0,20}bar"}})}},
    ],
    ids=["a named group", "a slow pattern", "a slower one", "by a reference"],
)
def test_a_slow_pattern_of_one_member_is_not_paid_for_by_the_others(
    schema: Mapping[str, Any],
) -> None:
    value = {"date": "2024-01", "text": "x" * 12_000, "lines": ["a"] * 1_000}
    assert not is_too_much(schema, value)


@pytest.mark.parametrize("value", [{"text": "ab" * 10_000}, {"lines": [{"text": "ab" * 10_000}]}])
def test_a_slow_pattern_is_paid_for_where_it_is(value: object) -> None:
    slow = {"not": {"pattern": "foo.{0,20}bar"}}
    assert is_too_much(members(text=slow, lines=items(members(text=slow))), value)


def test_members_that_must_all_differ_are_paid_for_place_by_place() -> None:
    value = [[[["a"] * 30] * 30] * 3]
    assert not is_too_much({"items": {"type": "array"}}, value)
    assert is_too_much({"uniqueItems": True, "items": {"$ref": "#"}}, [value] * 40)


BOUNDS: Final = {"allOf": [{"minLength": 0, "maxLength": 9}] * 3_000}


def test_references_that_lead_back_to_each_other_are_paid_for_from_each_of_them() -> None:
    defs = {
        "a": {"allOf": [{"$ref": "#/$defs/b"}, {"$ref": "#/$defs/d"}]},
        "b": {"allOf": [{"$ref": "#/$defs/a"}]},
        "d": BOUNDS,
    }
    below = members(x={"$ref": "#/$defs/a"}, l=items({"$ref": "#/$defs/b"}))
    schema = {"$defs": defs, **below}
    assert is_too_much(schema, {"l": ["a"] * 50_000})


@pytest.mark.parametrize(
    "schema",
    [
        {"examples": [{"$anchor": "x"}], "$defs": {"a": {"$anchor": "x", **BOUNDS}}},
        {"$defs": {"a": {"$anchor": "x", **BOUNDS}}, "default": {"$anchor": "x"}},
        {"$defs": {"a": {"$dynamicAnchor": "x", **BOUNDS}}},
    ],
    ids=["examples", "default", "a dynamic anchor"],
)
def test_what_an_anchor_names_is_paid_for(schema: Mapping[str, Any]) -> None:
    assert is_too_much({**schema, "items": {"$ref": "#x"}}, ["a"] * 50_000)


def test_what_is_asked_of_names_is_paid_for() -> None:
    names = {"allOf": [{"format": "date", "pattern": "^a"}] * 100, "minLength": 0}
    value = {f"{n}": 0 for n in range(600)}
    assert is_too_much({"propertyNames": {"not": names}}, value)


def test_dependencies_as_of_old_are_paid_for() -> None:
    schema = items({"dependencies": {"a": {"required": [f"p{n}" for n in range(1_000)]}}})
    assert is_too_much(schema, [{"a": 1}] * 20_000)
