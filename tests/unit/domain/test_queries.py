from typing import Any

import pytest

from app.domain.catalogue.query import parsed_query, paths_of
from app.domain.errors import InvalidQueryError
from app.filtering.queries import compiled, reader

TOPIC: dict[str, Any] = {
    "name": "shop.orders",
    "owner": {"source": "Plaintext", "id": "Shop Team"},
    "partitions": 8,
    "createdAt": 1700000000.25,
    "trackingEnabled": False,
    "rate": "12.5",
}


def holds(query: dict[str, Any]) -> bool:
    return compiled(parsed_query({"query": query}))(reader(TOPIC))


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"name": "shop.orders"},
        {"name": {"eq": "shop.orders"}, "partitions": 8},
        {"partitions": "8"},
        {"trackingEnabled": False},
        {"trackingEnabled": "false"},
        {"nothing": None},
        {"name": {"ne": "shop.other"}},
        {"nothing": {"ne": "x"}},
        {"name": {"like": "shop\\..*"}},
        {"name": {"like": "(?i).*ORD.*"}},
        {"owner.id": {"like": ".*Team"}},
        {"partitions": {"like": "[0-9]"}},
        {"name": {"in": ["a", "shop.orders"]}},
        {"createdAt": {"gt": 1700000000}},
        {"createdAt": {"gt": "1600000000", "lt": 1800000000}},
        {"rate": {"gt": 12, "lt": 13}},
        {"or": [{"name": "x"}, {"partitions": 8}]},
        {"and": [{"name": "shop.orders"}, {"partitions": 8}]},
        {"not": {"name": "x"}},
        {"not": [{"name": "x"}, {"name": "y"}]},
        {"name": {"not": {"like": "x.*"}}},
        {"name": {"not": "x"}},
        {"name": {"or": ["x", {"like": "shop.*"}]}},
    ],
    ids=str,
)
def test_holds(query: dict[str, Any]) -> None:
    assert holds(query)


@pytest.mark.parametrize(
    "query",
    [
        {"name": "shop"},
        {"name": "shop.orders", "partitions": 9},
        {"owner": {"eq": "Shop Team"}},
        {"name.first": "shop"},
        {"trackingEnabled": 0},
        {"trackingEnabled": True},
        {"name": {"like": "shop"}},
        {"name": {"like": "orders"}},
        {"nothing": {"like": ".*"}},
        {"owner": {"like": ".*"}},
        {"name": {"in": []}},
        {"name": {"gt": 1}},
        {"nothing": {"lt": 1}},
        {"or": [{"name": "x"}, {"partitions": 9}]},
        {"not": {"partitions": 8}},
        {"not": [{"name": "x"}, {"partitions": 8}]},
        {"name": {"and": [{"like": "shop.*"}, {"like": ".*x"}]}},
    ],
    ids=str,
)
def test_does_not_hold(query: dict[str, Any]) -> None:
    assert not holds(query)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "query"),
        ({"query": "name"}, "query"),
        ({"query": {"name": {"near": "x"}}}, "near is no operator"),
        ({"query": {"name": {"like": 5}}}, "regex"),
        ({"query": {"name": {"like": "("}}}, "RE2"),
        ({"query": {"name": {"like": "x" * 1001}}}, "1000"),
        ({"query": {"name": {"in": "x"}}}, "list"),
        ({"query": {"createdAt": {"gt": "soon"}}}, "number"),
        ({"query": {"or": {"name": "x"}}}, "list"),
        ({"query": {"or": []}}, "at least one"),
        ({"query": {"and": ["x"]}}, "objects"),
        ({"query": {"or": [{"name": "x"}] * 101}}, "100 conditions"),
        ({"query": {"name": {"in": ["x"] * 1001}}}, "name: in must have at most 1,000"),
        ({"query": {"or": [{"id": {"in": [5] * 501}}] * 2}}, "id: in must have at most 1,000"),
    ],
)
def test_what_cannot_be_looked_for_is_refused(body: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidQueryError, match=says):
        compiled(parsed_query(body))


@pytest.mark.parametrize("word", ["not", "name"])
def test_a_query_is_as_deep_as_is_allowed_and_no_deeper(word: str) -> None:
    below: dict[str, Any] = {"name": "x"} if word == "not" else {"not": "x"}
    for _ in range(25):
        below = {"not": below}
    query = below if word == "not" else {"name": below}
    with pytest.raises(InvalidQueryError, match="20 levels"):
        parsed_query({"query": query})


def test_as_many_values_as_are_allowed_are_compared() -> None:
    names = [*(f"shop.{number}" for number in range(999)), TOPIC["name"]]
    assert holds({"name": {"in": names}})


def test_says_which_fields_it_looks_at() -> None:
    query = {"a": 1, "or": [{"b.c": 1}, {"not": {"d": {"gt": 1, "lt": 2}}}]}
    assert paths_of(parsed_query({"query": query})) == {"a", "b.c", "d"}
