import base64
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.message import Message, Partition, Record
from workers.delivery.events import binary, event_of, structured

JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.floats(allow_nan=False), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
STRUCTURED = b"application/cloudevents+json"
EVENT = (
    b'{"specversion":"1.0","id":"e-1","source":"/shop","type":"paid","subject":"Z\\u00fcrich 5%",'
    b'"paid":true,"sum":12,"gone":null,"bad_name":"x", "data": { "a" : 1.10 }}'
)


def a_message(
    body: bytes | None = b'{ "a": 1.10 }',
    *propagated: tuple[bytes, bytes],
    content_type: bytes = b"application/json",
    key: bytes | None = None,
    published_ms: int = 1_700_000_000_123,
) -> Message:
    headers = [(b"id", b"m-1"), (b"ct", content_type)]
    headers += [(b"h-" + name, value) for name, value in propagated]
    record = Record(7, published_ms, key, body, headers)
    return Message(record, Partition("shop.orders", 0))


def event(message: Message) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(event_of(message))
    return found


def test_a_plain_message_becomes_an_event_with_attributes_in_headers() -> None:
    sent, body = binary(a_message(b"x", (b"traceparent", b"00-1"), content_type=b"a/b", key=b"k"))
    assert (sent.id, sent.content_type, body) == (b"m-1", b"a/b", b"x")
    assert sent.propagated == [
        (b"traceparent", b"00-1"),
        (b"ce-specversion", b"1.0"),
        (b"ce-id", b"m-1"),
        (b"ce-source", b"/topics/shop.orders"),
        (b"ce-type", b"shop.orders"),
        (b"ce-time", b"2023-11-14T22:13:20.123Z"),
        (b"ce-partitionkey", b"k"),
    ]


def test_a_plain_message_becomes_an_event_in_json() -> None:
    sent, body = structured(a_message(b"{ }", (b"traceparent", b"00-1"), key=b"k"))
    assert (sent.id, sent.content_type) == (b"m-1", STRUCTURED)
    assert sent.propagated == [(b"traceparent", b"00-1")]
    assert orjson.loads(body) == {
        "specversion": "1.0",
        "id": "m-1",
        "source": "/topics/shop.orders",
        "type": "shop.orders",
        "time": "2023-11-14T22:13:20.123Z",
        "partitionkey": "k",
        "datacontenttype": "application/json",
        "data": {},
    }


@pytest.mark.parametrize("content_type", [b"application/json", b"a/b+JSON; charset=utf-8"])
def test_json_is_the_data_byte_for_byte(content_type: bytes) -> None:
    raw = b' {"b": 1.10, "a":"\\u00e9",\n "b": 1e400}'.replace(b"1e400", b"12345678901234567890123")
    assert event_of(a_message(raw, content_type=content_type)).endswith(b',"data":' + raw + b"}")


@pytest.mark.parametrize(
    ("body", "content_type", "data"),
    [
        ('<a>"é"</a>'.encode(), b"text/xml", {"data": '<a>"é"</a>'}),
        (b"a,b", b"text/csv; charset=utf-8", {"data": "a,b"}),
        (b"\xff", b"text/plain", {"data_base64": "/w=="}),
        (b"{}", b"application/octet-stream", {"data_base64": "e30="}),
        (b"{oops", b"application/json", {"data_base64": base64.b64encode(b"{oops").decode()}),
        (b'"\\ud800"', b"application/json", {"data_base64": "Ilx1ZDgwMCI="}),
        (b"[1]", STRUCTURED, {"data_base64": "WzFd"}),
        (b"", b"application/json", {}),
    ],
)
def test_other_data_is_text_or_base64(
    body: bytes, content_type: bytes, data: dict[str, str]
) -> None:
    found = event(a_message(body, content_type=content_type))
    assert {
        name: found[name] for name in found if name.startswith("data_") or name == "data"
    } == data
    assert found["datacontenttype"] == content_type.decode()


PUBLISHED_IN_HEADERS = (
    (b"ce-specversion", b"1.0"),
    (b"CE-Id", b"e-1"),
    (b"ce-source", b"/shop"),
    (b"ce-type", b"paid"),
    (b"ce-subject", b"Z%C3%BCrich 5%25"),
    (b"ce-subject", b"twice"),
    (b"ce-time", b""),
    (b"ce-data", b"no attribute"),
    (b"x-other", b"1"),
)


def test_attributes_that_came_as_headers_are_kept_as_they_are() -> None:
    sent, _ = binary(a_message(b"{}", *PUBLISHED_IN_HEADERS))
    assert sorted(sent.propagated) == sorted(
        [
            *(pair for pair in PUBLISHED_IN_HEADERS if pair[1]),
            (b"ce-time", b"2023-11-14T22:13:20.123Z"),
        ]
    )


def test_attributes_that_came_as_headers_are_in_the_event() -> None:
    message = a_message(b"{}", *PUBLISHED_IN_HEADERS)
    sent, _ = structured(message)
    assert sent.propagated == [(b"ce-data", b"no attribute"), (b"x-other", b"1")]
    found = event(message)
    assert found["subject"] == "Zürich 5%"
    assert [found[name] for name in ("id", "source", "type", "data")] == [
        "e-1",
        "/shop",
        "paid",
        {},
    ]


def test_what_was_published_as_an_event_in_json_goes_on_as_it_is() -> None:
    message = a_message(EVENT, content_type=STRUCTURED)
    assert structured(message)[1] == EVENT
    assert event_of(message) == EVENT


def test_an_event_in_json_is_taken_apart_for_headers() -> None:
    sent, body = binary(a_message(EVENT, (b"x-other", b"1"), content_type=STRUCTURED))
    assert body == b'{ "a" : 1.10 }'
    assert sent.content_type == b"application/json"
    assert sent.propagated == [
        (b"x-other", b"1"),
        (b"ce-specversion", b"1.0"),
        (b"ce-id", b"e-1"),
        (b"ce-source", b"/shop"),
        (b"ce-type", b"paid"),
        (b"ce-subject", b"Z%C3%BCrich%205%25"),
        (b"ce-paid", b"true"),
        (b"ce-sum", b"12"),
    ]


@pytest.mark.parametrize(
    ("members", "content_type", "data"),
    [
        ({"data_base64": "/w==", "datacontenttype": "a/b"}, b"a/b", b"\xff"),
        ({"data": "<a/>", "datacontenttype": "text/xml"}, b"text/xml", b"<a/>"),
        ({"data": "<a/>", "datacontenttype": "application/json"}, b"application/json", b'"<a/>"'),
        ({"data": None}, b"application/json", b"null"),
        ({}, b"application/json", b""),
    ],
)
def test_the_data_of_an_event_in_json_is_the_body(
    members: dict[str, object], content_type: bytes, data: bytes
) -> None:
    raw = orjson.dumps({"specversion": "1.0", "id": "e", "source": "s", "type": "t"} | members)
    sent, body = binary(a_message(raw, content_type=STRUCTURED))
    assert (sent.content_type, body) == (content_type, data)


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"data_base64":"%"}', b'{"data":' + b"[" * 9_999])
def test_what_only_says_to_be_an_event_goes_on_as_it_is(body: bytes) -> None:
    sent, sent_body = binary(a_message(body, content_type=STRUCTURED))
    assert (sent.content_type, sent_body) == (STRUCTURED, body)


@settings(max_examples=100, deadline=None)
@given(
    body=st.one_of(
        st.binary(max_size=30), st.text(max_size=30).map(str.encode), JSON.map(orjson.dumps)
    ),
    content_type=st.sampled_from([b"application/json", b"text/plain", b"a/b", b"a/b+xml"]),
)
def test_data_comes_out_as_it_went_in(body: bytes, content_type: bytes) -> None:
    raw = event_of(a_message(body, content_type=content_type))
    back, data = binary(a_message(raw, content_type=STRUCTURED))
    assert back.content_type == content_type
    # White space around JSON is no part of the value that the event has as its data.
    assert data == body or (b"json" in content_type and data == body.strip(b" \t\r\n"))


def test_a_content_type_that_there_is_not_is_left_out() -> None:
    message = a_message(b"x", (b"ce-datacontenttype", b"a/b"), content_type=b"")
    assert "datacontenttype" not in event(message)


def test_a_time_that_there_is_not_is_left_out() -> None:
    assert "time" not in event(a_message(published_ms=1 << 62))
