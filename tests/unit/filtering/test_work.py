"""The work of looking at one message: bounded, whatever message and filters are."""

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings, target
from hypothesis import strategies as st

from app.domain.catalogue.filters import FILTERS_MAX, Filter, FilterType, MatchingStrategy
from app.domain.message import UNPARSED, Message, Partition, Record
from app.filtering.bodies import ParsedBodies
from app.filtering.budget import WORK_MAX, Budget, ExhaustedError
from app.filtering.matching import FilterChain, Verdict
from tests.work import SHARE_MAX, least_share

# A plain message costs about 2 µs, so 5,000 are 10 ms. The worst that was found is 3,500 on a quiet
# machine, and 8,500 where ten others use its cores and caches: large messages suffer more.
RATIO_MAX: Final = 12_000
# Large messages may take more: a unit of work for 32 bytes.
RATIO_MAX_PER_BYTE: Final = 1 / 240
EXHAUSTED: Final = f"the message takes more than {WORK_MAX} steps of work to look at"
SLOW_REGEX: Final = ".*a.{200}"

Body = Callable[[int], bytes]


def by_path(path: str, matcher: str = ".*", *, any_of_them: bool = False) -> Filter:
    strategy = MatchingStrategy.ANY if any_of_them else MatchingStrategy.ALL
    return Filter(type=FilterType.JSONPATH, path=path, matcher=matcher, matching_strategy=strategy)


def cel(expression: str) -> Filter:
    return Filter(type=FilterType.CEL, expression=expression)


def listed(item: bytes) -> Body:
    return lambda size: b'{"a":[' + (item + b",") * (size // (len(item) + 1)) + b'0],"b":[1]}'


def nested(inner: Body) -> Body:
    return lambda size: b"[" * 200 + inner(max(0, size - 400)) + b"]" * 200


def ladder(size: int) -> bytes:
    return (b"[" + b"1," * (size // 400)) * 200 + b"1" + b"]" * 200


BODIES: Final[Mapping[str, Body]] = {
    "numbers": listed(b"1"),
    "floats": listed(b"1e9"),
    "lists": listed(b"[]"),
    "objects": listed(b'{"a":1}'),
    "texts": listed(b'"a"'),
    "text": lambda size: b'{"a":"' + b"a" * size + b'"}',
    "two texts": lambda size: (
        b'{"s":"%b","t":"%b","u":[%b1]}' % (2 * (b"a" * (size // 3),) + (b"1," * (size // 9),))
    ),
    "members": lambda size: b"{" + b",".join(b'"%d":1' % n for n in range(size // 9)) + b"}",
    "nested numbers": nested(listed(b"1")),
    "nested objects": nested(listed(b'{"a":1}')),
    "nested text": nested(lambda size: b'"' + b"a" * size + b'"'),
    "ladder": ladder,
    "two ladders": lambda size: b'{"b":%b,"a":%b}' % (ladder(size // 2), ladder(size // 2)),
}
DEEP: Final = b"[" + (b"[" * 1_000 + b"]" * 1_000 + b",") * 1_000 + b"0]"
FILTERS: Final[Mapping[str, Filter]] = {
    "value": by_path("$.a"),
    "all below": by_path("$..*"),
    "any below": by_path("$..*", "none", any_of_them=True),
    "all below all": by_path("$..*..*"),
    "root": by_path("$"),
    "slow regex": by_path("$..*", SLOW_REGEX),
    "slow regex of one": by_path("$.a", SLOW_REGEX),
    "tests": by_path(f"$..[?{'||'.join(f'@.a=={n}' for n in range(60))}]"),
    "two tests": by_path("$.a[?@.a > 5 && @.a < 9].b"),
    "tests of one": by_path(f"$.a[?{'||'.join(['@ == 0.5'] * 40)}]"),
    "tests of presence": by_path(f"$.a[?{'||'.join(f'@.k{n}' for n in range(60))}]"),
    "names below": by_path(f"$..[{','.join(repr(f'k{n}') for n in range(40))}]"),
    "names": by_path(f"$.a[*][{','.join(repr(f'k{n}') for n in range(40))}]"),
    "name of each": by_path("$.a[*].a"),
    "all of each": by_path("$.a.*.*.*"),
    "compared": by_path("$..[?@ == $.b]"),
    "texts compared": by_path(f"$..[?{'||'.join(['$.s==$.t'] * 50)}]"),
    "body": cel("body == body"),
    "body often": cel("&&".join(["body.a==body.a"] * 50)),
    "text often": cel("&&".join(['text.contains("aaaab")==false'] * 30)),
    "header": Filter(type=FilterType.HEADER, header="x", matcher=SLOW_REGEX),
}


def judged(filters: Sequence[Filter], body: bytes) -> tuple[Verdict, float]:
    """The verdict, and the CPU time that it took."""
    chain, message = FilterChain(filters, ParsedBodies()), a_message(body)
    # A collection looks at all objects of the process, whatever the message is.
    gc.disable()
    try:
        began = time.process_time()
        verdict = chain.judge(message)
        return verdict, time.process_time() - began
    finally:
        gc.enable()


def a_message(body: bytes) -> Message:
    return Message(Record(0, 0, None, body, [(b"h-x", b"a" * 1_000)]), Partition("t", 0))


def plain_s() -> float:
    """The CPU time of a plain message and a plain filter, the parsing of it included."""
    chain, count = FilterChain([by_path("$.kind", "PL|DE")], ParsedBodies()), 500
    messages = [a_message(b'{"kind":"PL","n":%d}' % n) for n in range(count)]
    began = time.process_time()
    for message in messages:
        chain.judge(message)
    return (time.process_time() - began) / count


def share(filters: Sequence[Filter], body: bytes, most: float) -> float:
    """What the judging takes of the CPU time that it may take: `most` plain messages."""
    return least_share(lambda: judged(filters, body)[1], plain_s, most)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(sorted(BODIES)),
    st.sampled_from(sorted(FILTERS)),
    st.sampled_from([1, FILTERS_MAX]),
    st.integers(9, 21),
)
def test_no_message_and_no_filters_take_long(body: str, each: str, count: int, log2: int) -> None:
    made = BODIES[body](1 << log2)
    most = RATIO_MAX + RATIO_MAX_PER_BYTE * len(made)
    taken = share([FILTERS[each]] * count, made, most)
    target(taken)
    assert taken <= SHARE_MAX


@pytest.mark.parametrize("body", [*BODIES, "deep lists"])
def test_no_message_takes_long_to_be_parsed(body: str) -> None:
    made = DEEP if body == "deep lists" else BODIES[body](1 << 21)
    most = RATIO_MAX + RATIO_MAX_PER_BYTE * len(made)
    assert share([by_path("$.b")], made, most) <= SHARE_MAX


@pytest.mark.parametrize("body", ["lists", "objects", "texts", "members", "nested objects"])
def test_what_takes_long_to_parse_is_not_parsed(body: str) -> None:
    message = a_message(BODIES[body](1 << 21))
    with pytest.raises(ExhaustedError):
        ParsedBodies().of(message, Budget())
    assert message.parsed is UNPARSED


def test_commas_and_brackets_in_a_text_are_no_values() -> None:
    rows = b'1,[2],\\"3\\",\\\\4\\n' * 8_000
    body = b'{"kind":"PL","csv":"%s"}' % rows
    verdict, _ = judged([by_path("$.kind", "PL")], body)
    assert verdict.wanted


@pytest.mark.parametrize(
    ("body", "each"),
    [
        ("nested text", "all below"),
        ("ladder", "all below"),
        ("lists", "value"),
        ("text", "slow regex of one"),
        ("objects", "tests"),
        ("two texts", "texts compared"),
        ("numbers", "body"),
        ("text", "text often"),
    ],
)
def test_what_takes_more_than_the_bound_is_not_judged_and_says_why(body: str, each: str) -> None:
    verdict, _ = judged([FILTERS[each]], BODIES[body](1 << 20))
    assert verdict == Verdict(wanted=False, error=EXHAUSTED)


def test_the_work_of_all_filters_is_one() -> None:
    body = BODIES["numbers"](5_000)
    one, many = [FILTERS["any below"]], [by_path("$..*")] * FILTERS_MAX
    assert judged(one, body)[0].error is None
    assert judged(many, body)[0].error == EXHAUSTED


def test_usual_messages_are_judged_however_large_texts_in_them_are() -> None:
    orders = b",".join(b'{"sku":"A-%d","count":2,"price":19.9}' % n for n in range(2_000))
    body = b'{"kind":"order","note":"%b","items":[%b]}' % (b"x" * (1 << 20), orders)
    filters = [
        by_path("$.kind", "order"),
        by_path("$.items[*].sku", "A-.*"),
        cel("body.kind == 'order'"),
    ]
    assert judged(filters, body)[0] == Verdict(wanted=True)


USUAL: Final = {
    "orders": b'{"id":"ord-%d","customer":{"name":"Jane Doe","vip":true},"total":99.95,"items":[{'
    b'"sku":"SKU-%d","quantity":2,"price":19.9}],"tags":["new","web"]}',
    "log lines": b'{"timestamp":"2026-11-24T03:08:35.%dZ","level":"INFO","message":"Order %d was '
    b'placed","thread":"http-7","ms":123}',
    "measurements": b"[%d.25,%d.125,null]",
}


@pytest.mark.parametrize(
    ("kind", "size"), [("orders", 1_300_000), ("log lines", 2_000_000), ("measurements", 2_000_000)]
)
def test_usual_messages_of_megabytes_are_judged(kind: str, size: int) -> None:
    one = USUAL[kind]
    items = b",".join(one % (n % 60, n) for n in range(size // len(one)))
    body = b'{"kind":"%b","items":[%b]}' % (kind.encode(), items)
    assert len(body) > size
    filters = [by_path("$.kind", kind), by_path("$.items[0]"), cel("body.kind != 'x'")]
    assert judged(filters, body)[0] == Verdict(wanted=True)


def test_two_filters_with_conditions_judge_hundreds_of_items() -> None:
    items = b",".join(
        b'{"sku":"A-%d","count":%d,"price":19.95,"kind":"toy"}' % (n, n) for n in range(800)
    )
    body = b'{"kind":"order","items":[%b]}' % items
    filters = [
        by_path("$.items[?@.count > 10 && @.price < 20].sku", "A-.*"),
        by_path("$.items[?@.kind == 'toy' && @.count > 20].sku", "A-.*"),
    ]
    assert judged(filters, body)[0] == Verdict(wanted=True)


def test_a_body_that_was_parsed_costs_what_it_costs_to_parse_it() -> None:
    body = BODIES["lists"](30_000)
    bodies, message, left = ParsedBodies(), a_message(body), []
    for _ in range(2):
        budget = Budget()
        bodies.of(message, budget)
        bodies.of(message, budget)
        left.append(budget.left)
    assert left[0] == left[1] < WORK_MAX
    with pytest.raises(ExhaustedError):
        bodies.of(message, Budget(100))
