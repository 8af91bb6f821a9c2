import json
from itertools import chain
from typing import Any

import pytest

from angelia_client import BatchResult, NewMessage
from angelia_client.batches import BYTES_MAX, MESSAGES_MAX, GivenIds, requests_for
from angelia_client.requests import Request


def messages_in(requests: list[Request]) -> list[dict[str, Any]]:
    return list(chain.from_iterable(json.loads(each.body or b"[]") for each in requests))


def test_each_message_has_its_body_id_and_key() -> None:
    given = [NewMessage(body={"a": "ä"}, key="k", id="mine"), b'{"b": 2.50 }', {"c": 3}]
    (request,) = requests_for("shop.orders", given)
    first, second, third = messages_in([request])
    assert first == {"id": "mine", "key": "k", "message": {"a": "ä"}}
    assert second["message"] == {"b": 2.5}
    assert third["message"] == {"c": 3}
    assert second["id"] != third["id"]
    assert b'{"b": 2.50 }' in (request.body or b"")


def test_the_request_may_be_sent_again() -> None:
    (request,) = requests_for("shop.orders", [{}])
    assert request.repeatable


def test_no_message_makes_no_request() -> None:
    assert list(requests_for("shop.orders", [])) == []


@pytest.mark.parametrize(("count", "requests"), [(1000, 1), (1001, 2), (2500, 3)])
def test_a_request_has_as_many_messages_as_it_may(count: int, requests: int) -> None:
    made = list(requests_for("t.t", range(count)))
    assert len(made) == requests
    assert [each["message"] for each in messages_in(made)] == list(range(count))
    assert all(len(json.loads(each.body or b"[]")) <= MESSAGES_MAX for each in made)


def test_a_request_is_as_large_as_it_may_be() -> None:
    body = b'"' + b"x" * 1_000_000 + b'"'
    made = list(requests_for("t.t", [body] * 20))
    assert all(len(each.body or b"") <= BYTES_MAX for each in made)
    assert [len(json.loads(each.body or b"[]")) for each in made] == [8, 8, 4]


def test_a_message_that_is_too_large_alone_goes_alone() -> None:
    large = b'"' + b"x" * BYTES_MAX + b'"'
    made = list(requests_for("t.t", [large, 2, large]))
    assert [len(json.loads(each.body or b"[]")) for each in made] == [1, 1, 1]


def test_a_value_that_json_cannot_say_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        list(requests_for("t.t", [float("nan")]))


def refused(own_id: str, duplicate_of: str) -> BatchResult:
    said = {"status": 409, "code": "DUPLICATE_MESSAGE", "message": "it has it already"}
    return BatchResult.of({"id": own_id, "duplicateOf": duplicate_of, **said})


def test_a_duplicate_of_itself_under_an_id_of_ours_is_stored() -> None:
    result = GivenIds().settled(refused("ours", "ours"))
    assert (result.stored, result.duplicate, result.code) == (True, True, None)


@pytest.mark.parametrize(("own_id", "duplicate_of"), [("ours", "another"), ("mine", "mine")])
def test_any_other_duplicate_is_refused(own_id: str, duplicate_of: str) -> None:
    given = GivenIds()
    assert list(given.noted([NewMessage(body={}, id="mine"), {}]))
    result = given.settled(refused(own_id, duplicate_of))
    assert (result.stored, result.duplicate_of) == (False, duplicate_of)
