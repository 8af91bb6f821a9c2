import orjson
import pytest

from app.filtering.budget import WORK_MAX, Budget, ExhaustedError, PathError
from app.filtering.paths import Path

ORDER = {
    "id": "o-1",
    "customer": {"name": "Ada", "vip": True, "address": None},
    "lines": [
        {"sku": "a", "amount": 1, "price": 2.5},
        {"sku": "b", "amount": 7, "price": 10},
        {"sku": "c", "amount": 7, "gift": True},
    ],
    "a-b": {"": "empty name"},
}

FOUND = [
    ("$", [ORDER]),
    ("$.id", ["o-1"]),
    ("$.customer.name", ["Ada"]),
    ("$['customer']['name']", ["Ada"]),
    ("$.a-b['']", ["empty name"]),
    ("$.customer.address", [None]),
    ("$.customer.address.street", []),
    ("$.nobody", []),
    ("$.id.length", []),
    ("$.lines[0].sku", ["a"]),
    ("$.lines[-1].sku", ["c"]),
    ("$.lines[3].sku", []),
    ("$.lines['0']", []),
    ("$.customer[0]", []),
    ("$.lines[*].sku", ["a", "b", "c"]),
    ("$.lines[0,2].sku", ["a", "c"]),
    ("$.lines[1:].sku", ["b", "c"]),
    ("$.lines[::-1].sku", ["c", "b", "a"]),
    ("$.lines[::0].sku", []),
    ("$.customer.*", ["Ada", True, None]),
    ("$.customer['vip','name']", [True, "Ada"]),
    ("$..sku", ["a", "b", "c"]),
    ("$..['name','gift']", ["Ada", True]),
    ("$.lines[?@.amount == 7].sku", ["b", "c"]),
    ("$.lines[?(@.amount >= 7 && @.price)].sku", ["b"]),
    ("$.lines[?@.sku == 'a' || @.gift].sku", ["a", "c"]),
    ("$.lines[?!@.gift].sku", ["a", "b"]),
    ("$.lines[?@.gift == true].sku", ["c"]),
    ("$.lines[?@.price != null].sku", ["a", "b", "c"]),
    ("$.lines[?@.price > 2.4 && @.price < 3].sku", ["a"]),
    ("$.lines[?$.customer.vip == true].sku", ["a", "b", "c"]),
    ("$..[?@.sku == 'b'].amount", [7]),
]


@pytest.mark.parametrize(("path", "values"), FOUND)
def test_a_path_finds_what_the_rfc_says(path: str, values: list[object]) -> None:
    assert Path(path).values(ORDER, Budget()) == values


@pytest.mark.parametrize(
    ("path", "written_out"),
    [
        ("id", "$.id"),
        (" $.id ", "$.id"),
        ("customer.name", "$.customer.name"),
        ("lines[*].sku", "$.lines[*].sku"),
        ("['customer'].name", "$['customer'].name"),
        ("@.id", "$.id"),
        ("*", "$.*"),
        # What is behind the dot is looked for at any depth.
        (".id", "$..id"),
        (".sku", "$..sku"),
        (".customer.name", "$..customer.name"),
    ],
)
def test_a_path_without_a_root_is_read_as_jayway_reads_it(path: str, written_out: str) -> None:
    found = Path(path).values(ORDER, Budget())
    assert found
    assert found == Path(written_out).values(ORDER, Budget())


@pytest.mark.parametrize(
    "path",
    [
        "",
        "$.",
        "$id",
        "...id",
        "$.a b",
        "$.a[",
        "$..",
        "$.a | $.b",
        "$[?@.a =~ /x/]",
        "$[?match(@.a, 'x')]",
        "$[?length(@.a) > 1]",
        "$[?@..a]",
        "$[?@.*]",
        "$[?@[?@.a]]",
        "$[?" + "(" * 5_000 + "@.a" + ")" * 5_000 + "]",
    ],
)
def test_a_path_that_is_none_or_costs_too_much_is_refused(path: str) -> None:
    with pytest.raises(PathError):
        Path(path)


@pytest.mark.parametrize("path", ["$..a", "$..*..*", "$[*]", "$[0:]", "$[?@ == 1]"])
def test_no_path_visits_more_values_than_the_bound(path: str) -> None:
    wide = [[1]] * (WORK_MAX + 1)
    with pytest.raises(ExhaustedError, match="steps of work"):
        Path(path).values(wide, Budget())


def test_a_body_nested_without_end_is_refused_by_deep_paths_alone() -> None:
    deep = orjson.loads(b"[" * 1000 + b"]" * 1000)
    with pytest.raises(PathError, match="nested deeper"):
        Path("$..a").values(deep, Budget())
    assert Path("$[0][0]").values(deep, Budget()) == [deep[0][0]]
