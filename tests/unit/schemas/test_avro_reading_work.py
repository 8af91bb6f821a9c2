"""The work of reading Avro: bounded, whatever the message and the schema are."""

import gc
import json
import time
import tracemalloc
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from itertools import repeat
from statistics import median
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings, target
from hypothesis import strategies as st

from app.domain.catalogue.schema import ContentType, TopicSchema
from app.domain.catalogue.topic import Topic
from app.domain.message import HEADER_SCHEMA_VERSION, Partition, Record
from app.schemas.avro import AvroCodec
from app.schemas.avro_work import json_allowed, room_allowed
from app.schemas.messages import reading
from app.schemas.problems import AvroError, MismatchError
from tests.unit.schemas.test_avro_work import (
    LINE,
    MIB,
    PRICE,
    RATIO_MAX,
    RATIO_OF_BYTE,
    array,
    listed,
    plain_s,
    record,
)
from tests.work import SHARE_MAX, least_share

# Texts as Avro has them: their length, then they.
A: Final = b"\x02a"
WORD: Final = b"\x10abcdefgh"
INT: Final = {"name": "a", "type": "int"}


def nulls(count: int, *fields: Mapping[str, Any]) -> dict[str, Any]:
    return record("Nulls", *fields, *({"name": f"n{n}", "type": "null"} for n in range(count)))


def optional(name: str, kind: object = "string") -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None}


def nested(levels: int) -> object:
    kind: object = "int"
    for level in range(levels):
        kind = record(f"L{level}", {"name": "a", "type": kind})
    return kind


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return {**PRICE, "precision": precision, "scale": scale}


def named(kind: object, name: str = "v") -> dict[str, Any]:
    return {"name": name, "type": kind}


TREE: Final = record("T", named("string", "name"), named("long", "size"), named(array("T"), "t"))
CHAIN: Final = record("C", INT, optional("next", "C"))
EMPTY: Final = record("E", named(array("E")))
PAIR: Final = record("P", named(["null", "P", record("Q", named(["null", "P", "Q"]))]))
MAP: Final = {"type": "map", "values": "int"}
EVENT: Final = record(
    "Event",
    named("string", "id"),
    named("long", "time"),
    named({"type": "enum", "name": "Kind", "symbols": ["CREATED", "CHANGED", "DELETED"]}, "kind"),
    named(record("Buyer", named("long", "id"), optional("email"), optional("age", "int")), "buyer"),
    named(array(record("Item", named("string", "sku"), named("int", "count"), named(PRICE)))),
    named({"type": "map", "values": "string"}, "tags"),
    optional("coupon"),
)
# A letter, a second, a kind, a buyer, two items, a map of one, and no coupon.
EVENT_BODY: Final = (
    WORD + b"\x80\xd0\x95\xff\xf9\x62\x00\x80\x01\x02" + WORD + b"\x00"
    b"\x04" + WORD + b"\x04\x04\x07\xcf" + WORD + b"\x02\x02\x63\x00\x02" + A + WORD + b"\x00\x00"
)
# What a schema may have in a list, and an item of it, that takes much for its few bytes or is
# honest.
WORST: Final[Mapping[str, tuple[object, bytes]]] = {
    "nulls": (nulls(900, INT), b"\x02"),
    "nulls of a union": (["null", nulls(900)], b"\x02"),
    "nested": (nested(60), b"\x02"),
    "long name": (record("R", optional("n" * 2_000)), b"\x00"),
    "longest name": (record("R", optional("n" * 100_000)), b"\x00"),
    "long symbol": ({"type": "enum", "name": "S", "symbols": ["s" * 2_000]}, b"\x00"),
    "no digits": (decimal(18, 2), b"\x00"),
    "decimals": (decimal(900, 400), b"\x02\x01"),
    "long decimal": (decimal(900, 400), b"\xe8\x07" + b"\x7f" * 500),
    "longest decimal": (decimal(3_000, 0), b"\xe0\x12" + b"\x7f" * 1_200),
    "endless decimal": (decimal(18, 2), b"\xc0\x9a\x0c" + b"\x7f" * 100_000),
    "places": (decimal(100_000, 100_000), b"\x02\x01"),
    "empties": (EMPTY, b"\x00"),
    "deep empties": (EMPTY, b"\x02" * 100 + b"\x00" * 101),
    "chains": (CHAIN, b"\x02\x02" * 200 + b"\x02\x00"),
    "pairs": (PAIR, b"\x02\x04" * 60 + b"\x00"),
    "blocks": (array("int"), b"\x02\x02" * 20 + b"\x00"),
    "sized blocks": (MAP, b"\x01\x04\x00\x02" * 20 + b"\x00"),
}
HONEST: Final[Mapping[str, tuple[object, bytes]]] = {
    "numbers": ("int", b"\x02"),
    "large numbers": ("long", b"\x80\xd0\x95\xff\xf9\x62"),
    "flags": ("boolean", b"\x01"),
    "reals": ("double", b"abcdefgh"),
    "optional numbers": (["null", "int"], b"\x02\x02"),
    "absent numbers": (["null", "int"], b"\x00"),
    "one of three": (["null", "string", "int"], b"\x04\x02"),
    "letters": ("string", A),
    "raw": ("bytes", A),
    "control characters": ("string", b"\x78" + b"\x00" * 60),
    "points": (record("P", named("int", "x"), named("int", "y")), b"\x02\x02"),
    "small records": (record("P", named("boolean", "x")), b"\x01"),
    "lines": (LINE, WORD + b"\x04" + b"abcdefgh" + b"\x00"),
    "events": (EVENT, EVENT_BODY),
    "prices": (PRICE, b"\x04\x07\xcf"),
    "whole prices": (PRICE, b"\x02\x07"),
    "optional prices": (["null", PRICE], b"\x02\x04\x07\xcf"),
    "none of eighty": (
        record("S", *(optional(f"field_of_many_{n}") for n in range(80))),
        b"\x00" * 80,
    ),
    "two of eighty": (
        record("S", *(optional(f"another_long_name_of_a_field_{n:02}") for n in range(80))),
        b"\x02" + WORD + b"\x00" * 40 + b"\x02" + WORD + b"\x00" * 38,
    ),
    "lists": (array("int"), b"\x04\x02\x04\x00"),
    "empty lists": (array("int"), b"\x00"),
    "maps": (MAP, b"\x02" + WORD + b"\x02\x00"),
    "trees": (TREE, (WORD + b"\x02\x06") + (WORD + b"\x02\x00") * 3 + b"\x00"),
    "deep trees": (TREE, (WORD + b"\x02\x02") * 60 + WORD + b"\x02\x00" + b"\x00" * 60),
    "chains of ten": (CHAIN, b"\x02\x02" * 10 + b"\x02\x00"),
}
SIZES_MAX: Final = {"small records": 350_000}
ALL: Final = {**WORST, **HONEST}
# The others take about as much as is fair for so many bytes.
REFUSED: Final = WORST.keys() - {
    "long decimal",
    "longest decimal",
    "pairs",
    "chains",
    "blocks",
    "sized blocks",
}


@cache
def compiled(name: str) -> AvroCodec:
    """The codec of a list of the item."""
    return AvroCodec(json.dumps(array(ALL[name][0])))


def number(value: int) -> bytes:
    return AvroCodec('"long"').binary(value, wrapped=False, metadata={})


def body_of(name: str, size: int, *, block: int = 0) -> bytes:
    """A list of the item, of about `size` bytes, in blocks of so many if that is given."""
    item = ALL[name][1]
    count = max(size // len(item), 1)
    if not block:
        return number(count) + item * count + b"\x00"
    return (number(block) + item * block) * -(-count // block) + b"\x00"


def took(name: str, body: bytes) -> float:
    """The CPU time of reading it, or of finding out that it may not be."""
    codec = compiled(name)
    gc.disable()
    began = time.process_time()
    try:
        codec.json(body)
    except AvroError:
        return time.process_time() - began
    finally:
        gc.enable()
    return time.process_time() - began


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    # To explain a failure each line is traced, which takes time of its own.
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.target],
)
@given(st.sampled_from(sorted(ALL)), st.integers(9, 18), st.sampled_from([0, 1, 10, 60]))
def test_no_message_and_no_schema_take_long_to_read(name: str, log2: int, block: int) -> None:
    # What a block would take is known before it is read: in small ones most is read of what may be.
    body = body_of(name, 1 << log2, block=block)
    most = RATIO_MAX + RATIO_OF_BYTE * len(body)
    share = least_share(lambda: took(name, body), plain_s, most)
    target(share)
    assert share <= SHARE_MAX


def test_usual_messages_are_read_no_slower_than_they_are_written() -> None:
    body = listed(b'{"sku":"A-1234","count":2,"price":19.9}', 1_000)
    codec = AvroCodec(json.dumps(array(LINE)))
    avro = codec.binary(json.loads(body), wrapped=False, metadata={})

    def read_s() -> float:
        began = time.process_time()
        codec.json(avro)
        return time.process_time() - began

    assert least_share(lambda: median(read_s() for _ in range(49)), plain_s, 1) <= 1


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_would_take_too_long_is_not_read(name: str) -> None:
    says = "more than 3000 digits" if "endless" in name else "(takes|makes) more .* of its size may"
    with pytest.raises(AvroError, match=says):
        compiled(name).json(body_of(name, 2 * MIB))


@pytest.mark.parametrize("name", sorted(HONEST))
# The larger such a message is, the more of each limit it takes: those of 1 MiB take the most.
@pytest.mark.parametrize(
    "size", [1_000, 50_000, pytest.param(200_000, marks=pytest.mark.long), MIB]
)
def test_honest_messages_of_any_size_are_read(name: str, size: int) -> None:
    # Records of a byte each are 200 bytes of memory each.
    assert compiled(name).json(body_of(name, min(size, SIZES_MAX.get(name, size))))


@pytest.mark.parametrize(
    "name",
    [
        "small records",
        "points",
        "empties",
        pytest.param("pairs", marks=pytest.mark.long),
        pytest.param("chains", marks=pytest.mark.long),
    ],
)
def test_values_take_no_more_memory_than_the_bytes_of_a_message_allow(name: str) -> None:
    codec, body = compiled(name), body_of(name, MIB)
    tracemalloc.start()
    try:
        with suppress(AvroError):
            codec.value(body)
        assert tracemalloc.get_traced_memory()[1] < room_allowed(len(body))
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["long name", "longest name", "long symbol"])
def test_few_bytes_become_no_large_json(name: str) -> None:
    largest = max(size for size in map(json_size, repeat(name), range(1, 1_000, 10)))
    assert 0 < largest <= json_allowed(1_000)


def json_size(name: str, size: int) -> int:
    with suppress(AvroError):
        return len(compiled(name).json(body_of(name, size)))
    return 0


@pytest.mark.parametrize("name", ["nulls", "long name", "longest name", "long symbol", "places"])
def test_a_small_message_takes_no_large_memory(name: str) -> None:
    codec, body = compiled(name), body_of(name, 105_000)
    tracemalloc.start()
    try:
        with pytest.raises(AvroError, match="takes more work"):
            codec.json(body)
        assert tracemalloc.get_traced_memory()[1] < 40 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", sorted(ALL))
def test_what_is_certain_is_read_whatever_it_is(name: str) -> None:
    codec = compiled(name)
    size = int(min(codec.certain_size, 100_000))
    body = body_of(name, size - 10)
    if len(body) <= size and "endless" not in name:
        assert codec.json(body)


def test_json_is_refused_where_nobody_could_read_it_as_avro() -> None:
    fields = [{"name": f"n{n}", "type": "null", "default": None} for n in range(900)]
    codec = AvroCodec(json.dumps(array(record("D", INT, *fields))))
    few, many = ([{"a": 1}] * count for count in (10, 400))
    body = codec.binary(few, wrapped=False, metadata={}, size=len(json.dumps(few)))
    assert len(json.loads(codec.json(body))) == len(few)
    with pytest.raises(MismatchError, match="could not be read again: as Avro it takes more work"):
        codec.binary(many, wrapped=False, metadata={}, size=len(json.dumps(many)))


def test_a_message_that_takes_too_long_is_unreadable_and_says_so() -> None:
    schema = TopicSchema(version=1, id=1, text=json.dumps(array(WORST["nulls"][0])))
    topic = Topic(name="shop.orders", content_type=ContentType.AVRO, schemas=(schema,))
    headers = [(HEADER_SCHEMA_VERSION, b"1")]
    record_ = Record(
        offset=0, timestamp_ms=1, key=None, value=body_of("nulls", 9_000), headers=headers
    )
    message = reading(topic)(record_, Partition("shop.orders", 0))
    assert message.body is None
    assert message.problem.startswith("malformed: takes more work than a message of its size may")
