"""Avro messages: into JSON and back, and what hostile schemas and messages cannot do."""

import io
import json
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.errors import MessageTooLargeError, ValidationFailedError
from app.schemas.avro import AvroCodec
from app.schemas.avro_decimals import DIGITS_MAX
from app.schemas.avro_prices import AvroPrices
from app.schemas.avro_shapes import Shapes
from app.schemas.avro_types import RECORDS_MAX, AvroSchema
from app.schemas.problems import AvroError, MismatchError

NODE = {
    "type": "record",
    "name": "a.Node",
    "fields": [{"name": "next", "type": ["null", "Node"], "default": None}],
}
ALL = {
    "type": "record",
    "name": "a.All",
    "fields": [
        {"name": "flag", "type": "boolean"},
        {"name": "small", "type": "int"},
        {"name": "big", "type": "long"},
        {"name": "real", "type": "double"},
        {"name": "text", "type": "string"},
        {"name": "raw", "type": "bytes"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "same", "type": "Kind"},
        {"name": "four", "type": {"type": "fixed", "name": "Four", "size": 4}},
        {"name": "many", "type": {"type": "array", "items": "int"}},
        {"name": "named", "type": {"type": "map", "values": "long"}},
        {"name": "maybe", "type": ["null", "string", "long"], "default": None},
        {"name": "inner", "type": NODE},
    ],
}
VALUES = st.fixed_dictionaries(
    {
        "flag": st.booleans(),
        "small": st.integers(-(2**31), 2**31 - 1),
        "big": st.integers(-(2**63), 2**63 - 1),
        "real": st.floats(allow_nan=False, allow_infinity=False),
        "text": st.text(max_size=20),
        "raw": st.binary(max_size=20).map(lambda raw: raw.decode("latin-1")),
        "kind": st.sampled_from(["A", "B"]),
        "same": st.sampled_from(["A", "B"]),
        "four": st.binary(min_size=4, max_size=4).map(lambda raw: raw.decode("latin-1")),
        "many": st.lists(st.integers(-5, 5), max_size=5),
        "named": st.dictionaries(st.text(max_size=3), st.integers(-5, 5), max_size=3),
        "maybe": st.none() | st.text(max_size=3) | st.integers(-5, 5),
        "inner": st.just({"next": {"next": None}}),
    }
)


def codec(schema: object) -> AvroCodec:
    return AvroCodec(json.dumps(schema))


def written(schema: object, value: object, *, wrapped: bool = False) -> bytes:
    return codec(schema).binary(value, wrapped=wrapped, metadata={"messageId": "m-1"})


def read(schema: object, body: bytes) -> Any:  # noqa: ANN401 - JSON is of any type
    return json.loads(codec(schema).json(body))


def field(kind: object, **others: object) -> dict[str, Any]:
    one = {"name": "a", "type": kind, **others}
    return {"type": "record", "name": "R", "fields": [one]}


@settings(deadline=None, max_examples=25)
@given(VALUES)
def test_json_comes_back_as_it_went_in_and_others_read_it_too(value: dict[str, Any]) -> None:
    body = written(ALL, value)
    assert read(ALL, body) == value
    seen: Any = fastavro.schemaless_reader(io.BytesIO(body), ALL, None)
    assert (seen["big"], seen["text"], seen["maybe"]) == (
        value["big"],
        value["text"],
        value["maybe"],
    )


@pytest.mark.parametrize(
    ("kind", "value", "path", "says"),
    [
        ("int", 2**31, "a", "32 bits"),
        ("long", 1.5, "a", "whole number"),
        ("long", True, "a", "whole number"),
        ("string", 1, "a", "must be a string"),
        ("bytes", "ż", "a", "characters 0 to 255"),
        ("float", 1e300, "a", "too large"),
        ("boolean", 0, "a", "true or false"),
        ({"type": "enum", "name": "E", "symbols": ["X"]}, "Y", "a", "must be one of X"),
        ({"type": "fixed", "name": "F", "size": 2}, "x", "a", "2 bytes"),
        ({"type": "array", "items": "int"}, [1, "x"], "a.1", "whole number"),
        ({"type": "map", "values": "int"}, {"k": "x"}, "a.k", "whole number"),
        (["null", "int"], "x", "a", "whole number"),
        (["int", "string"], 1.5, "a", "one of int, string"),
    ],
)
def test_what_does_not_fit_is_named_by_its_path(
    kind: object, value: object, path: str, says: str
) -> None:
    with pytest.raises(MismatchError) as refused:
        written(field(kind), {"a": value})
    told = refused.value.reported()
    assert (told.path, says in told.message) == (path, True), told


def test_a_field_that_is_absent_has_its_default_or_is_missed() -> None:
    assert read(field("int", default=7), written(field("int", default=7), {})) == {"a": 7}
    with pytest.raises(MismatchError, match="is missing"):
        written(field("int"), {"other": 1})


def test_unions_are_plain_or_wrapped_as_avro_has_them() -> None:
    kind = field(["null", "int", "string"])
    assert written(kind, {"a": "x"}) == written(kind, {"a": {"string": "x"}}, wrapped=True)
    for value in ("x", {"long": 1}, {"int": 1, "string": "x"}):
        with pytest.raises(MismatchError, match="one member"):
            written(kind, {"a": value}, wrapped=True)


def test_decimals_are_texts_that_say_all_their_digits() -> None:
    kind = field({"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2})
    for value, text in (("1.20", "1.20"), (1.2, "1.20"), (-7, "-7.00"), ("0.05", "0.05")):
        assert read(kind, written(kind, {"a": value})) == {"a": text}
    for wrong in ("1.234", 12345, "x", "NaN", True, "1e999999999"):
        with pytest.raises(MismatchError, match="at most 6 digits"):
            written(kind, {"a": wrong})


PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
FIXED_PRICE = {**PRICE, "type": "fixed", "name": "F", "precision": 9, "size": 4}


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (PRICE, "5", "0.53"),
        (PRICE, "\u0078", "1.20"),
        (PRICE, "\u00ff", "-0.01"),
        (PRICE, "\u0000\u0001\u0000", "2.56"),
        (PRICE, 5, "5.00"),
        (FIXED_PRICE, "\u0000\u0000\u0000x", "1.20"),
        (["null", PRICE], {"bytes": "5"}, "0.53"),
        (["null", FIXED_PRICE], {"F": "\u0000\u00005."}, "136.14"),
        ({"type": "array", "items": PRICE}, ["5"], ["0.53"]),
        (field(["null", PRICE]), {"a": {"bytes": "5"}}, {"a": "0.53"}),
    ],
)
def test_decimals_in_avros_own_json_are_their_bytes(
    kind: object, value: object, text: object
) -> None:
    schema = {"type": "record", "name": "Top", "fields": [{"name": "top", "type": kind}]}
    assert read(schema, written(schema, {"top": value}, wrapped=True)) == {"top": text}


@pytest.mark.parametrize(
    ("kind", "value", "says"),
    [
        (PRICE, "ż", "characters 0 to 255"),
        (PRICE, "\u0002T\u000b\u00e4\u0000", "at most 10 digits"),
        (FIXED_PRICE, "5", "4 bytes"),
    ],
)
def test_bytes_that_are_no_such_decimal_are_refused(kind: object, value: str, says: str) -> None:
    with pytest.raises(MismatchError, match=says):
        written(field(kind), {"a": value}, wrapped=True)


@pytest.mark.parametrize(
    ("kind", "default", "value"),
    [
        (PRICE, "\u0000", "0.00"),
        (PRICE, "5", "0.53"),
        (FIXED_PRICE, "\u0000\u0000\u0000x", "1.20"),
        ([PRICE, "null"], "5", "0.53"),
        (field(PRICE), {"a": "5"}, {"a": "0.53"}),
        (["string", "null"], "5", "5"),
    ],
)
@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("others", [0, 9])
def test_decimals_in_defaults_are_their_bytes(
    kind: object, default: object, value: object, *, wrapped: bool, others: int
) -> None:
    """Many other fields have all defaults encoded in advance."""
    fields = [{"name": f"f{n}", "type": "int", "default": 0} for n in range(others)]
    fields.append({"name": "top", "type": kind, "default": default})
    schema = {"type": "record", "name": "Top", "fields": fields}
    assert read(schema, written(schema, {}, wrapped=wrapped))["top"] == value


@pytest.mark.parametrize("digits", [DIGITS_MAX, DIGITS_MAX + 1])
def test_a_decimal_may_have_so_many_digits_and_no_more(digits: int) -> None:
    kind = field({"type": "bytes", "logicalType": "decimal", "precision": DIGITS_MAX + 1})
    text = "-" + "7" * digits
    if digits <= DIGITS_MAX:
        assert read(kind, written(kind, {"a": text})) == {"a": text}
    else:
        with pytest.raises(MismatchError, match="digits"):
            written(kind, {"a": text})


@pytest.mark.parametrize("name", ["map", "array"])
def test_a_record_may_be_named_as_what_is_no_named_type(name: str) -> None:
    inner = {**field("int"), "name": name}
    fields = [
        {"name": "one", "type": inner},
        {"name": "two", "type": name},
        {"name": "map", "type": {"type": "map", "values": "int"}},
        {"name": "array", "type": {"type": "array", "items": "int"}},
    ]
    schema = {"type": "record", "name": "R", "fields": fields}
    value = {"one": {"a": 1}, "two": {"a": 2}, "map": {"k": 3}, "array": [4]}
    assert read(schema, written(schema, value)) == value


def test_times_are_the_numbers_that_avro_has() -> None:
    kind = field({"type": "long", "logicalType": "timestamp-millis"})
    assert read(kind, written(kind, {"a": 1_700_000_000_000})) == {"a": 1_700_000_000_000}


def test_hermes_metadata_are_filled_in_and_never_shown() -> None:
    map_of = {"type": "map", "values": "string"}
    for kind in (map_of, ["null", map_of]):
        schema = {
            "type": "record",
            "name": "R",
            "fields": [{"name": "__metadata", "type": kind}, {"name": "a", "type": "int"}],
        }
        for wrapped in (False, True):
            body = written(schema, {"a": 1}, wrapped=wrapped)
            assert codec(schema).value(body)["__metadata"] == {"messageId": "m-1"}
            assert read(schema, body) == {"a": 1}


MAP_OF_TEXTS = {"type": "map", "values": "string"}


def with_metadata(kind: object, *, last: bool = False) -> dict[str, Any]:
    fields: list[dict[str, Any]] = [
        {"name": "__metadata", "type": kind},
        {"name": "a", "type": "string"},
        {"name": "next", "type": ["null", "R"], "default": None},
        {"name": "x", "type": ["double", "int"]},
    ]
    return {"type": "record", "name": "R", "fields": fields[::-1] if last else fields}


@pytest.mark.parametrize("kind", [MAP_OF_TEXTS, ["null", MAP_OF_TEXTS], ["string", MAP_OF_TEXTS]])
@pytest.mark.parametrize("last", [False, True])
def test_avro_gets_the_metadata_and_stays_the_same_otherwise(kind: object, *, last: bool) -> None:
    schema = with_metadata(kind, last=last)
    below = {"__metadata": {"b": "2"}, "a": "y", "next": None, "x": ("int", 2)}
    value = {"__metadata": {"own": "1"}, "a": "x", "next": below, "x": float("inf")}
    given = io.BytesIO()
    fastavro.schemaless_writer(given, schema, value)
    found = codec(schema).completed(given.getvalue(), metadata={"messageId": "m-1"})
    expected = io.BytesIO()
    both = value | {"__metadata": {"own": "1", "messageId": "m-1"}}
    fastavro.schemaless_writer(expected, schema, both)
    assert found == expected.getvalue()


def test_avro_without_a_field_for_metadata_stays_the_same() -> None:
    assert codec(field("int")).completed(b"\x02", metadata={"messageId": "m-1"}) == b"\x02"
    with pytest.raises(AvroError, match="ends at byte 1"):
        codec(field("int")).completed(b"\x02\x02", metadata={})
    with pytest.raises(AvroError, match="too early"):
        codec(with_metadata(MAP_OF_TEXTS)).completed(b"\x00", metadata={})


def test_avro_that_metadata_make_too_large_is_refused() -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "__metadata", "type": MAP_OF_TEXTS}],
    }
    with pytest.raises(MessageTooLargeError):
        codec(schema).completed(b"\x00", metadata={"messageId": "m-1"}, size_max=8)


@pytest.mark.parametrize(
    ("kind", "given", "wrapped"),
    [
        (MAP_OF_TEXTS, {"own": "1", "messageId": "other"}, False),
        (MAP_OF_TEXTS, {"own": "1"}, True),
        (["null", MAP_OF_TEXTS], {"own": "1"}, False),
        (["null", MAP_OF_TEXTS], {"map": {"own": "1"}}, True),
    ],
)
def test_json_that_has_metadata_gets_the_id_too(
    kind: object, given: dict[str, Any], *, wrapped: bool
) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "__metadata", "type": kind}]}
    body = written(schema, {"__metadata": given}, wrapped=wrapped)
    assert codec(schema).value(body) == {"__metadata": {"own": "1", "messageId": "m-1"}}


def test_null_instead_of_metadata_becomes_the_id() -> None:
    kind = ["null", MAP_OF_TEXTS]
    schema = {"type": "record", "name": "R", "fields": [{"name": "__metadata", "type": kind}]}
    body = written(schema, {"__metadata": None})
    assert codec(schema).value(body) == {"__metadata": {"messageId": "m-1"}}


@pytest.mark.parametrize(
    ("given", "wrapped"), [(1, False), ({"own": 1}, False), ({"own": "1"}, True)]
)
def test_metadata_of_another_type_are_refused(given: object, *, wrapped: bool) -> None:
    kind = ["null", MAP_OF_TEXTS]
    schema = {"type": "record", "name": "R", "fields": [{"name": "__metadata", "type": kind}]}
    with pytest.raises(MismatchError) as refused:
        written(schema, {"__metadata": given}, wrapped=wrapped)
    assert refused.value.reported().path.startswith("__metadata")


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ("{", "is not JSON"),
        ('"nope"', "unknown type nope"),
        ("7", "is not an Avro schema"),
        ('{"type": "array"}', "is not an Avro schema"),
        (
            '{"type": "record", "name": "R", "fields": [{"name": null, "type": "int"}]}',
            "the name of a field must be a text",
        ),
        ('["int", "int"]', "type twice"),
        ('[["int"]]', "union in it"),
        ('{"type": "enum", "name": "E", "symbols": []}', "without symbols"),
        ('{"type": "fixed", "name": "F", "size": -1}', "whole number"),
        ('{"type": "fixed", "name": "F", "size": 2097153}', "whole number of 0 to 2097152"),
        ('{"type": "array", "items": "null"}', "takes? no room"),
        ('{"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}', "no room"),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "R"}]}',
            "without end",
        ),
        ('{"type": "array", "items": ' * 70 + '"int"' + "}" * 70, "nested deeper"),
    ],
)
def test_what_is_no_avro_schema_or_a_dangerous_one_is_refused(schema: str, says: str) -> None:
    with pytest.raises(ValidationFailedError, match=says) as refused:
        AvroCodec(schema)
    assert [each.path for each in refused.value.details] == ["schema"]


def doubling() -> Any:  # noqa: ANN401 - JSON is of any type
    """A record with two of another, which has two of another, … and not a byte in all of them."""
    inner: Any = {"type": "record", "name": "R0", "fields": []}
    for level in range(1, 20):
        fields = [{"name": "a", "type": inner}, {"name": "b", "type": inner["name"]}]
        inner = {"type": "record", "name": f"R{level}", "fields": fields}
    return inner


def test_a_record_that_grows_out_of_nothing_is_refused() -> None:
    with pytest.raises(ValidationFailedError, match="too much takes no room"):
        codec(doubling())


def chained(size: int) -> list[Any]:
    """Records that have no other written in them, but each the one before it by name."""
    names = [f"R{level}" for level in range(size)]
    return [
        {"type": "record", "name": name, "fields": [{"name": "a", "type": below}]}
        for name, below in zip(names, ["int", *names], strict=False)
    ]


@pytest.mark.parametrize("around", [lambda kinds: kinds, field])
def test_too_many_records_that_are_in_each_other_by_name_are_refused(
    around: Callable[[object], object],
) -> None:
    codec(around(chained(RECORDS_MAX)))
    for size in (RECORDS_MAX + 1, 600):
        with pytest.raises(ValidationFailedError, match="more than 100 records in each other"):
            codec(around(chained(size)))


def test_a_field_that_may_be_null_is_not_looked_at_before_it_is_written() -> None:
    shapes = Shapes(AvroSchema(json.dumps(field(chained(2)))))
    looks = [shapes.looks(kinds) for kinds in (["null", "R1"], ["R0"], ["null", "R0", "R1"])]
    assert [[each.may_be is None for each in union] for union in looks] == [
        [True, True],
        [True],
        [True, False, False],
    ]


def used(kind: object, union: list[str], times: int) -> dict[str, Any]:
    fields = [{"name": "first", "type": kind}]
    fields += [{"name": f"f{n}", "type": union} for n in range(times)]
    return {"type": "record", "name": "Root", "fields": fields}


def peak_bytes(schema: object) -> int:
    text = json.dumps(schema)
    tracemalloc.start()
    try:
        AvroCodec(text)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


LARGE_ENUM: Any = {"type": "enum", "name": "E", "symbols": [f"S{n}" for n in range(5_000)]}
LARGE_RECORD: Any = {
    "type": "record",
    "name": "E",
    "fields": [{"name": f"a{n}", "type": "int"} for n in range(1_000)],
}


@pytest.mark.parametrize("kind", [LARGE_ENUM, LARGE_RECORD])
def test_a_large_type_is_looked_through_once_however_often_it_is_used(kind: object) -> None:
    once, often = (peak_bytes(used(kind, ["int", "E"], times)) for times in (1, 400))
    few = peak_bytes(used(kind, ["int", "string"], 400))
    assert often < 2 * (once + few)


@pytest.mark.parametrize("kind", [LARGE_ENUM, LARGE_RECORD])
def test_a_large_type_is_priced_once(kind: object) -> None:
    prices = AvroPrices(AvroSchema(json.dumps(kind)))
    assert prices.of("E") is prices.of("E")


def test_the_name_of_a_union_does_not_write_all_of_it_out() -> None:
    schema = AvroSchema(json.dumps(chained(20)))
    assert (schema.name_of(schema.root), schema.name_of("R1")) == ("[]", "R1")


def test_an_array_of_what_grows_out_of_nothing_is_refused_before_it_is_looked_through() -> None:
    many = {"name": "many", "type": {"type": "array", "items": "R19"}}
    last = {"type": "record", "name": "Last", "fields": [many]}
    fields = [{"name": "all", "type": doubling()}, {"name": "last", "type": last}]
    with pytest.raises(ValidationFailedError, match="too much takes no room"):
        codec({"type": "record", "name": "Root", "fields": fields})


def test_a_message_nested_a_million_deep_is_an_error_and_no_crash() -> None:
    with pytest.raises(AvroError, match="nested too deep"):
        codec(NODE).json(b"\x02" * 1_000_000)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x02",
        b"\x04abc",
        b"\x02a\0",
        b"\x04\xff\xff",
        b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f",
    ],
)
def test_bytes_that_are_no_message_are_an_error(body: bytes) -> None:
    with pytest.raises(AvroError, match="is not Avro of its schema"):
        codec("string").json(body)


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=200))
def test_no_bytes_make_anything_but_a_message_or_an_error(body: bytes) -> None:
    with suppress(AvroError):
        json.loads(codec(ALL).json(body))


def test_json_that_fits_many_types_many_levels_deep_ends() -> None:
    other = {"type": "record", "name": "B", "fields": [{"name": "n", "type": ["A", "B"]}]}
    other["fields"] += [{"name": "b", "type": "int"}]  # type: ignore[operator] # a list
    fields = [{"name": "n", "type": ["A", other]}, {"name": "a", "type": "int"}]
    branches = {"type": "record", "name": "A", "fields": fields}
    value: dict[str, Any] = {}
    for _ in range(60):
        value = {"n": value, "a": 1, "b": 1}
    with pytest.raises(MismatchError, match="takes more work"):
        written(branches, value)
