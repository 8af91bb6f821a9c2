import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest

from app.domain.catalogue.headers import Header
from app.domain.catalogue.subscription import ContentMode, DeliveryPolicy, Subscription
from app.domain.circuit import ErrorType
from app.domain.delivery import Delivered, Discarded, Outcome, Retry
from app.domain.message import Message, Partition, Record
from app.domain.targeted import RecordTarget
from tests.fakes.egress import LOOPBACK
from tests.fakes.hostile import (
    MEGABYTE,
    OK,
    Act,
    Hostile,
    drips,
    floods,
    hangs,
    never_accepting,
    repeats,
    resets,
    says,
)
from tests.fakes.subscriber import Received, Reply, Subscriber
from tests.integration.conftest import Wire
from workers.delivery.batch import MessageBatch
from workers.delivery.sender import Sender
from workers.transport.late_start import set_may_start

PATIENT = DeliveryPolicy(request_timeout=timedelta(seconds=60))
SHORT = DeliveryPolicy(request_timeout=timedelta(milliseconds=150))
NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


def a_message(body: bytes | None = b'{"a":1}', **headers: bytes) -> Message:
    record = [(name.replace("_", "-").encode(), value) for name, value in headers.items()]
    return Message(Record(7, 1, None, body, [(b"id", b"m-1"), *record]), Partition("g.t", 0))


def to(endpoint: str, policy: DeliveryPolicy) -> Subscription:
    return Subscription(id="s-1", topic="g.t", name="s", endpoint=endpoint, policy=policy)


async def attempt(
    endpoint: str, policy: DeliveryPolicy = PATIENT, *, ca_file: Path | None = None
) -> Outcome:
    """One attempt, after which no connection is left or lost."""
    async with Sender(egress=LOOPBACK, ca_file=ca_file, clock=lambda: NOW) as sender:
        outcome = await sender.destination(to(endpoint, policy)).attempt(a_message(), retry_count=0)
        assert sender.transport.connections == sender.transport.idle_connections
    assert sender.transport.connections == 0
    return outcome


async def test_posts_the_message_with_its_headers() -> None:
    message = a_message(
        b"<a/>", ct=b"text/xml", h_traceparent=b"00-1", h_X_Tenant=b"acme", h_Host=b"evil"
    )
    async with Subscriber() as subscriber, Sender(egress=LOOPBACK) as sender:
        destination = sender.destination(to(f"{subscriber.url}hook?a=b%20c#part", PATIENT))
        assert await destination.attempt(message, retry_count=3) == Delivered(status=200)
        [received] = subscriber.received
    assert received.method == "POST"
    assert received.path == "/hook?a=b%20c"
    assert received.body == b"<a/>"
    assert received.headers == {
        "host": f"127.0.0.1:{subscriber.port}",
        "user-agent": "Angelia",
        "content-type": "text/xml",
        "content-length": "4",
        "hermes-message-id": "m-1",
        "hermes-retry-count": "3",
        "idempotency-key": "m-1",
        "traceparent": "00-1",
        "x-tenant": "acme",
    }


async def test_what_may_not_be_sent_any_more_when_it_is_connected_is_sent_later() -> None:
    async with Subscriber() as subscriber, Sender(egress=LOOPBACK) as sender:
        destination = sender.destination(to(subscriber.url, PATIENT))
        set_may_start(lambda: False)
        outcome = await destination.attempt(a_message(), retry_count=0)
        assert isinstance(outcome, Retry)
        assert (outcome.unsent, outcome.blameless, outcome.status) == (True, True, None)
        set_may_start(lambda: False)
        assert await destination.attempt(a_message(), retry_count=0) == Delivered(status=200)
        assert sender.transport.connections == 1
        assert len(subscriber.received) == 1


async def test_what_a_publisher_propagates_wins_over_the_subscriptions_headers() -> None:
    ours = (Header(name="Trace-Id", value="ours"), Header(name="X-Key", value="k"))
    async with Subscriber() as subscriber, Sender(egress=LOOPBACK) as sender:
        destination = sender.destination(replace(to(subscriber.url, PATIENT), headers=ours))
        for message in (a_message(h_trace_id=b"theirs"), a_message(h_x_other=b"1"), a_message()):
            await destination.attempt(message, retry_count=0)
        seen = [(each.headers["trace-id"], each.headers["x-key"]) for each in subscriber.received]
    assert seen == [("theirs", "k"), ("ours", "k"), ("ours", "k")]


@pytest.mark.parametrize("mode", [ContentMode.CE_BINARY, ContentMode.CE_STRUCTURED])
async def test_a_message_is_sent_as_a_cloud_event_where_that_is_asked_for(
    mode: ContentMode,
) -> None:
    message = a_message(ct=b"a/b+json", h_ce_type=b"paid", h_traceparent=b"00-1")
    async with Subscriber() as subscriber, Sender(egress=LOOPBACK) as sender:
        headers = (Header(name="ce-source", value="/mine"),)
        asking = replace(to(subscriber.url, PATIENT), content_mode=mode, headers=headers)
        await sender.destination(asking).attempt(message, retry_count=0)
        [received] = subscriber.received
    assert (received.headers["hermes-message-id"], received.headers["traceparent"]) == (
        "m-1",
        "00-1",
    )
    assert received.headers["ce-source"] == "/mine"
    if mode is ContentMode.CE_BINARY:
        assert received.body == b'{"a":1}'
        sent = {"content-type": "a/b+json", "ce-specversion": "1.0", "ce-id": "m-1"}
        assert (sent | {"ce-type": "paid"}).items() <= received.headers.items()
    else:
        assert received.headers["content-type"] == "application/cloudevents+json"
        assert "ce-type" not in received.headers
        event = orjson.loads(received.body)
        assert (event["id"], event["type"], event["data"]) == ("m-1", "paid", {"a": 1})


@pytest.mark.parametrize("mode", list(ContentMode))
async def test_a_batch_has_its_shape_whatever_is_asked_for_meanwhile(mode: ContentMode) -> None:
    batch = MessageBatch([a_message()], b"[1]", content_type=b"a/b", subscription_id="s-1")
    async with Subscriber() as subscriber, Sender(egress=LOOPBACK) as sender:
        asking = replace(to(subscriber.url, PATIENT), content_mode=mode)
        await sender.destination(asking).attempt(batch, retry_count=0)
        [received] = subscriber.received
    assert (received.headers["content-type"], received.body) == ("a/b", b"[1]")


@pytest.mark.parametrize("mode", list(ContentMode))
async def test_a_message_that_is_sent_again_names_its_retransmission_but_a_batch_does_not(
    mode: ContentMode,
) -> None:
    message = a_message(r=RecordTarget("a" * 32, "b" * 32).header())
    batch = MessageBatch([message], b"[1]", content_type=b"a/b", subscription_id="s-1")
    async with Subscriber() as subscriber, Sender(egress=LOOPBACK) as sender:
        destination = sender.destination(replace(to(subscriber.url, PATIENT), content_mode=mode))
        for each in (message, batch):
            await destination.attempt(each, retry_count=0)
        named = [each.headers.get("hermes-retransmission") for each in subscriber.received]
    assert named == ["b" * 32, None]


async def test_credentials_of_the_endpoint_become_basic_authorization() -> None:
    async with Subscriber() as subscriber, Sender(egress=LOOPBACK) as sender:
        endpoint = subscriber.url.replace("http://", "http://us%40er:p%3Aw@")
        await sender.destination(to(endpoint, PATIENT)).attempt(a_message(), retry_count=0)
        [received] = subscriber.received
    assert received.headers["authorization"] == "Basic dXNAZXI6cDp3"
    assert received.headers["host"] == f"127.0.0.1:{subscriber.port}"


async def test_uses_one_connection_for_messages_in_turn() -> None:
    async with Subscriber() as subscriber, Sender(egress=LOOPBACK) as sender:
        destination = sender.destination(to(subscriber.url, PATIENT))
        for retry_count in range(20):
            await destination.attempt(a_message(), retry_count=retry_count)
        assert [received.retry_count for received in subscriber.received] == list(range(20))
        assert subscriber.connections_total == 1


async def test_a_record_without_a_value_is_discarded_unsent() -> None:
    async with Subscriber() as subscriber, Sender(egress=LOOPBACK) as sender:
        destination = sender.destination(to(subscriber.url, PATIENT))
        outcome = await destination.attempt(a_message(None), retry_count=0)
        assert subscriber.received == []
    assert outcome == Discarded(reason="malformed: the record has no value")


async def test_an_empty_body_is_sent() -> None:
    async with Subscriber() as subscriber, Sender(egress=LOOPBACK) as sender:
        destination = sender.destination(to(subscriber.url, PATIENT))
        await destination.attempt(a_message(b""), retry_count=0)
        [received] = subscriber.received
    assert received.headers["content-length"] == "0"


async def test_a_large_body_arrives_whole() -> None:
    body = bytes(range(256)) * (8 * 1024)
    async with Subscriber() as subscriber, Sender(egress=LOOPBACK) as sender:
        destination = sender.destination(to(subscriber.url, PATIENT))
        assert isinstance(await destination.attempt(a_message(body), retry_count=0), Delivered)
        assert subscriber.received[0].body == body


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        (Reply(status=204), Delivered(status=204)),
        (
            Reply(status=503, headers={"RETRY-AFTER": "7"}, body=b"busy"),
            Retry(
                reason="Message sending failed with status code:503",
                status=503,
                answer="busy",
                retry_after=timedelta(seconds=7),
            ),
        ),
        (
            Reply(status=429, headers={"Retry-After": "Sat, 21 Nov 2026 12:01:00 GMT"}),
            Retry(
                reason="Message sending failed with status code:429",
                status=429,
                retry_after=timedelta(seconds=60),
            ),
        ),
        (
            Reply(status=404, body=b"no such \x1b"),
            Discarded(
                reason="Message sending failed with status code:404",
                status=404,
                answer="no such \\u001b",
            ),
        ),
    ],
)
async def test_the_answer_becomes_the_outcome(reply: Reply, outcome: Outcome) -> None:
    async with Subscriber(reply) as subscriber:
        assert await attempt(subscriber.url) == outcome


async def test_a_redirect_is_not_followed() -> None:
    async with Subscriber() as elsewhere:

        def redirect(_: Received) -> Reply:
            return Reply(status=307, headers={"Location": elsewhere.url})

        async with Subscriber(redirect) as subscriber:
            outcome = await attempt(subscriber.url)
        assert elsewhere.received == []
    assert outcome == Retry(reason="Message sending failed with status code:307", status=307)


@pytest.mark.parametrize(
    "endpoint",
    ["http://[::1]x/", "http://256.1.1.1/", f"http://host/{'x' * 70_000}"],
    ids=lambda endpoint: str(endpoint)[:20],
)
async def test_an_endpoint_that_is_no_url_discards(endpoint: str) -> None:
    outcome = await attempt(endpoint)
    assert isinstance(outcome, Discarded)
    assert outcome.reason.startswith("Endpoint cannot be used: ")


@pytest.mark.parametrize("host", ["nobody.invalid", "xn--a", "a..b", "x" * 64 + ".test"])
async def test_a_host_that_does_not_resolve_is_retried(host: str) -> None:
    outcome = await attempt(f"http://{host}/")
    assert isinstance(outcome, Retry)
    assert outcome.reason.startswith("Could not connect")


async def test_a_refused_connection_is_retried() -> None:
    async with Subscriber() as subscriber:
        endpoint = subscriber.url
    outcome = await attempt(endpoint)
    assert isinstance(outcome, Retry)
    assert outcome.reason.startswith("Could not connect: ")
    assert not outcome.timed_out


async def test_a_connection_that_is_never_accepted_ends_at_the_deadline() -> None:
    async with never_accepting() as endpoint:
        outcome = await attempt(endpoint, SHORT)
    assert outcome == Retry(reason="Could not connect within 150 ms", error=ErrorType.TIMEOUT)


# A handshake takes its time, and the deadline covers it.
WITH_HANDSHAKE = DeliveryPolicy(request_timeout=timedelta(seconds=3))
TIMED_OUT = Retry(reason="No complete answer within 3000 ms", error=ErrorType.TIMEOUT)
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


ENDLESS = {
    "says nothing": hangs,
    "hangs in the head": says(b"HTTP/1.1 200 OK\r\n"),
    "hangs after it": says(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),
    "never closes": says(b"HTTP/1.1 200 OK\r\n\r\nbody"),
    "never ends its chunks": says(CHUNKED + b"2\r\nok\r\n"),
    "drips": drips(OK, interval_s=0.3),
    "drips chunks": drips(CHUNKED + b"1\r\na\r\n" * 99, interval_s=0.01),
    "only continues": says(b"HTTP/1.1 100 Continue\r\n\r\n"),
}


async def test_one_deadline_ends_what_does_not_end(wire: Wire) -> None:
    async def outcome(sender: Sender, act: Act) -> Outcome:
        async with Hostile(act, tls=wire.server) as hostile:
            destination = sender.destination(to(hostile.url, WITH_HANDSHAKE))
            outcome = await destination.attempt(a_message(), retry_count=0)
            await hostile.left()
            assert len(hostile.requests) == 1
            return outcome

    async with Sender(egress=LOOPBACK, ca_file=wire.ca_file) as sender:
        outcomes = await asyncio.gather(*(outcome(sender, act) for act in ENDLESS.values()))
        assert sender.transport.connections == 0
    assert dict(zip(ENDLESS, outcomes, strict=True)) == dict.fromkeys(ENDLESS, TIMED_OUT)


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (says(b"SSH-2.0-OpenSSH_9.2\r\n"), "Protocol error: not an HTTP answer"),
        (says(b"\x16\x03\x01\x00\x02\x02\x28"), "Protocol error: not an HTTP answer"),
        (says(b"HTTP/1.1 abc OK\r\n\r\n"), "Protocol error: not an HTTP answer"),
        (says(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"), "Protocol error: not an HTTP"),
        (says(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n"), "Protocol error: not an HTTP"),
        (
            says(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
            "Protocol error: not an HTTP answer",
        ),
        (says(close=True), "Protocol error: the connection was closed without an answer"),
        (
            says(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfour", close=True),
            "Protocol error: the connection was closed within the answer",
        ),
        (
            says(CHUNKED + b"5\r\nhel", close=True),
            "Protocol error: the connection was closed within the answer",
        ),
        (says(b"HTTP/1.1 20", close=True), "Protocol error: the connection was closed within"),
        (
            says(b"HTTP/1.1 100 Continue\r\n\r\n", close=True),
            "Protocol error: the connection was closed within the answer",
        ),
        (resets, "Connection error: the connection broke: "),
        (
            repeats(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
            "Protocol error: not an HTTP answer: more than 16",
        ),
        (
            repeats(b"", b"HTTP/1.1 103 Early\r\nA: b\r\n\r\n"),
            "Protocol error: not an HTTP answer: more than 16",
        ),
        (
            repeats(b"HTTP/1.1 200 OK\r\n", b"X-Header: " + b"x" * 900 + b"\r\n"),
            "Protocol error: more than 65536 bytes of headers",
        ),
        (repeats(b"HTTP/1.1 200 OK\r\nX: ", b"x" * 900), "Protocol error: more than 65536"),
    ],
)
async def test_what_is_no_answer_is_retried(wire: Wire, act: Act, reason: str) -> None:
    async with Hostile(act, tls=wire.server) as hostile:
        outcome = await attempt(hostile.url, ca_file=wire.ca_file)
        await hostile.left()
        assert len(hostile.requests) == 1
    assert isinstance(outcome, Retry)
    assert outcome.reason.startswith(reason)
    assert not outcome.timed_out


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(says(b"HTTP/1.0 200 OK\r\n\r\nbody", close=True), id="HTTP/1.0, closed"),
        pytest.param(says(b"HTTP/1.1 200 OK\r\n\r\n", close=True), id="closed"),
        pytest.param(says(CHUNKED, b"2\r\nok\r\n", b"0\r\nTrailer: t\r\n\r\n"), id="chunked"),
        pytest.param(drips(OK, interval_s=0.0), id="byte by byte"),
        pytest.param(says(b"HTTP/1.1 100 Continue\r\n\r\n", OK), id="continued"),
        pytest.param(says(b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n" + OK), id="hinted"),
        pytest.param(says(OK + OK), id="two answers to one request"),
        pytest.param(says(OK + b"\r\n\r\ngarbage\x00"), id="garbage after the answer"),
        pytest.param(says(OK[:-1] + b"k, and more"), id="longer than it said"),
        pytest.param(floods(50 * MEGABYTE), id="50 MB"),
        pytest.param(repeats(CHUNKED, b"1\r\nx\r\n" * 1000), id="endless tiny chunks"),
        pytest.param(repeats(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 1000), id="endless body"),
        pytest.param(repeats(CHUNKED + b"0\r\n", b"T: x\r\n" * 100), id="endless trailers"),
    ],
)
async def test_the_status_counts_once_there_is_an_answer(wire: Wire, act: Act) -> None:
    async with Hostile(act, tls=wire.server) as hostile:
        assert await attempt(hostile.url, ca_file=wire.ca_file) == Delivered(status=200)
        await hostile.left()
        assert len(hostile.requests) == 1
        # Not more than the sockets' buffers hold beyond what is read.
        assert hostile.sent_max < 16 * MEGABYTE


async def test_one_that_answers_before_it_is_asked_gets_no_credit() -> None:
    async with Hostile(says(OK), reading=False) as hostile:
        outcome = await attempt(hostile.url)
    assert isinstance(outcome, Delivered | Retry)


async def test_an_expression_sees_the_body_as_it_came() -> None:
    subscription = replace(to("http://s.test/", PATIENT), failure_expression="body == 'no'")
    reply = Reply(status=200, body=b"no", headers={"Content-Encoding": "gzip"})
    async with Subscriber(reply) as subscriber, Sender(egress=LOOPBACK) as sender:
        here = replace(subscription, endpoint=subscriber.url)
        outcome = await sender.destination(here).attempt(a_message(), retry_count=0)
    assert isinstance(outcome, Retry)
    assert outcome.answer == "no"
