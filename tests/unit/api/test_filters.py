import base64
import json
import time
from dataclasses import replace
from typing import Any

import pytest

from app.api.management.catalogue.subscription_bodies import (
    changed_subscription,
    new_subscription,
)
from app.api.management.catalogue.subscription_read import subscription_read
from app.api.management.fields.filters import tried
from app.domain.catalogue.filters import FILTERS_MAX, Filter, FilterType
from app.domain.catalogue.schema import ContentType, TopicSchema
from app.domain.catalogue.subscription import State
from app.domain.catalogue.topic import Topic
from app.domain.errors import ValidationFailedError

PLAIN = Topic(name="a.b")
PRICED = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "n", "type": ["null", "int"], "default": None},
        {"name": "d", "type": "double", "default": 0},
        {"name": "st", "type": "string", "default": "NEW"},
        {"name": "__metadata", "type": {"type": "map", "values": "string"}, "default": {}},
    ],
}
AVRO = Topic(
    name="a.b",
    content_type=ContentType.AVRO,
    schemas=(TopicSchema(version=1, id=1, text=json.dumps(PRICED)),),
)
BODY = {"name": "s", "endpoint": "http://h.test/"}
BY_PATH = {"type": "jsonpath", "path": "$.a", "matcher": "x.*", "matchingStrategy": "any"}
BY_HEADER = {"type": "header", "header": "tenant", "matcher": "acme"}
BY_CEL = {"type": "cel", "expression": "body.a.startsWith('x') && headers['tenant'] == 'acme'"}


def refused_paths(filters: list[dict[str, Any]]) -> list[str]:
    with pytest.raises(ValidationFailedError) as refused:
        new_subscription("a.b", BODY | {"filters": filters}, strict=False)
    return [problem.path for problem in refused.value.details]


def test_filters_are_answered_as_they_were_given() -> None:
    made = new_subscription("a.b", BODY | {"filters": [BY_PATH, BY_HEADER, BY_CEL]}, strict=True)
    read = subscription_read(made, State.ACTIVE).answered()
    assert read["filters"] == [BY_PATH, BY_HEADER, BY_CEL]


@pytest.mark.parametrize(
    ("path", "jsonpath"),
    [(".a[*].b", "$.a[*].b"), ("a.b", "$.a.b"), (".a.b.", "$.a.b"), ("a[0]", "$.a[0]")],
)
def test_an_avropath_is_the_jsonpath_of_the_same_place_and_answered_as_it_was_given(
    path: str, jsonpath: str
) -> None:
    given = {"type": "avropath", "path": path, "matcher": "x"}
    made = new_subscription("a.b", BODY | {"filters": [given]}, strict=True)
    assert [(each.type, each.path) for each in made.filters] == [(FilterType.JSONPATH, jsonpath)]
    read = subscription_read(made, State.ACTIVE).answered()
    assert read["filters"] == [given | {"matchingStrategy": "all"}]


@pytest.mark.parametrize("path", ["", ".", "..", "a[", "a..b[", None])
def test_an_avropath_to_nothing_is_refused(path: str | None) -> None:
    given = {"type": "avropath", "path": path, "matcher": "x"}
    assert refused_paths([given]) == ["filters.0.path"]


def test_all_values_must_match_unless_told_otherwise() -> None:
    given = {name: value for name, value in BY_PATH.items() if name != "matchingStrategy"}
    made = new_subscription("a.b", BODY | {"filters": [given]}, strict=True)
    read = subscription_read(made, State.ACTIVE).answered()
    assert read["filters"] == [given | {"matchingStrategy": "all"}]


def test_a_patch_replaces_all_filters_and_null_takes_them_away() -> None:
    made = new_subscription("a.b", BODY | {"filters": [BY_PATH]}, strict=True)
    same = changed_subscription(made, {"description": "d"}, strict=True)
    assert same.filters == made.filters
    replaced = changed_subscription(made, {"filters": [BY_HEADER]}, strict=True)
    assert [each.header for each in replaced.filters] == ["tenant"]
    assert changed_subscription(made, {"filters": None}, strict=True).filters == ()


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ({"type": "xpath", "path": ".a", "matcher": "x"}, "type"),
        ({"type": "jsonpath", "path": "$.a"}, "matcher"),
        ({"type": "jsonpath", "path": "$.a", "matcher": ""}, "matcher"),
        ({"type": "jsonpath", "path": "$.a", "matcher": "("}, "matcher"),
        ({"type": "jsonpath", "path": "$.a", "matcher": "(?=x)"}, "matcher"),
        ({"type": "jsonpath", "path": "$.a", "matcher": "x\0"}, "matcher"),
        ({"type": "jsonpath", "path": "$.a", "matcher": "x" * 1_001}, "matcher"),
        ({"type": "jsonpath", "matcher": "x"}, "path"),
        ({"type": "jsonpath", "path": "$a.b", "matcher": "x"}, "path"),
        ({"type": "jsonpath", "path": "$.a", "header": "h", "matcher": "x"}, "header"),
        ({"type": "header", "header": "h", "path": "$.a", "matcher": "x"}, "path"),
        ({"type": "header", "matcher": "x"}, "header"),
        ({"type": "cel"}, "expression"),
        ({"type": "cel", "expression": ""}, "expression"),
        ({"type": "cel", "expression": "body.a =="}, "expression"),
        ({"type": "cel", "expression": "status == 200"}, "expression"),
        ({"type": "cel", "expression": "key"}, "expression"),
        ({"type": "cel", "expression": "[body].exists(body, true)"}, "expression"),
        ({"type": "cel", "expression": "key == '\0'"}, "expression"),
        ({"type": "cel", "expression": "true" + " " * 997}, "expression"),
        ({"type": "cel", "expression": 1}, "expression"),
        (BY_CEL | {"matcher": "x"}, "matcher"),
        (BY_CEL | {"path": "$.a"}, "path"),
        (BY_CEL | {"header": "h"}, "header"),
        (BY_CEL | {"matchingStrategy": "any"}, "matchingStrategy"),
        (BY_PATH | {"expression": "true"}, "expression"),
        (BY_PATH | {"matchingStrategy": "some"}, "matchingStrategy"),
        (BY_PATH | {"match": "x"}, "match"),
    ],
)
def test_a_wrong_filter_is_refused_and_its_field_named(wrong: dict[str, Any], path: str) -> None:
    assert refused_paths([BY_PATH, wrong]) == [f"filters.1.{path}"]


@pytest.mark.parametrize(
    "matcher", ["[a-z&&[^b]]", "x[^]a&&b]", "[[:alpha:]&&[^b]]", r"\[[\]&&a]", r"\Q[\E[a&&b]"]
)
def test_an_intersection_of_classes_is_refused(matcher: str) -> None:
    for given in (BY_PATH, BY_HEADER):
        assert refused_paths([given | {"matcher": matcher}]) == ["filters.0.matcher"]


@pytest.mark.parametrize("matcher", ["a&&b", "[a&b]&&", r"\[a&&b\]", r"\Q[a&&]\E", r"[\&\&]"])
def test_two_ampersands_are_no_intersection_elsewhere(matcher: str) -> None:
    made = new_subscription(
        "a.b", BODY | {"filters": [BY_PATH | {"matcher": matcher}]}, strict=True
    )
    assert [each.matcher for each in made.filters] == [matcher]


def test_a_stored_filter_with_an_intersection_stays_as_it_is() -> None:
    old = Filter(type=FilterType.HEADER, header="tenant", matcher="[a-z&&[^b]]")
    stored = replace(new_subscription("a.b", BODY, strict=True), filters=(old,))
    kept = changed_subscription(stored, {"description": "d"}, strict=True)
    assert kept.filters == (old,)
    added = [*subscription_read(kept, State.ACTIVE).answered()["filters"], BY_PATH]
    assert changed_subscription(kept, {"filters": added}, strict=True).filters[0] == old


def test_there_are_not_more_filters_than_the_bound() -> None:
    assert refused_paths([BY_PATH] * (FILTERS_MAX + 1)) == ["filters"]


@pytest.mark.parametrize(
    ("message", "filters", "status"),
    [
        (b'{"a":"xy"}', [BY_PATH], "MATCHED"),
        (b'{"a":"y"}', [BY_PATH], "NOT_MATCHED"),
        (b'{"a":"xy"}', [BY_PATH, BY_HEADER], "MATCHED"),
        (b"{}", [], "MATCHED"),
        (b"not json", [BY_PATH], "ERROR"),
        (b"not json", [BY_HEADER], "MATCHED"),
        (b"{}", [BY_PATH | {"matcher": "("}], "ERROR"),
        (b"{}", [BY_PATH | {"path": "$a"}], "ERROR"),
        (b'{"a":"xy"}', [BY_CEL], "MATCHED"),
        (b'{"a":"y"}', [BY_CEL], "NOT_MATCHED"),
        (b"{}", [BY_CEL], "ERROR"),
        (b"not json", [BY_CEL], "ERROR"),
        (b"{}", [{"type": "cel", "expression": "body.a =="}], "ERROR"),
        (b"?", [{"type": "cel", "expression": "[key, id, topic] == ['k', 'i', 'a.b']"}], "MATCHED"),
        (b"?", [{"type": "cel", "expression": "timestamp == 12"}], "MATCHED"),
    ],
)
def test_the_debugger_says_what_becomes_of_a_message(
    message: bytes, filters: list[dict[str, Any]], status: str
) -> None:
    body = {
        "filters": filters,
        "message": base64.b64encode(message).decode(),
        "headers": {"Tenant": "acme"},
        "key": "k",
        "id": "i",
        "timestamp": 12,
    }
    answered = tried(PLAIN, body, strict=True).answered()
    assert answered["status"] == status
    assert ("errorMessage" in answered) is (status == "ERROR")


@pytest.mark.parametrize("message", ["not base64!", "ab", "zażółć"])
def test_the_debugger_takes_a_message_in_base64_alone(message: str) -> None:
    with pytest.raises(ValidationFailedError) as refused:
        tried(PLAIN, {"filters": [], "message": message}, strict=False)
    assert [problem.path for problem in refused.value.details] == ["message"]


def test_a_message_to_try_is_published_now_unless_it_is_said_when() -> None:
    expression = f"timestamp >= {time.time_ns() // 1_000_000}"
    body = {"filters": [{"type": "cel", "expression": expression}], "message": ""}
    assert tried(PLAIN, body, strict=True).status == "MATCHED"


@pytest.mark.parametrize(
    ("message", "tried_filter", "status"),
    [
        (b'{"d":1}', {"type": "jsonpath", "path": "$.d", "matcher": r"1\.0"}, "MATCHED"),
        (b'{"d":1}', {"type": "avropath", "path": ".st", "matcher": "NEW"}, "MATCHED"),
        (
            b'{"d":1}',
            {"type": "cel", "expression": 'text == \'{"n":null,"d":1.0,"st":"NEW"}\''},
            "MATCHED",
        ),
        (b'{"d":1}', {"type": "jsonpath", "path": "$.st", "matcher": "OLD"}, "NOT_MATCHED"),
        (b"{}", {"type": "avropath", "path": "n", "matcher": "null"}, "MATCHED"),
        (b"{}", {"type": "avropath", "path": "n.of", "matcher": "null"}, "NOT_MATCHED"),
        (b"{}", {"type": "jsonpath", "path": "n", "matcher": "null"}, "ERROR"),
        (b'{"x":1}', {"type": "jsonpath", "path": "$.x", "matcher": "1"}, "NOT_MATCHED"),
        (b'{"d":"garbage"}', {"type": "avropath", "path": ".d", "matcher": "x"}, "ERROR"),
        (b'{"d":"garbage"}', {"type": "cel", "expression": "key == ''"}, "ERROR"),
        (b"not json", {"type": "cel", "expression": "key == ''"}, "ERROR"),
    ],
)
def test_the_debugger_makes_avro_of_a_message_first_as_publishing_does(
    message: bytes, tried_filter: dict[str, Any], status: str
) -> None:
    body = {"filters": [tried_filter], "message": base64.b64encode(message).decode()}
    assert tried(AVRO, body, strict=True).status == status


def test_the_debugger_names_the_field_that_is_not_of_the_schema() -> None:
    body = {"filters": [], "message": base64.b64encode(b'{"d":"garbage"}').decode()}
    assert tried(AVRO, body, strict=True).answered() == {
        "status": "ERROR",
        "errorMessage": "d must be a number (double)",
    }
