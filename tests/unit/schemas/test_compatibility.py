"""Which new versions of an Avro schema read what the old one wrote, as fastavro reads it."""

import io
import json
from typing import Any

import fastavro
import pytest
from fastavro.utils import generate_many

from app.domain.catalogue.schema import ContentType
from app.schemas.compatibility import PAIRS_MAX, backward_problem

FieldList = list[dict[str, Any]]


def record(*fields: dict[str, Any], name: str = "shop.R", **others: object) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **others}


def field(kind: object, name: str = "a", **others: object) -> dict[str, Any]:
    return {"name": name, "type": kind, **others}


def enum(*symbols: str, **others: object) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **others}


def fixed(size: int) -> dict[str, Any]:
    return {"type": "fixed", "name": "F", "size": size}


def decimal(scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": scale}


FIT: list[tuple[object, object]] = [
    ("int", "int"),
    ("int", "long"),
    ("int", "double"),
    ("long", "float"),
    ("string", "bytes"),
    ("int", ["null", "int"]),
    (["null", "int"], ["null", "long", "string"]),
    (record(field("int")), record(field("int"), field("int", "b", default=1))),
    (record(field("int"), field("int", "b")), record(field("int"))),
    (record(field("int")), record(field("int", "b", aliases=["a"]))),
    (record(field("int")), record(field("int"), name="other.R")),
    (enum("A"), enum("A", "B")),
    (enum("A", "B"), enum("A", default="A")),
    (fixed(2), fixed(2)),
    ({"type": "array", "items": "int"}, {"type": "array", "items": "long"}),
    ({"type": "map", "values": "int"}, {"type": "map", "values": "long"}),
    (decimal(2), decimal(2)),
    (
        record(field(["null", "R"], default=None)),
        record(field(["null", "R"], default=None), field("int", "b", default=0)),
    ),
]
DO_NOT_FIT: list[tuple[object, object, str]] = [
    ("long", "int", "was long and is int"),
    ("int", "string", "was int and is string"),
    (["null", "int"], "int", "was null and is int"),
    (["null", "string"], ["null", "int"], "cannot be string any more"),
    (record(field("int")), record(field("int"), field("int", "b")), "b is new and has no default"),
    (record(field("long")), record(field("int")), "a was long and is int"),
    (record(field("int")), record(field("int"), name="S"), "was shop.R and is S"),
    (enum("A", "B"), enum("A"), "lacks the symbol B"),
    (fixed(2), fixed(4), "was of 2 bytes and is of 4"),
    ({"type": "array", "items": "string"}, {"type": "array", "items": "int"}, "[] was string"),
    (decimal(2), decimal(3), "decimal of another scale"),
]


def problem(old: object, new: object) -> str | None:
    return backward_problem(ContentType.AVRO, new=json.dumps(new), old=json.dumps(old))


@pytest.mark.parametrize(("old", "new"), FIT)
def test_what_fits_is_read_by_fastavro_too(old: Any, new: Any) -> None:  # noqa: ANN401 - JSON
    assert problem(old, new) is None
    for value in generate_many(old, 5):
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, old, value)
        stream.seek(0)
        fastavro.schemaless_reader(stream, old, new)


@pytest.mark.parametrize(("old", "new", "says"), DO_NOT_FIT)
def test_what_does_not_fit_is_refused_with_its_place(old: object, new: object, says: str) -> None:
    assert says in (problem(old, new) or "")


def test_a_json_schema_may_change_in_any_way() -> None:
    kind = ContentType.JSON
    assert backward_problem(kind, new='{"type": "string"}', old='{"type": "integer"}') is None


def test_records_that_do_not_fit_are_compared_once_by_whatever_ways_they_are_reached() -> None:
    last = 18
    old: dict[str, Any] = {"type": "record", "name": f"O{last}", "fields": []}
    old["fields"].append({"name": "f", "type": "string"})
    new: list[Any] = [
        {"type": "record", "name": f"N{last}_{n}", "aliases": [f"O{last}"], "fields": [
            {"name": "f", "type": "int"}
        ]}
        for n in range(4)
    ]  # fmt: skip
    for at in reversed(range(last)):
        old = {"type": "record", "name": f"O{at}", "fields": [{"name": "f", "type": old}]}
        names = [f"N{at + 1}_{n}" for n in range(4)]
        new = [
            {"type": "record", "name": f"N{at}_{n}", "aliases": [f"O{at}"], "fields": [
                {"name": "f", "type": new if n == 0 else names}
            ]}
            for n in range(4)
        ]  # fmt: skip
    problem = backward_problem(ContentType.AVRO, new=json.dumps(new[0]), old=json.dumps(old))
    assert problem is not None


def by_name(size: int, last: object) -> list[object]:
    """Each leads to the one before it, though none is written in another."""
    first = record(field(last), name="R0")
    return [first, *(record(field(["null", f"R{n - 1}"]), name=f"R{n}") for n in range(1, size))]


def said(new: object, old: object, pairs_max: int = PAIRS_MAX) -> str | None:
    texts = {"new": json.dumps(new), "old": json.dumps(old)}
    return backward_problem(ContentType.AVRO, **texts, pairs_max=pairs_max)


def test_what_was_found_to_fit_for_the_sake_of_what_does_not_is_looked_at_again() -> None:
    inner = record(field(["null", "A"]), name="B")
    a = record(field(["null", inner], "b"), field("int", "z"), name="A")
    changed = record(field(["null", inner], "b"), field("string", "z"), name="A")
    renamed = record(name="A2", aliases=["A"])
    old = record(field(a, "x"), field("B", "y"))
    new = record(field([changed, renamed], "x"), field("B", "y"))
    assert said(new, old) == "y.a cannot be shop.A any more"


def test_records_that_lead_to_each_other_too_far_are_no_crash() -> None:
    last = field("shop.R299", "last")
    one, other = (record(field(by_name(300, "int"), name, default={"a": 1}), last) for name in "bc")
    assert said(one, one) is None
    assert said(one, other) == "is nested too deep to compare"


def test_types_that_take_too_much_to_compare_are_not_compared() -> None:
    kinds = [record(field("int"), name=f"R{n}") for n in range(50)]
    assert said(kinds[:40], kinds[:40], 1_000) is None
    assert said([*reversed(kinds)], kinds, 1_000) == "has too many types to compare"
