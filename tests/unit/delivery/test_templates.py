import time
from collections.abc import Mapping

import pytest

from app.domain.catalogue.subscription import Subscription
from app.domain.catalogue.templates import TARGET_LENGTH_MAX, EndpointTemplate, TemplateError
from app.domain.delivery import Delivered, Discarded
from app.domain.message import Message, Partition, Record
from tests.fakes.egress import LOOPBACK
from tests.fakes.subscriber import Subscriber
from tests.work import SHARE_MAX, least_share
from workers.delivery.sender import Sender


def target(endpoint: str, body: object) -> str:
    template = EndpointTemplate.of(endpoint)
    assert template is not None
    return template.target(body)


@pytest.mark.parametrize(
    ("endpoint", "body", "expected"),
    [
        ("http://h.test/{a}", {"a": "x"}, "/x"),
        ("http://h.test/{a}/{b.c}", {"a": 1, "b": {"c": True}}, "/1/true"),
        ("http://h.test/v{a}-{a}.json", {"a": 2.5}, "/v2.5-2.5.json"),
        ("http://h.test?id={a}", {"a": "x y"}, "/?id=x%20y"),
        ("http://h.test/i%20n?q={a}&r=1#part", {"a": ".."}, "/i%20n?q=..&r=1"),
        ("http://h.test/{a}", {"a": "../x?y=1#z&%2e"}, "/..%2Fx%3Fy%3D1%23z%26%252e"),
        ("http://h.test/{a}", {"a": "zażółć\r\n"}, "/za%C5%BC%C3%B3%C5%82%C4%87%0D%0A"),
        ("http://h.test/x{a}", {"a": ""}, "/x"),
        ("http://h.test/x/{a}?b={b.c}&d=1", {"a": None, "b": {"c": None}}, "/x/?b=&d=1"),
    ],
)
def test_values_are_filled_in_percent_encoded(endpoint: str, body: object, expected: str) -> None:
    assert target(endpoint, body) == expected


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        "a",
        None,
        {"a": None},
        {"a": {}},
        {"a": {"b": {"c": 1}}},
        {"a": {"b": [1]}},
        {"a": {"b": "."}},
        {"a": {"b": ".."}},
        {"a": {"b": "x" * TARGET_LENGTH_MAX}},
    ],
)
def test_a_value_that_is_missing_or_unfit_is_refused(body: object) -> None:
    with pytest.raises(TemplateError):
        target("http://h.test/{a.b}/x", body)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"a": {"b": [1]}}, "a.b is a list, and must be a text, a number, a boolean or null"),
        ({"a": {"b": {}}}, "a.b is an object, and must be a text, a number, a boolean or null"),
        ({"a": {}}, "the body has no a.b"),
        ({"a": None}, "the body has no a.b"),
    ],
)
def test_the_reason_of_a_refused_value_is_told(body: object, says: str) -> None:
    with pytest.raises(TemplateError, match=f"^{says}$"):
        target("http://h.test/{a.b}", body)


def test_an_endpoint_without_place_holders_is_no_template() -> None:
    assert EndpointTemplate.of("http://h.test/a?b=c") is None


def to(endpoint: str) -> Subscription:
    return Subscription(id="s-1", topic="g.t", name="s", endpoint=endpoint)


def a_message(body: bytes) -> Message:
    return Message(Record(7, 1, None, body, [(b"id", b"m-1")]), Partition("g.t", 0))


async def test_each_message_goes_to_its_own_path_of_the_one_host() -> None:
    async with Subscriber() as subscriber, Sender(egress=LOOPBACK) as sender:
        destination = sender.destination(to(f"{subscriber.url}hook/{{a}}?q={{b.c}}"))
        for body in (b'{"a":"x/y","b":{"c":1}}', b'{"a":"@evil.test","b":{"c":"?&"}}'):
            outcome = await destination.attempt(a_message(body), retry_count=0)
            assert outcome == Delivered(status=200)
    assert [each.path for each in subscriber.received] == [
        "/hook/x%2Fy?q=1",
        "/hook/%40evil.test?q=%3F%26",
    ]
    assert {each.headers["host"] for each in subscriber.received} == {
        f"127.0.0.1:{subscriber.port}"
    }


@pytest.mark.parametrize(
    ("body", "says"), [(b"{}", "has no a"), (b"not json", "not JSON"), (b'{"a":".."}', "dots")]
)
async def test_a_message_that_gives_no_endpoint_is_discarded_with_the_reason(
    body: bytes, says: str
) -> None:
    async with Subscriber() as subscriber, Sender(egress=LOOPBACK) as sender:
        destination = sender.destination(to(f"{subscriber.url}{{a}}"))
        outcome = await destination.attempt(a_message(body), retry_count=0)
    assert isinstance(outcome, Discarded)
    assert says in outcome.reason
    assert subscriber.received == []


def test_a_long_text_is_refused_before_it_is_encoded() -> None:
    template = EndpointTemplate.of("http://h.test/{a}")
    assert template is not None
    short, long = {"a": "x" * TARGET_LENGTH_MAX}, {"a": "ż" * (1 << 20)}

    def took_s(value: Mapping[str, str], times: int) -> float:
        began = time.process_time()
        for _ in range(times):
            with pytest.raises(TemplateError, match="longer than"):
                template.target(value)
        return time.process_time() - began

    assert least_share(lambda: took_s(long, 1), lambda: took_s(short, 5), 1) <= SHARE_MAX
