import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.message import Message, Partition, Record
from workers.delivery.request import RequestHeaders


def a_message(
    *propagated: tuple[bytes, bytes], message_id: bytes = b"m-1", content_type: bytes = b"a/b"
) -> Message:
    headers = [(b"id", message_id), (b"ct", content_type)]
    headers += [(b"h-" + name, value) for name, value in propagated]
    return Message(Record(7, 1, None, b"{}", headers), Partition("g.t", 0))


def headers_of(message: Message, *, user: str = "") -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = {}
    for name, value in RequestHeaders(host=b"h:1", user=user).of(message, 2):
        found.setdefault(name.lower(), []).append(value)
    return found


def test_says_what_hermes_says_and_how_it_was_published() -> None:
    assert RequestHeaders(host=b"h:1").of(a_message(), 2) == [
        (b"Host", b"h:1"),
        (b"User-Agent", b"Angelia"),
        (b"Content-Type", b"a/b"),
        (b"Hermes-Message-Id", b"m-1"),
        (b"Hermes-Retry-Count", b"2"),
        (b"Idempotency-Key", b"m-1"),
    ]


@pytest.mark.parametrize(
    "name",
    [
        b"Host",
        b"USER-AGENT",
        b"Content-Type",
        b"hermes-message-id",
        b"Hermes-Retry-Count",
        b"idempotency-key",
        b"Authorization",
    ],
)
def test_a_propagated_header_yields_to_a_more_specific_one(name: bytes) -> None:
    found = headers_of(a_message((name, b"forged")), user="me")
    assert b"forged" not in found[name.lower()]
    assert len(found[name.lower()]) == 1


@pytest.mark.parametrize(
    "name",
    [
        b"Connection",
        b"Content-Length",
        b"Transfer-Encoding",
        b"TE",
        b"Trailer",
        b"Upgrade",
        b"Expect",
        b"Keep-Alive",
        b"Proxy-Authorization",
        b"Accept-Encoding",
        b"",
        b"a b",
        b"a:b",
        b"a\r\nb",
        b"\xe9",
    ],
)
def test_what_is_between_neighbours_or_is_no_name_is_not_propagated(name: bytes) -> None:
    assert headers_of(a_message((name, b"1"))) == headers_of(a_message())


def test_propagates_the_rest_in_order_with_repetitions() -> None:
    found = headers_of(a_message((b"X-A", b"1"), (b"Authorization", b"theirs"), (b"x-a", b"2")))
    assert found[b"x-a"] == [b"1", b"2"]
    assert found[b"authorization"] == [b"theirs"]


@given(name=st.binary(max_size=20), value=st.binary(max_size=40), other=st.binary(max_size=20))
def test_no_bytes_of_a_message_break_a_line(name: bytes, value: bytes, other: bytes) -> None:
    message = a_message((name, value), message_id=other, content_type=value)
    for header in RequestHeaders(host=b"h").of(message, 0):
        for part in header:
            assert not {*b"\r\n\0"} & {*part}
