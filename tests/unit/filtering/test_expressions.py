from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.catalogue.filters import Filter, FilterType
from app.domain.errors import ValidationFailedError
from app.domain.message import UNPARSED, Message, Partition, Record
from app.expressions import EvaluationError, Expression
from app.filtering.bodies import ParsedBodies
from app.filtering.budget import WORK_MAX, Budget
from app.filtering.expressions import VARIABLES, MessageExpression, checked_message_expression
from app.filtering.matching import FilterChain, Verdict, check_filters
from app.filtering.selection import BodySelection

HEADERS = [(b"id", b"m-1"), (b"h-X-Tenant", b"acme"), (b"h-x-tenant", b"other"), (b"ct", b"a/b")]


def a_message(body: bytes | None, key: bytes | None = b"k") -> Message:
    return Message(Record(7, 1_000, key, body, HEADERS), Partition("shop.orders", 0))


def judged(expression: str, body: bytes | None) -> Verdict:
    each = Filter(type=FilterType.CEL, expression=expression)
    return FilterChain([each], ParsedBodies()).judge(a_message(body))


@pytest.mark.parametrize(
    ("expression", "body", "wanted"),
    [
        ("body.country == 'PL'", b'{"country":"PL"}', True),
        ("body.country == 'PL'", b'{"country":"DE"}', False),
        ("body['country'] in ['PL', 'DE']", b'{"country":"DE"}', True),
        ("body.amount > 100", b'{"amount":100.5}', True),
        ("body.amount - 1 == 99 && body.n % 2 == 0", b'{"amount":100,"n":4}', True),
        ("has(body.customer.vip) && body.customer.vip", b'{"customer":{}}', False),
        ("body.lines[0].sku.startsWith('a')", b'{"lines":[{"sku":"ab"}]}', True),
        ("size(body) == 2", b"[1,2]", True),
        ("'a' in body", b'{"a":null}', True),
        ("body.a == null", b'{"a":null}', True),
        ("body == {'a': [1]}", b'{"a":[1]}', True),
        ("headers['x-tenant'] == 'acme'", b"not json", True),
        ("key == 'k' && id == 'm-1' && topic == 'shop.orders'", None, True),
        ("timestamp == 1000", b"", True),
        ("text.contains('error')", b"an error", True),
        ("text == ''", None, True),
    ],
)
def test_a_message_is_wanted_if_the_expression_is_true(
    expression: str, body: bytes | None, *, wanted: bool
) -> None:
    assert judged(expression, body) == Verdict(wanted=wanted)


@pytest.mark.parametrize(
    ("expression", "body", "says"),
    [
        ("body.a == 1", b"{}", "there is no 'a'"),
        ("headers['none'] == ''", b"{}", "there is no 'none'"),
        ("body.a[1] == 1", b'{"a":[1]}', "index out of bounds: 1"),
        ("body.a", b'{"a":1}', "is int, not true or false"),
        ("body.a < 1", b'{"a":"x"}', ""),
        ("body.a / 0 == 1", b'{"a":1}', "division by zero"),
        ("body.a == 1", b"not json", "the body is not JSON"),
        ("body.a == 1", None, "the body is not JSON"),
    ],
)
def test_an_error_filters_the_message_out_and_is_told(
    expression: str, body: bytes | None, says: str
) -> None:
    verdict = judged(expression, body)
    assert not verdict.wanted
    assert verdict.error
    assert says in verdict.error


def test_an_expression_that_is_none_is_refused_and_its_place_named() -> None:
    wrong = Filter(type=FilterType.CEL, expression="body.a ==")
    right = Filter(type=FilterType.CEL, expression="body.a == 1")
    with pytest.raises(ValidationFailedError) as refused:
        check_filters([right, wrong])
    [problem] = refused.value.details
    assert problem.path == "filters.1.expression"
    assert problem.message.startswith("line 1, column ")


@pytest.mark.parametrize("text", ["#[payload.amount > 100]", "  #[vars.a]"])
def test_what_is_written_as_in_mule_is_told_to_be_cel(text: str) -> None:
    with pytest.raises(ValidationFailedError, match="Mule writes DataWeave") as refused:
        checked_message_expression(text, path="filters.0.expression")
    assert refused.value.details[0].path == "filters.0.expression"


def test_one_that_looks_at_no_body_has_none_parsed() -> None:
    message = a_message(b'{"a":1}')
    chain = FilterChain([Filter(type=FilterType.CEL, expression="key == 'k'")], ParsedBodies())
    assert chain.judge(message).wanted
    assert message.parsed is UNPARSED


# To parse it is within the bound, and to hand all of it to an expression is not.
MANY = orjson.dumps({"all": [0] * (WORK_MAX // 8), "one": 1, "long": "x" * 8 * WORK_MAX})


@pytest.mark.parametrize("expression", ["size(body) > 0", "body.all != []", "body.long != text"])
def test_what_would_take_long_is_not_looked_at(expression: str) -> None:
    verdict = judged(expression, MANY)
    assert verdict.error == f"the message takes more than {WORK_MAX} steps of work to look at"


def test_of_a_large_message_a_small_part_can_be_looked_at() -> None:
    assert judged("body.one == 1", MANY).wanted


BODY = {"a": {"b": {"c": 1}, "d": [1, {"e": 2}]}, "f": "x", "body": {"a": 3}}


@pytest.mark.parametrize(
    ("expression", "selected"),
    [
        ("body.f == 'x'", {"f": "x"}),
        ("body.f.startsWith('x')", {"f": "x"}),
        ("body . f == body['f']", {"f": "x"}),
        ("has(body.none)", {}),
        ("body.a.b.c == body.f", {"a": {"b": {"c": 1}}, "f": "x"}),
        ("body.a.b == {} && body.a.b.c == 1", {"a": {"b": {"c": 1}}}),
        ("body.a.b.c == 1 && body.a.b == {}", {"a": {"b": {"c": 1}}}),
        ("body.a.d[1].e == 2", {"a": {"d": [1, {"e": 2}]}}),
        ("body.a.d.e == 2", {"a": {"d": []}}),
        ("body.f.g == 2", {"f": "x"}),
        ("body.body.a == 3", {"body": {"a": 3}}),
        ("'body' == key", {}),
        ("body[key] == 1", BODY),
        ("body == 1", BODY),
        ("size(body) == 1 && body.f == ''", BODY),
        ("{'a': body}.a.f == 'x'", BODY),
        ("(body).f == 'x'", BODY),
        (".body.a == 1", BODY),
        ("'x' in .body && body.f == 'x'", BODY),
        ("'\\' + body + \\'' == '' && body.f == ''", BODY),
        ("'''it's body''' == body.f", BODY),
        ("body.f == 'x' // it's body", BODY),
    ],
)
def test_no_more_of_a_body_is_handed_over_than_is_read(expression: str, selected: object) -> None:
    assert BodySelection(expression).of(BODY) == selected


NAMES = st.sampled_from(["a", "b", "c", "body", "key"])
LEAVES = st.sampled_from([1, 2.5, "a", "x", True, None])
BODIES: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda below: st.dictionaries(NAMES, below, max_size=4) | st.lists(below, max_size=2),
    max_leaves=8,
)
WORDS = st.sampled_from(
    [
        *("body", ".a", ".b", "['a']", '["b"]', "[0]", "['c'].body", ".body", ".a.contains('x')"),
        *(
            "(body)",
            "has(body.a.b)",
            "size(body.a)",
            "'body.c'",
            "key",
            "[body.a, body]",
            "{'a': 1}",
        ),
        *(" == ", " in ", " && ", " < ", " ? ", " : ", "!", "{'a': body}.a", "body.a.b", "body.c"),
    ]
)


@settings(max_examples=150)
@given(st.lists(WORDS, min_size=1, max_size=8), BODIES)
def test_an_expression_has_the_same_value_as_over_the_whole_body(
    words: list[str], body: object
) -> None:
    text = "".join(words)
    try:
        whole = Expression(text, path="e", variables=VARIABLES)
    except ValidationFailedError:
        return
    message = a_message(orjson.dumps(body))
    part = MessageExpression(text, path="e", bodies=ParsedBodies())
    try:
        expected = whole.value(dict(VARIABLES) | {"body": body, "key": "k"})
    except EvaluationError:
        with pytest.raises(EvaluationError):
            part.value(message, Budget())
    else:
        assert part.value(message, Budget()) == expected


def test_a_nested_body_is_handed_over_whatever_its_depth() -> None:
    deep = b'{"a":' * 900 + b"1" + b"}" * 900
    assert judged("body.a == body.a", deep).wanted
