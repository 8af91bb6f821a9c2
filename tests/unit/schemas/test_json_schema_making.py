"""The work of making a JSON Schema ready for messages: bounded, whatever the schema is."""

import gc
import json
import time
import tracemalloc
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import pairwise
from statistics import median
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings, target
from hypothesis import strategies as st

from app.domain.catalogue.schema import SCHEMA_LENGTH_MAX
from app.domain.errors import ValidationFailedError
from app.schemas.json_schema import JsonSchema
from app.schemas.json_schema_work import pointer_to
from app.schemas.pattern_making import written_size
from tests.work import SHARE_MAX, least_share

# To make a plain schema ready takes about 0.5 ms of CPU, so this is some 300 ms. On a busy machine
# what is long pays more for the caches than what is short.
RATIO_MAX: Final = 600

Schema = Mapping[str, Any]
ROOT: Final = {"$ref": "#"}
PLAIN: Final = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "string", "pattern": "^[0-9a-f]{8}$"},
        "lines": {"type": "array", "items": {"properties": {"count": {"minimum": 1}}}},
    },
}


def reference(name: object) -> Schema:
    return {"$ref": f"#/$defs/a{name}"}


def defined(parts: Mapping[object, Schema]) -> Schema:
    return {"$defs": {f"a{name}": each for name, each in parts.items()}, **reference(0)}


def chain(size: int, link: Callable[[Schema], Schema]) -> Schema:
    links: dict[object, Schema] = {
        at: link(reference(then)) for at, then in pairwise(range(size + 1))
    }
    links[size] = {"type": "string"}
    return defined(links)


def models(size: int) -> Schema:
    """As generated from the components of an API."""

    def model(number: int) -> Schema:
        return {
            "type": "object",
            "required": ["id", "name"],
            "properties": {
                "id": {"type": "string", "format": "uuid"},
                "name": {"type": "string", "maxLength": 100},
                "next": reference((number * 7 + 3) % size),
                "list": {"type": "array", "items": reference((number * 31 + 5) % size)},
            },
        }

    return defined({number: model(number) for number in range(size)})


def members(size: int) -> Schema:
    return {"properties": {f"p{n}": ROOT for n in range(size)}}


def different_members(size: int) -> Schema:
    return {"properties": {f"p{n}": {**ROOT, "minLength": n} for n in range(size)}}


def any_members(size: int) -> Schema:
    return {"anyOf": [{"properties": {f"p{n}": ROOT}} for n in range(size)]}


def clique(size: int) -> Schema:
    every = range(min(size, 60))
    return defined({one: {"allOf": [reference(n) for n in every if n != one]} for one in every})


def patterns(pattern: str) -> Callable[[int], Schema]:
    return lambda size: {"allOf": [{"pattern": f"{pattern}{n}"} for n in range(size)]}


def unevaluated(size: int) -> Schema:
    return chain(size, lambda then: {"allOf": [then, then], "unevaluatedProperties": False})


def unevaluated_at_the_root(size: int) -> Schema:
    below = chain(size, lambda then: {"anyOf": [then, then]})
    return {**below, "unevaluatedItems": False}


def strict(size: int) -> Schema:
    base = {"properties": {"id": {"type": "string"}}}
    parts: dict[object, Schema] = {
        n: {
            "allOf": [reference("base")],
            "properties": {"n": reference((n + 1) % size)},
            "unevaluatedProperties": False,
        }
        for n in range(size)
    }
    return defined({**parts, "base": base})


FAMILIES: Final[Mapping[str, Callable[[int], Schema]]] = {
    "models": models,
    "members": members,
    "different members": different_members,
    "all members": lambda size: {**members(size), "additionalProperties": ROOT},
    "members of branches": any_members,
    "patterns of members": lambda size: {"patternProperties": {f"p{n}": ROOT for n in range(size)}},
    "clique": clique,
    "in place": lambda size: chain(size, lambda then: {"allOf": [then, then]}),
    "below": lambda size: chain(size, lambda then: {"properties": {"x": then}, "items": then}),
    "unevaluated": unevaluated,
    "unevaluated at the root": unevaluated_at_the_root,
    "strict": strict,
    "slow patterns": patterns("[ab]*a[ab]{12}c"),
    "properties": patterns(r"\p{L}{20}"),
    "scripts": patterns(r"\p{Greek}{9}"),
    "classes": lambda size: {"pattern": r"\W{0}" * size},
    "foldings": lambda size: {"pattern": "(?i)" + r"[\x{100}-\x{ffff}]{0}" * size},
    "options": lambda size: {"pattern": f"(a?){{{size}}}"},
    "empty branches": lambda size: {"pattern": f"(a|{'|' * size})*b"},
    "words": lambda size: {"pattern": "|".join(f"word{n}" for n in range(size))},
    "characters": lambda size: {"pattern": "".join(f"[{chr(n)}b]" for n in range(256, 256 + size))},
    "anchors": lambda size: {
        "$defs": {f"a{n}": {"$anchor": f"x{n}"} for n in range(size)},
        "allOf": [{"$ref": f"#x{n}"} for n in range(size)],
    },
}


def made(schema: Schema) -> float:
    """The CPU time of making it ready, or of finding out that it takes too much."""
    text = json.dumps(schema)
    gc.disable()
    try:
        began = time.process_time()
        with suppress(ValidationFailedError):
            JsonSchema(text)
        return time.process_time() - began
    finally:
        gc.enable()


def plain_s() -> float:
    times = []
    for _ in range(3):
        began = time.process_time()
        for _ in range(8):
            JsonSchema(json.dumps(PLAIN))
        times.append((time.process_time() - began) / 8)
    return median(times)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(sorted(FAMILIES)), st.integers(3, 12))
def test_no_schema_takes_long_to_be_made_ready(family: str, log2: int) -> None:
    schema = FAMILIES[family](1 << log2)
    while len(json.dumps(schema)) > SCHEMA_LENGTH_MAX:
        log2 -= 1
        schema = FAMILIES[family](1 << log2)
    share = least_share(lambda: made(schema), plain_s, RATIO_MAX)
    target(share)
    assert share <= SHARE_MAX


@pytest.mark.filterwarnings("ignore:Possible nested set:FutureWarning")
@pytest.mark.parametrize(
    "pattern",
    [
        *(each * 3_000 for each in ("[", "[a", "[^", r"[\a", r"\p{", "(?<", "[[:")),
        "(?:){4000000}",
        "(?:(?:){3000}){3000}",
    ],
)
def test_no_pattern_takes_long_to_be_read(pattern: str) -> None:
    assert least_share(lambda: made({"pattern": pattern}), plain_s, RATIO_MAX) <= SHARE_MAX


def test_repetitions_beyond_all_numbers_do_not_let_the_others_pass_uncounted() -> None:
    endless = "a{0}" + "{999999999}" * 40 + "{1}"
    large = [rf"\p{{L}}{{1000}}{n}" for n in range(30)]
    with pytest.raises(ValidationFailedError, match="patterns that take too much work"):
        JsonSchema(json.dumps({"allOf": [{"pattern": each} for each in (*large, endless)]}))


@pytest.mark.parametrize(
    ("schema", "says", "place"),
    [
        (unevaluated(12), "lead to the same ones in too many ways", "#/$defs/a"),
        (unevaluated_at_the_root(13), "lead to the same ones in too many ways", "#"),
        (clique(30), "lead to the same ones in too many ways", "#/$defs/a"),
        (chain(40, lambda then: {"allOf": [then, then]}), "more often than any message", "#/$defs"),
        (different_members(9_000), "too many kinds of places", "#/properties/p"),
        (patterns(r"\p{L}{20}")(30), "patterns that take too much work", "#/allOf/"),
        ({"items": {"pattern": r"\W{0}" * 1_000}}, "patterns that take too much work", "#/items"),
        ({"not": {"patternProperties": {r"\W" * 3_000: {}}}}, "patterns that take", "#/not"),
        ({"$ref": "#/x", "x": {"pattern": r"\W" * 3_000}}, "patterns that take", "#/x"),
    ],
)
def test_what_would_take_too_much_is_refused_and_its_place_named(
    schema: Schema, says: str, place: str
) -> None:
    with pytest.raises(ValidationFailedError) as refused:
        JsonSchema(json.dumps(schema))
    ((path, message),) = [(each.path, each.message) for each in refused.value.details]
    assert (path, says in message, f"(at {place}" in message) == ("schema", True, True), message


def test_the_place_of_a_part_takes_little_memory_where_all_are_deep_below_long_names() -> None:
    parts: list[object] = [[] for _ in range(1_000)]
    root: object = parts
    for number in range(100):
        root = {f"{'x' * 50}{number}": root}
    tracemalloc.start()
    place = pointer_to(parts[0], root)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (len(place), place[-1], peak < 1_000_000) == (301, "…", True)


@pytest.mark.parametrize(
    "schema",
    [
        models(1_000),
        members(1_000),
        different_members(1_000),
        strict(600),
        {"properties": {f"p{n}": {"enum": [f"V{n}_{i}" for i in range(200)]} for n in range(100)}},
        {"items": {"pattern": "|".join(f"word{n}" for n in range(2_000))}},
        {"anyOf": [{"required": [f"p{n}"], "properties": {f"p{n}": ROOT}} for n in range(100)]},
        {
            "properties": {
                f"p{n}": {"pattern": f"^[0-9a-f]{{8}}-([0-9a-f]{{4}}-){{3}}[0-9a-f]{{12}}{n}$"}
                for n in range(500)
            }
        },
        {"properties": {f"p{n}": {"pattern": r"^\p{L}{1,20}$"} for n in range(500)}},
    ],
    ids=[
        "models",
        "members",
        "different members",
        "strict",
        "enums",
        "words",
        "a tree",
        "patterns",
        "one pattern",
    ],
)
def test_large_schemas_as_people_generate_them_are_taken(schema: Schema) -> None:
    JsonSchema(json.dumps(schema))


@pytest.mark.parametrize(
    ("pattern", "parts"),
    [
        ("abc", 3),
        ("[a-z]{4}", 4),
        ("(ab){2,5}", 10),
        ("(?:a|b[cd]{3}){10}", 60),
        (r"\p{Lu}\{2}", 4),
        ("a{2}{3}", 6),
        ("(((a{9}", 9),
        ("x{0}", 1),
        ("ab[cd", 3),
        (r"a\p{L", 2),
        ("x{5}\\", 6),
    ],
)
def test_a_pattern_is_as_large_as_it_is_when_its_repetitions_are_written_out(
    pattern: str, parts: int
) -> None:
    assert written_size(pattern).parts == parts
