"""Signatures on the wire: what arrives verifies with a receiver's own library."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from standardwebhooks.webhooks import Webhook

from app.domain.catalogue.headers import Header
from app.domain.catalogue.signing_secrets import SigningKind, SigningSecret
from app.domain.catalogue.subscription import ContentMode, DeliveryPolicy, Subscription
from app.domain.message import Message, Partition, Record
from app.signing import new_signing_key
from tests.fakes.egress import LOOPBACK
from tests.fakes.subscriber import Received, Subscriber
from workers.delivery.batch import MessageBatch
from workers.delivery.sender import Sender

KEY = new_signing_key(SigningKind.V1)
SECRET = SigningSecret(
    id="1", kind=SigningKind.V1, key=KEY.text, created_at=datetime(2026, 1, 1, tzinfo=UTC)
)


def a_message(**headers: bytes) -> Message:
    record = [(f"h-{name.replace('_', '-')}".encode(), value) for name, value in headers.items()]
    return Message(Record(7, 1, None, b'{"a":1}', [(b"id", b"m-1"), *record]), Partition("g.t", 0))


def signed(endpoint: str) -> Subscription:
    return Subscription(
        id="s-1",
        topic="g.t",
        name="s",
        endpoint=endpoint,
        policy=DeliveryPolicy(request_timeout=timedelta(seconds=60)),
        signing_secrets=(SECRET,),
    )


def verify(received: Received) -> None:
    Webhook(KEY.text).verify(received.body, dict(received.headers))


@pytest.mark.parametrize("mode", list(ContentMode))
async def test_what_arrives_verifies_in_every_content_mode(mode: ContentMode) -> None:
    async with Subscriber() as subscriber, Sender(egress=LOOPBACK) as sender:
        asking = replace(signed(subscriber.url), content_mode=mode)
        await sender.destination(asking).attempt(a_message(), retry_count=0)
        [received] = subscriber.received
    verify(received)
    assert received.headers["webhook-id"] == received.headers["hermes-message-id"] == "m-1"


async def test_what_a_template_sends_elsewhere_is_signed_too() -> None:
    async with Subscriber() as subscriber, Sender(egress=LOOPBACK) as sender:
        asking = signed(f"{subscriber.url}orders/{{a}}")
        await sender.destination(asking).attempt(a_message(), retry_count=0)
        [received] = subscriber.received
    verify(received)
    assert received.path == "/orders/1"


async def test_a_batch_is_signed_as_a_whole_under_its_own_id() -> None:
    batch = MessageBatch([a_message()], b"[1]", content_type=b"a/b", subscription_id="s-1")
    async with Subscriber() as subscriber, Sender(egress=LOOPBACK) as sender:
        await sender.destination(signed(subscriber.url)).attempt(batch, retry_count=0)
        [received] = subscriber.received
    verify(received)
    assert received.headers["webhook-id"].encode("ascii") == batch.id


async def test_each_attempt_has_its_own_time_under_the_same_id() -> None:
    clock = [datetime.now(UTC)]
    async with (
        Subscriber() as subscriber,
        Sender(egress=LOOPBACK, clock=lambda: clock[0]) as sender,
    ):
        destination = sender.destination(signed(subscriber.url))
        await destination.attempt(a_message(), retry_count=0)
        clock[0] += timedelta(seconds=60)
        await destination.attempt(a_message(), retry_count=1)
        first, second = subscriber.received
    for received in (first, second):
        verify(received)
    times = [int(each.headers["webhook-timestamp"]) for each in (first, second)]
    assert times[1] - times[0] == 60
    assert first.headers["webhook-id"] == second.headers["webhook-id"]


async def test_nobody_else_gives_a_header_of_a_signature() -> None:
    forged = dict.fromkeys(("webhook_id", "Webhook_Timestamp", "webhook_signature"), b"forged")
    static = tuple(
        Header(name=name, value="forged") for name in ("Webhook-Id", "webhook-signature")
    )
    async with Subscriber() as subscriber, Sender(egress=LOOPBACK) as sender:
        asking = replace(signed(subscriber.url), headers=static)
        await sender.destination(asking).attempt(a_message(**forged), retry_count=0)
        [received] = subscriber.received
    verify(received)
    assert "forged" not in str(received.headers)


async def test_without_a_secret_such_headers_are_as_any_other() -> None:
    async with Subscriber() as subscriber, Sender(egress=LOOPBACK) as sender:
        asking = replace(signed(subscriber.url), signing_secrets=())
        await sender.destination(asking).attempt(a_message(webhook_id=b"theirs"), retry_count=0)
        [received] = subscriber.received
    assert received.headers["webhook-id"] == "theirs"
    assert "webhook-signature" not in received.headers
