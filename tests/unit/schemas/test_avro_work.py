"""The work of writing JSON as Avro: bounded, whatever the message and the schema are."""

import gc
import json
import time
from collections.abc import Mapping
from functools import cache
from statistics import median
from typing import Any, Final

import orjson
import pytest
from hypothesis import HealthCheck, Phase, given, settings, target
from hypothesis import strategies as st

from app.domain.catalogue.schema import ContentType, TopicSchema
from app.domain.catalogue.topic import Topic
from app.schemas.avro import AvroCodec
from app.schemas.problems import MismatchError
from app.schemas.publications import Given, typed
from tests.work import SHARE_MAX, least_share

MIB: Final = 1 << 20
# A plain message of 1 KB costs about 42 µs: 670 of them are 28 ms. The rest is for a busy machine.
RATIO_MAX: Final = 1_200
# For each byte of the message, above that: 385 ns, and the same rest.
RATIO_OF_BYTE: Final = RATIO_MAX / 73_000


def record(name: str, *fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def array(items: object) -> dict[str, Any]:
    return {"type": "array", "items": items}


LINE: Final = record(
    "Line",
    {"name": "sku", "type": "string"},
    {"name": "count", "type": "int"},
    {"name": "price", "type": "double"},
    {"name": "note", "type": ["null", "string"], "default": None},
)
RECORDS: Final = [record(f"R{n}", {"name": "a", "type": "string"}) for n in range(300)]
DECIMAL: Final = {"type": "bytes", "logicalType": "decimal", "precision": 900, "scale": 400}
PRICE: Final = {"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 2}
OPTIONAL: Final = [
    {"name": f"f{n}", "type": ["null", "string"], "default": None} for n in range(80)
]
EVENTS: Final = [record(f"E{n}", {"name": f"a{n}", "type": "int"}) for n in range(10)]
TAGGED: Final = [
    record(
        f"T{n}",
        {"name": "kind", "type": {"type": "enum", "name": f"K{n}", "symbols": [f"k{n}"]}},
        {"name": "count", "type": "int"},
    )
    for n in range(10)
]
# Alike at first sight, until the inside of the inside.
ALIKE: Final = [
    record(f"A{n}", {"name": "a", "type": record(f"I{n}", {"name": "b", "type": "string"})})
    for n in range(300)
]
# Of a chain of these, each may be of two types.
PAIR: Final = record(
    "P",
    {
        "name": "n",
        "type": [
            "string",
            "P",
            record("Q", {"name": "n", "type": ["string", "P", "Q"]}),
        ],
    },
)
SCHEMAS: Final[Mapping[str, object]] = {
    "lines": array(LINE),
    "numbers": array("int"),
    "optional numbers": array(["null", "int"]),
    "one of three": array(["null", "string", "int"]),
    "one of many": array(["null", *RECORDS, "long"]),
    "lists": array(array("int")),
    "defaults": array(
        record("D", *({"name": f"f{n}", "type": "int", "default": 0} for n in range(100)))
    ),
    "long default": array(record("L", {"name": "f", "type": "string", "default": "x" * 10_000})),
    "decimals": array(DECIMAL),
    "prices": array(PRICE),
    "optional prices": array(["null", PRICE]),
    "optional fields": array(record("O", *OPTIONAL)),
    "events": array(EVENTS),
    "tagged events": array(TAGGED),
    "many alike": array(
        [*ALIKE, record("A", {"name": "a", "type": record("R", {"name": "b", "type": "int"})})]
    ),
    "chains": array(PAIR),
}
# Not the chains: their first run under Hypothesis takes about three times what it takes by itself.
TIMED: Final = sorted(SCHEMAS)
ITEMS: Final[Mapping[str, bytes]] = {
    "line": b'{"sku":"A-1234","count":2,"price":19.9}',
    "number": b"1",
    "list": b"[]",
    "object": b"{}",
    "decimal": b'"1.5"',
    "long decimal": b'"%b"' % (b"9" * 450),
    "odd decimal": b'"1e-1"',
    "price": b"1.25",
    "whole price": b"12",
    "two of eighty": b'{"f3":"abcd","f70":"wxyz"}',
    "one of eighty": b'{"f3":"a"}',
    "event": b'{"a9":1}',
    "tagged event": b'{"kind":"k9","count":1}',
    "large number": b"12",
    "inner": b'{"a":{"b":1}}',
    "chain": b'{"n":' * 30 + b"1" + b"}" * 30,
}


@cache
def compiled(schema: str) -> AvroCodec:
    return AvroCodec(json.dumps(SCHEMAS[schema]))


def listed(item: bytes, size: int) -> bytes:
    return b"[" + (item + b",") * (size // (len(item) + 1)) + item + b"]"


def written(schema: str, body: bytes) -> bytes:
    return compiled(schema).binary(orjson.loads(body), wrapped=False, metadata={}, size=len(body))


def took(schema: str, body: bytes) -> float:
    """The CPU time of writing it, or of finding out that it cannot be."""
    codec, value = compiled(schema), orjson.loads(body)
    gc.disable()
    began = time.process_time()
    try:
        codec.binary(value, wrapped=False, metadata={}, size=len(body))
    except MismatchError:
        return time.process_time() - began
    finally:
        gc.enable()
    return time.process_time() - began


def plain_s() -> float:
    body = listed(ITEMS["line"], 1_000)
    return median(took("lines", body) for _ in range(49))


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    # To explain a failure each line is traced, which takes time of its own.
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.target],
)
@given(st.sampled_from(TIMED), st.sampled_from(sorted(ITEMS)), st.integers(9, 18))
def test_no_message_and_no_schema_take_long(schema: str, item: str, log2: int) -> None:
    body = listed(ITEMS[item], 1 << log2)
    most = RATIO_MAX + RATIO_OF_BYTE * len(body)
    share = least_share(lambda: took(schema, body), plain_s, most)
    target(share)
    assert share <= SHARE_MAX


@pytest.mark.parametrize(
    ("schema", "item"),
    [
        ("many alike", "inner"),
        ("chains", "chain"),
        ("defaults", "object"),
        ("long default", "object"),
        ("decimals", "decimal"),
    ],
)
def test_what_would_take_too_long_is_refused(schema: str, item: str) -> None:
    with pytest.raises(MismatchError, match="takes more work than a message of its size may"):
        written(schema, listed(ITEMS[item], 200_000))


@pytest.mark.parametrize(("schema", "item"), [("lines", "line"), ("numbers", "number")])
@pytest.mark.parametrize("size", [1_000, 50_000, MIB])
def test_usual_messages_of_any_size_are_published_as_avro(
    schema: str, item: str, size: int
) -> None:
    versions = (TopicSchema(version=1, id=1, text=json.dumps(SCHEMAS[schema])),)
    topic = Topic(name="shop.orders", content_type=ContentType.AVRO, schemas=versions)
    body = listed(ITEMS[item], size)
    message = Given(body=body, media="application/json", message_id=b"m", now_ms=1)
    assert typed(topic, message).body


@pytest.mark.parametrize(
    ("schema", "item"),
    [
        ("optional fields", "two of eighty"),
        ("optional fields", "one of eighty"),
        ("prices", "price"),
        ("prices", "whole price"),
        ("optional prices", "price"),
        ("events", "event"),
        ("tagged events", "tagged event"),
        ("optional numbers", "number"),
        ("optional numbers", "large number"),
        ("one of three", "number"),
        ("one of many", "number"),
    ],
)
@pytest.mark.parametrize("size", [8_000, 20_000, 80_000, MIB])
def test_honest_messages_of_small_values_are_written(schema: str, item: str, size: int) -> None:
    assert written(schema, listed(ITEMS[item], size))


def test_two_digits_each_are_written_in_two_megabytes() -> None:
    assert written("optional numbers", listed(b"12", 2 * MIB))


def test_a_digit_is_not_made_many_bytes() -> None:
    """Of a fixed type all bytes are written, however few digits are given."""
    codec = AvroCodec(json.dumps(array({**PRICE, "type": "fixed", "name": "F", "size": 10_000})))
    assert codec.binary([1] * 100, wrapped=False, metadata={}, size=200)
    with pytest.raises(MismatchError, match="takes more work"):
        codec.binary([1] * 1_000, wrapped=False, metadata={}, size=2_000)
    usual = AvroCodec(json.dumps(array({**PRICE, "type": "fixed", "name": "F", "size": 16})))
    assert usual.binary([1] * 200_000, wrapped=False, metadata={}, size=400_000)
