import pytest

from app.api.bodies.base import JsonObject, merged


@pytest.mark.parametrize(
    ("current", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"a": "b"}, {"a": {"c": 1}}, {"a": {"c": 1}}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merges_as_rfc_7396_has_it(
    current: JsonObject, patch: JsonObject, result: JsonObject
) -> None:
    assert merged(current, patch) == result


def test_leaves_what_it_merges_as_it_was() -> None:
    current: JsonObject = {"a": {"b": 1}}
    merged(current, {"a": {"b": 2}})
    assert current == {"a": {"b": 1}}
