from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.catalogue.headers import Header
from app.domain.catalogue.signing_secrets import SigningKind, SigningSecret
from app.domain.catalogue.subscription import Subscription
from app.domain.message import Message, Partition, Record
from app.domain.targeted import RecordTarget
from app.signing import new_signing_key
from workers.delivery.request import RequestHeaders


def a_message(
    *propagated: tuple[bytes, bytes], message_id: bytes = b"m-1", content_type: bytes = b"a/b"
) -> Message:
    headers = [(b"id", message_id), (b"ct", content_type)]
    headers += [(b"h-" + name, value) for name, value in propagated]
    return Message(Record(7, 1, None, b"{}", headers), Partition("g.t", 0))


def a_subscription(**settings: Any) -> Subscription:  # noqa: ANN401 - fields of the value
    return Subscription(id="s-1", topic="g.t", name="s", endpoint="http://h:1/", **settings)


def headers_of(message: Message, *, user: str = "", **settings: object) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = {}
    request = RequestHeaders(a_subscription(**settings), host=b"h:1", user=user)
    for name, value in (*request.constant_beside(message), *request.of(message, 2)):
        found.setdefault(name.lower(), []).append(value)
    return found


def test_says_what_hermes_says_and_how_it_was_published() -> None:
    headers = RequestHeaders(a_subscription(), host=b"h:1")
    assert headers.constant == ((b"Host", b"h:1"), (b"User-Agent", b"Angelia"))
    assert headers.of(a_message(), 2) == [
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
    for header in RequestHeaders(a_subscription(), host=b"h").of(message, 0):
        for part in header:
            assert not {*b"\r\n\0"} & {*part}


def static(**headers: str) -> tuple[Header, ...]:
    return tuple(Header(name=n.replace("_", "-"), value=v) for n, v in headers.items())


def test_a_propagated_header_wins_over_the_subscriptions() -> None:
    ours = static(Trace_Id="ours", X_Key="k")
    message = a_message((b"trace-id", b"theirs"), (b"X-Other", b"1"))
    found = headers_of(message, headers=ours)
    assert (found[b"trace-id"], found[b"x-key"]) == ([b"theirs"], [b"k"])
    assert found[b"x-other"] == [b"1"]
    without = headers_of(a_message((b"X-Other", b"1")), headers=ours)
    assert (without[b"trace-id"], without[b"x-key"]) == ([b"ours"], [b"k"])


@pytest.mark.parametrize("name", ["Hermes-Message-Id", "hermes-retry-count", "Idempotency-Key"])
def test_the_subscriptions_headers_yield_to_those_of_hermes(name: str) -> None:
    found = headers_of(a_message(), headers=(Header(name=name, value="forged"),))
    assert found == headers_of(a_message())


@pytest.mark.parametrize("name", ["User-Agent", "Content-Type", "Authorization", "ce-source"])
def test_the_subscriptions_headers_replace_what_is_only_implied(name: str) -> None:
    message = a_message((name.encode(), b"theirs"))
    found = headers_of(message, user="me", headers=(Header(name=name, value="ours"),))
    assert found[name.lower().encode()] == [b"ours"]


def test_topic_and_subscription_are_named_when_asked_for() -> None:
    forged = static(Hermes_Topic_Name="forged")
    message = a_message((b"Hermes-Subscription-Name", b"forged"))
    found = headers_of(message, identity_headers=True, headers=forged)
    assert found[b"hermes-topic-name"] == [b"g.t"]
    assert found[b"hermes-subscription-name"] == [b"s"]
    assert b"hermes-topic-name" not in headers_of(a_message())


def test_the_idempotency_key_can_be_left_to_others() -> None:
    assert b"idempotency-key" not in headers_of(a_message(), idempotency_key=False)
    own = headers_of(a_message(), idempotency_key=False, headers=static(Idempotency_Key="k"))
    assert own[b"idempotency-key"] == [b"k"]


def test_headers_of_one_subscription_with_the_same_name_are_all_sent() -> None:
    twice = (Header(name="x-a", value="1"), Header(name="X-A", value="2"))
    assert headers_of(a_message(), headers=twice)[b"x-a"] == [b"1", b"2"]
    assert headers_of(a_message((b"x-A", b"3")), headers=twice)[b"x-a"] == [b"3"]


def test_without_a_signing_secret_the_headers_of_signatures_are_headers_like_any() -> None:
    ours = (Header(name="webhook-id", value="1"),)
    assert headers_of(a_message(), headers=ours)[b"webhook-id"] == [b"1"]


def test_a_retransmission_is_named_and_nothing_else_can_say_so() -> None:
    message = a_message((b"Hermes-Retransmission", b"forged"))
    request = RequestHeaders(
        a_subscription(headers=(Header(name="hermes-retransmission", value="forged"),)),
        host=b"h:1",
    )
    named = dict(request.of(message, 0, RecordTarget("a" * 32, "b" * 32)))
    assert named[b"Hermes-Retransmission"] == b"b" * 32
    assert b"forged" not in {value for _, value in (*request.constant, *request.of(message, 0))}


SIGNED = SigningSecret(
    id="1",
    kind=SigningKind.V1,
    key=new_signing_key(SigningKind.V1).text,
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
)


@pytest.mark.parametrize(("secrets", "sent"), [((SIGNED,), 0), ((), 1)])
def test_the_headers_of_signatures_are_nobody_elses_where_it_is_signed(
    secrets: tuple[SigningSecret, ...], sent: int
) -> None:
    names = (b"Webhook-Id", b"webhook-timestamp")
    message = a_message(*((name, b"forged") for name in names))
    static = (Header(name="WEBHOOK-Signature", value="forged"),)
    found = headers_of(message, headers=static, signing_secrets=secrets)
    for name in (b"webhook-id", b"webhook-timestamp", b"webhook-signature"):
        assert len(found.get(name, [])) == sent
