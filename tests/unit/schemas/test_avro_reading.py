"""Reading Avro: the values that fastavro reads, and what is no message."""

import io
import json
from contextlib import suppress
from decimal import Decimal
from typing import Any, Final

import fastavro
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.schemas.avro import AvroCodec
from app.schemas.problems import AvroError, MismatchError

# By names, so that each type is there once however often a schema has it.
PRIMITIVES: Final = st.sampled_from(
    ["null", "boolean", "int", "long", "float", "double", "string", "bytes"]
)
NUMBERS: Final = st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 300)


def price(kind: str, **others: object) -> dict[str, Any]:
    return {"type": kind, "logicalType": "decimal", "precision": 12, "scale": 3, **others}


def record(name: str, kinds: list[object]) -> dict[str, Any]:
    fields = [{"name": f"f{place}", "type": kind} for place, kind in enumerate(kinds)]
    return {"type": "record", "name": name, "fields": fields}


@st.composite
def kinds(draw: st.DrawFn, depth: int = 3) -> Any:  # noqa: ANN401 - a type is of any form
    """A type of Avro."""
    form = draw(st.sampled_from(["plain", "list", "map", "union", "record", "named"]))
    name = f"N{draw(st.uuids()).hex}"
    if form == "plain" or depth == 0:
        return draw(PRIMITIVES)
    if form == "list":
        return {"type": "array", "items": record(name, ["int", draw(kinds(depth=depth - 1))])}
    if form == "map":
        return {"type": "map", "values": draw(kinds(depth=depth - 1))}
    if form == "record":
        return record(name, draw(st.lists(kinds(depth=depth - 1), min_size=1, max_size=4)))
    if form == "union":
        others = draw(st.lists(PRIMITIVES, unique=True, min_size=1, max_size=4))
        return [*others, record(name, [draw(kinds(depth=depth - 1))])]
    symbols = [f"S{place}" for place in range(draw(st.sampled_from([1, 3, 200])))]
    return draw(
        st.sampled_from(
            [
                {"type": "enum", "name": name, "symbols": symbols},
                {"type": "fixed", "name": name, "size": 3},
                price("bytes"),
                price("fixed", name=name, size=6),
            ]
        )
    )


PLAIN: Final[dict[str, st.SearchStrategy[Any]]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": NUMBERS,
    "float": st.floats(width=32, allow_nan=False, allow_infinity=False),
    "double": st.floats(allow_nan=False, allow_infinity=False),
    "string": st.text(max_size=80),
    "bytes": st.binary(max_size=80),
}


def values(kind: Any) -> st.SearchStrategy[Any]:  # noqa: ANN401 - a type is of any form
    """Values of the type as fastavro writes them."""
    if isinstance(kind, list):
        return st.one_of([values(each) for each in kind])
    if isinstance(kind, str):
        return PLAIN[kind]
    if "logicalType" in kind:
        return st.integers(-(10**12) + 1, 10**12 - 1).map(lambda n: Decimal(n).scaleb(-3))
    made: dict[str, Any] = {
        "record": lambda: st.fixed_dictionaries(
            {each["name"]: values(each["type"]) for each in kind["fields"]}
        ),
        "array": lambda: st.lists(values(kind["items"]), max_size=3),
        "map": lambda: st.dictionaries(st.text(max_size=3), values(kind["values"]), max_size=3),
        "enum": lambda: st.sampled_from(kind["symbols"]),
        "fixed": lambda: st.binary(min_size=kind["size"], max_size=kind["size"]),
    }
    found: st.SearchStrategy[Any] = made[kind["type"]]()
    return found


def as_json(value: Any) -> Any:  # noqa: ANN401 - JSON is of any type
    """What fastavro reads, as our JSON has it."""
    if isinstance(value, dict):
        return {key: as_json(each) for key, each in value.items()}
    if isinstance(value, list):
        return [as_json(each) for each in value]
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return format(value, "f") if isinstance(value, Decimal) else value


def by_fastavro(schema: Any, body: bytes) -> Any:  # noqa: ANN401 - of any type
    return as_json(fastavro.schemaless_reader(io.BytesIO(body), schema, None))


def codec(schema: object) -> AvroCodec:
    return AvroCodec(json.dumps(schema))


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_messages_are_read_as_fastavro_reads_them(data: st.DataObject) -> None:
    schema = record("Root", [data.draw(kinds())])
    ours, theirs = codec(schema), fastavro.parse_schema(schema)
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, theirs, data.draw(values(schema)))
    body = stream.getvalue()
    assert ours.value(body) == by_fastavro(theirs, body)
    for cut in range(len(body)):
        # A part of it may be a message, but it never is more than that.
        with suppress(AvroError):
            assert ours.value(body[:cut]) == by_fastavro(theirs, body[:cut])


@settings(deadline=None, max_examples=300)
@given(kinds(), st.binary(max_size=40))
def test_bytes_are_an_error_or_what_fastavro_reads(kind: object, body: bytes) -> None:
    schema = record("Root", [kind])
    with suppress(AvroError):
        found = codec(schema).json(body)
        # Its decimals are cut to their precision.
        if b"decimal" not in json.dumps(schema).encode():
            assert json.loads(found) == json.loads(json.dumps(by_fastavro(schema, body)))


@pytest.mark.parametrize("number", [0, -1, 63, 64, -65, 8_191, 8_192, 2**31, 2**63 - 1, -(2**63)])
def test_numbers_of_each_length_are_read(number: int) -> None:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, "long", number)
    assert codec("long").value(stream.getvalue()) == number


@pytest.mark.parametrize("number", [64, -65, 2**31 - 1, -(2**31)])
def test_ints_of_each_length_are_read(number: int) -> None:
    assert codec("int").value(codec("long").binary(number, wrapped=False, metadata={})) == number


def test_blocks_with_their_length_are_read() -> None:
    # Two items, of three bytes: by the specification the count is negative then.
    assert codec({"type": "array", "items": "long"}).value(b"\x03\x06\x02\x80\x01\x02\x04\x00") == [
        1,
        64,
        2,
    ]
    assert codec({"type": "map", "values": "int"}).value(b"\x01\x06\x02a\x02\x00") == {"a": 1}


@pytest.mark.parametrize(
    ("kind", "body", "says"),
    [
        ("long", b"", "ends too early"),
        ("long", b"\xff" * 9, "ends too early"),
        ("long", b"\xff" * 9 + b"\x02", "number of more than 64 bits"),
        ("string", b"\x80" * 9 + b"\x08", "number of more than 64 bits"),
        ("int", b"\x80\x80\x80\x80\x10", "int of more than 32 bits"),
        ("int", b"\x81\x80\x80\x80\x10", "int of more than 32 bits"),
        ("long", b"\x80", "ends too early"),
        ("long", b"\x80" * 10 + b"\x01", "number of more than 64 bits"),
        ("boolean", b"", "ends too early"),
        ("double", b"1234", "ends too early"),
        ("string", b"\x01", "ends too early"),
        ("string", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", "is not Avro"),
        ("int", b"\x02\x02", "ends at byte 1"),
        (["null", "int"], b"\x04", "number 2 of 2"),
        (["null", "int"], b"\x01", "number -1 of 2"),
        (["null", "int"], b"", "ends too early"),
        (["null", "int", "string"], b"\x01", "number -1 of 3"),
        (["null", "int", "string"], b"\x80\x01", "number 64 of 3"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", "number 1 of 1"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x01", "number -1 of 1"),
        ({"type": "array", "items": "int"}, b"\x7e", "ends too early"),
        (price("bytes"), b"\xa0\x1f" + b"\x7f" * 2_000, "more than 3000 digits"),
    ],
)
def test_what_is_no_message_is_said(kind: object, body: bytes, says: str) -> None:
    with pytest.raises(AvroError, match=says):
        codec(kind).json(body)


@given(st.integers(-(10**30), 10**30), st.integers(0, 20))
@example(-5, 2)
@example(0, 2)
@example(100, 0)
def test_decimals_have_all_their_digits(unscaled: int, scale: int) -> None:
    kind = price("bytes", precision=31, scale=scale)
    raw = unscaled.to_bytes(14, signed=True)
    found = codec(kind).value(b"\x1c" + raw)
    assert found == format(Decimal(f"{unscaled}e-{scale}"), "f")


def chain(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {"next": []}
    for _ in range(levels - 1):
        value = {"next": [value]}
    return value


def test_what_is_published_can_be_read_however_deep_it_is() -> None:
    next_ = {"name": "next", "type": {"type": "array", "items": "Node"}}
    node = codec({"type": "record", "name": "Node", "fields": [next_]})
    for levels in (10, 50, 60, 110):
        body = node.binary(chain(levels), wrapped=False, metadata={})
        assert json.loads(node.json(body)) == chain(levels)
    for levels in (140, 200, 330):
        with pytest.raises(MismatchError, match=r"could not be read again|nested too deep"):
            node.binary(chain(levels), wrapped=False, metadata={})
