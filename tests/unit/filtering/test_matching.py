from collections.abc import Sequence

import pytest

from app.domain.catalogue.filters import Filter, FilterType, MatchingStrategy
from app.domain.errors import ValidationFailedError
from app.domain.message import UNPARSED, Message, Partition, Record
from app.filtering.bodies import PARSED_KEPT_S, ParsedBodies
from app.filtering.budget import Budget
from app.filtering.matching import FilterChain, Verdict, check_filters

ALL, ANY = MatchingStrategy.ALL, MatchingStrategy.ANY


def by_path(path: str, matcher: str, strategy: MatchingStrategy = ALL) -> Filter:
    return Filter(type=FilterType.JSONPATH, path=path, matcher=matcher, matching_strategy=strategy)


def by_header(header: str, matcher: str) -> Filter:
    return Filter(type=FilterType.HEADER, header=header, matcher=matcher)


def a_message(body: bytes | None, headers: Sequence[tuple[bytes, bytes]] = ()) -> Message:
    carried = [(b"h-" + name, value) for name, value in headers]
    return Message(Record(0, 0, None, body, carried), Partition("shop.orders", 0))


def judged(message: Message, *filters: Filter) -> Verdict:
    return FilterChain(filters, ParsedBodies()).judge(message)


@pytest.mark.parametrize(
    ("body", "each", "wanted"),
    [
        (b'{"a":"xy"}', by_path("$.a", "x."), True),
        (b'{"a":"xyz"}', by_path("$.a", "x."), False),
        (b'{"a":"zxy"}', by_path("$.a", "x."), False),
        (b'{"a":12}', by_path("$.a", "1[0-9]"), True),
        (b'{"a":1.5}', by_path("$.a", r"1\.5"), True),
        (b'{"a":true}', by_path("$.a", "true"), True),
        (b'{"a":{"b":[1,2]}}', by_path("$.a", r'\{"b":\[1,2\]\}'), True),
        (b'{"a":""}', by_path("$.a", ".*"), True),
        ('{"a":"zażółć"}'.encode(), by_path("$.a", "zażół."), True),
        (b'{"b":1}', by_path("$.a", ".*"), False),
        (b'{"a":["x","x"]}', by_path("$.a[*]", "x"), True),
        (b'{"a":["x","y"]}', by_path("$.a[*]", "x"), False),
        (b'{"a":["x","y"]}', by_path("$.a[*]", "x", ANY), True),
        (b'{"a":["z","y"]}', by_path("$.a[*]", "x", ANY), False),
        (b'{"a":[]}', by_path("$.a[*]", "x", ANY), False),
        (b'{"a":[]}', by_path("$.a[*]", "x"), False),
    ],
)
def test_a_jsonpath_filter_matches_whole_values(body: bytes, each: Filter, wanted: bool) -> None:  # noqa: FBT001 - a column of the table
    assert judged(a_message(body), each).wanted is wanted


@pytest.mark.parametrize("body", [None, b"", b"{", b"not json", b'{"a":null}', b'{"a":"x"}\xff'])
def test_an_error_filters_the_message_out_and_is_told(body: bytes | None) -> None:
    verdict = judged(a_message(body), by_path("$.a", ".*"))
    assert not verdict.wanted
    assert verdict.error


def test_a_header_filter_looks_at_propagated_headers_alone() -> None:
    message = a_message(b"not json", [(b"X-Tenant", b"acme")])
    assert judged(message, by_header("x-tenant", "ac.e")).wanted
    assert not judged(message, by_header("X-Tenant", "ac")).wanted
    assert not judged(message, by_header("X-Other", ".*")).wanted


def test_every_filter_of_a_chain_must_match() -> None:
    message = a_message(b'{"a":"x"}', [(b"tenant", b"acme")])
    matching, other = by_path("$.a", "x"), by_path("$.a", "y")
    assert judged(message, matching, by_header("tenant", "acme")).wanted
    assert not judged(message, matching, other).wanted
    assert not judged(message, other, matching).wanted


def test_a_regex_that_backtracks_elsewhere_is_answered_at_once() -> None:
    body = b'{"a":"' + b"a" * 100_000 + b'"}'
    assert not judged(a_message(body), by_path("$.a", "(a+)+b")).wanted


@pytest.mark.parametrize(
    ("each", "path"),
    [
        (by_path("$.a b", "x"), "path"),
        (by_path("$.a", "("), "matcher"),
        (by_path("$.a", "(?=x)"), "matcher"),
        (by_header("a", r"(x)\1"), "matcher"),
    ],
)
def test_filters_that_cannot_be_compiled_are_named(each: Filter, path: str) -> None:
    with pytest.raises(ValidationFailedError) as refused:
        check_filters([by_path("$", ".*"), each])
    assert [problem.path for problem in refused.value.details] == [f"filters.1.{path}"]


def test_the_body_is_parsed_once_for_all_chains() -> None:
    message, bodies = a_message(b'{"a":"x"}'), ParsedBodies()
    first = bodies.of(message, Budget())
    assert FilterChain([by_path("$.a", "x")], bodies).judge(message).wanted
    assert bodies.of(message, Budget()) is first


def test_parsed_bodies_are_kept_up_to_a_bound() -> None:
    bodies = ParsedBodies(bytes_max=20)
    messages = [a_message(b'{"a":"%d"}' % number) for number in range(5)]
    for message in messages:
        bodies.of(message, Budget())
    kept = [message.parsed is not UNPARSED for message in messages]
    assert kept == [False, False, False, True, True]
    assert ParsedBodies(bytes_max=1).of(messages[0], Budget()) == {"a": "0"}


def test_parsed_bodies_are_kept_for_a_while() -> None:
    now = [0.0]
    bodies = ParsedBodies(clock=lambda: now[0])
    messages = [a_message(b'{"a":"%d"}' % number) for number in range(3)]
    for message in messages:
        bodies.of(message, Budget())
        now[0] += PARSED_KEPT_S / 2 + 0.1
    kept = [message.parsed is not UNPARSED for message in messages]
    assert kept == [False, True, True]


@pytest.mark.parametrize("path", ["$.a", "$..a", "$[?@.a == 1]", "$"])
def test_what_is_nested_too_deep_to_be_written_cannot_be_judged(path: str) -> None:
    verdict = judged(a_message(b'{"a":' + b"[" * 255 + b"]" * 255 + b"}"), by_path(path, ".*"))
    assert not verdict.wanted


class BrokenBodies(ParsedBodies):
    def of(self, message: Message, budget: Budget) -> object:
        del message, budget
        raise MemoryError


def test_a_defect_is_raised_where_it_is_dealt_with_and_costs_a_job_its_message_alone() -> None:
    chain = FilterChain([by_path("$.a", ".*")], BrokenBodies())
    with pytest.raises(MemoryError):
        chain.judge(a_message(b"{}"))
    assert not chain.wants(a_message(b"{}"))
