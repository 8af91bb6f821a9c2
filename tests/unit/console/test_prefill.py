from typing import Any
from urllib.parse import parse_qs

import pytest

from app.console.edits import patch_of
from app.console.forms import (
    Field,
    SentForm,
    at_path,
    decimal,
    is_same,
    json_object,
    numbers,
    whole,
)
from app.console.pages.subscription_form import FIELDS as SUBSCRIPTION_FIELDS
from app.console.pages.topic_form import EDIT_FIELDS as TOPIC_FIELDS
from app.console.prefill import FILL_MAX, NOTES, fill_before, prefill_of

FIELDS = (
    Field(path="endpoint", label="Endpoint", linked=False),
    Field(path="policy.rate", label="Rate", kind="number", read=whole),
    Field(path="policy.backoff", label="Backoff", kind="number", read=decimal),
    Field(path="policy.retries", label="Retries", kind="number", read=whole, optional=True),
    Field(path="letter.topic", label="Dead letters", optional=True),
    Field(path="codes", label="Codes", read=numbers),
    Field(path="order", label="Order", kind="choice", choices=("NONE", "KEY")),
    Field(path="on", label="On", kind="check"),
    Field(path="filters", label="Filters", kind="area", read=json_object, optional=True),
)
CURRENT: dict[str, Any] = {
    "endpoint": "http://a.test/",
    "policy": {"rate": 400, "backoff": 1.5},
    "codes": [],
    "order": "NONE",
    "on": True,
}


def test_a_change_that_is_taken_back_is_as_it_was() -> None:
    changed = {
        **CURRENT,
        "policy": {"rate": 40, "backoff": 2.0, "retries": 5},
        "letter": {"topic": "shop.dead"},
        "codes": [408, 409],
        "order": "KEY",
        "on": False,
    }
    fill = fill_before(FIELDS, CURRENT, changed, patch={})
    prefill = prefill_of(FIELDS, changed, {"fill": fill, "why": "undo"})
    filled = prefill.over(changed)
    paths = [each.path for each in FIELDS]
    was = {path: at_path(CURRENT, path) for path in paths}
    assert {path: at_path(filled, path) for path in paths} == was
    assert prefill.marks["policy.rate"] == "Suggested: 400. Now: 40."
    assert prefill.marks["policy.retries"] == "Suggested: nothing. Now: 5."
    assert prefill.marks["codes"] == "Suggested: nothing. Now: 408, 409."
    assert prefill.marks["on"] == "Suggested: on. Now: off."
    assert prefill.note == NOTES["undo"]
    back = fill_before(FIELDS, changed, CURRENT, patch={})
    assert parse_qs(back)["codes"] == ["408, 409"]


def test_a_zero_is_a_value() -> None:
    none = SentForm([("policy.retries", "")])
    zero = SentForm([("policy.retries", "0")])
    retries = [each for each in FIELDS if each.path == "policy.retries"]
    never = {"policy": {"retries": 0}}
    assert patch_of(retries, {"policy": {}}, zero) == never
    assert patch_of(retries, never, none) == {"policy": {"retries": None}}
    assert patch_of(retries, never, zero) == patch_of(retries, {"policy": {}}, none) == {}
    assert prefill_of(retries, {"policy": {}}, {"fill": "policy.retries=0"}).patch == never
    back = prefill_of(retries, never, {"fill": "policy.retries="})
    assert back.marks["policy.retries"] == "Suggested: nothing. Now: 0."


@pytest.mark.parametrize("nothing", [None, False, "", [], {}])
def test_nothing_is_the_same_in_each_of_its_forms(nothing: object) -> None:
    assert is_same(nothing, None)
    assert not is_same(nothing, 0)
    assert not is_same(nothing, "0")


def test_a_reason_in_a_link_selects_only_what_a_link_can_know() -> None:
    for why, note in (("undo", NOTES["undo"]), ("loss", NOTES["loss"]), ("enough", NOTES[""])):
        query = {"fill": "policy.rate=1", "why": why}
        assert prefill_of(FIELDS, CURRENT, query).note == note


def test_only_a_change_that_a_link_can_carry_whole_is_taken_back() -> None:
    changed = {**CURRENT, "on": False}
    assert fill_before(FIELDS, CURRENT, changed, patch={"on": False}) == "on=on"
    elsewhere = {**changed, "endpoint": "http://b.test/"}
    assert fill_before(FIELDS, CURRENT, elsewhere, patch={"on": False}) == ""
    # A secret is masked before and after, so both look the same.
    secret = {"on": False, "endpoint": "http://joe:new@a.test/"}
    assert fill_before(FIELDS, CURRENT, changed, patch=secret) == ""
    filtered = {**CURRENT, "filters": [{"type": "jsonpath"}]}
    assert fill_before(FIELDS, CURRENT, filtered, patch={}) == ""
    long = {**CURRENT, "letter": {"topic": "x" * FILL_MAX}}
    assert fill_before(FIELDS, long, CURRENT, patch={}) == ""
    # These changed by themselves, unless the reader has set them.
    started = {**CURRENT, "order": "KEY", "state": "ACTIVE", "trackingEnabled": True}
    assert fill_before(FIELDS, CURRENT, started, patch={"order": "KEY"}) == "order=NONE"
    assert fill_before(FIELDS, CURRENT, started, patch={"state": "ACTIVE"}) == ""


def test_a_link_fills_in_only_what_a_link_may() -> None:
    unknown = {
        "fill": "endpoint=http://evil.test/&filters=[]&no.such=1&order=OTHER&on=perhaps"
        "&policy.rate=400"
    }
    assert prefill_of(FIELDS, CURRENT, unknown).patch == {}
    assert prefill_of(FIELDS, CURRENT, unknown).note == ""
    long = {"fill": f"policy.rate=1&letter.topic={'x' * FILL_MAX}"}
    assert prefill_of(FIELDS, CURRENT, long).patch == {}
    wrong = prefill_of(FIELDS, CURRENT, {"fill": "policy.rate=many", "why": "<b>"})
    assert wrong.patch == {"policy": {"rate": "many"}}
    assert wrong.note == NOTES[""]


def test_links_carry_no_text_that_may_be_secret() -> None:
    fields = (*SUBSCRIPTION_FIELDS, *TOPIC_FIELDS)
    texts = {each.path for each in fields if each.in_links and each.kind in {"text", "area"}}
    assert texts == {
        "owner.id",
        "deadLetter.topic",
        "retryableStatusCodes",
        "propagatedHeaders",
        "alternateTopic",
    }
