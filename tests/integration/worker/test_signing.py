"""A worker that signs: while secrets change under traffic, and until they expire."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from app.domain.catalogue.signing_secrets import SigningKind, SigningSecret, rotated
from app.signing import new_signing_key
from tests.fakes.egress import LOOPBACK
from tests.fakes.subscriber import Received, Reply, Subscriber
from tests.fakes.worker import World
from workers.delivery.sender import Sender

OLD, NEW = (new_signing_key(SigningKind.V1).text for _ in range(2))
MESSAGES = 200


def a_secret(key: str) -> SigningSecret:
    return SigningSecret(id=key, kind=SigningKind.V1, key=key, created_at=datetime.now(UTC))


def verifies(key: str, received: Received) -> bool:
    try:
        Webhook(key).verify(received.body, dict(received.headers))
    except WebhookVerificationError:
        return False
    return True


async def test_while_a_secret_is_changed_every_delivery_verifies_with_the_old_or_the_new_one() -> (
    None
):
    async with Subscriber() as subscriber, Sender(egress=LOOPBACK) as sender:
        world = World(sender=sender)
        topic = await world.topic()
        known = await world.subscribe(topic, endpoint=subscriber.url)
        known = world.plane.put(replace(known, signing_secrets=(a_secret(OLD),)))
        async with world.worker():
            await world.publish(topic, *[b'{"n":1}'] * MESSAGES)
            await subscriber.wait_for(MESSAGES // 4)
            both = rotated(known.signing_secrets, a_secret(NEW), overlap=timedelta(days=1))
            world.plane.put(replace(known, signing_secrets=both))
            await world.publish(topic, *[b'{"n":2}'] * MESSAGES)
            await subscriber.wait_for(MESSAGES)
            await world.plane.until_applied()
            already = len(subscriber.received)
            await world.publish(topic, *[b'{"n":3}'] * MESSAGES)
            await subscriber.wait_for(3 * MESSAGES)
            world.plane.put(replace(known, signing_secrets=both[:1]))
            await world.plane.until_applied()
            await world.publish(topic, b'{"n":4}')
            await subscriber.wait_for(3 * MESSAGES + 1)
    # All that was published before the old one was taken away.
    overlapping = subscriber.received[: 3 * MESSAGES]
    assert all(verifies(OLD, received) for received in overlapping)
    assert verifies(NEW, overlapping[-1])
    assert all(verifies(NEW, each) for each in overlapping[already + MESSAGES :])
    last = subscriber.received[-1]
    assert (verifies(OLD, last), verifies(NEW, last)) == (False, True)


async def test_a_message_that_is_tried_again_is_signed_with_the_secrets_of_then() -> None:
    def refuse_the_first(received: Received) -> Reply:
        return Reply(status=200 if received.retry_count else 500)

    async with (
        Subscriber(refuse_the_first) as subscriber,
        Sender(egress=LOOPBACK) as sender,
    ):
        world = World(sender=sender)
        topic = await world.topic()
        pause = timedelta(milliseconds=1_500)
        known = await world.subscribe(topic, endpoint=subscriber.url, message_backoff=pause)
        known = world.plane.put(replace(known, signing_secrets=(a_secret(OLD),)))
        async with world.worker():
            await world.publish(topic, b'{"n":1}')
            await subscriber.wait_for(1)
            world.plane.put(replace(known, signing_secrets=(a_secret(NEW),)))
            await subscriber.wait_for(2)
    first, second = subscriber.received
    assert (verifies(OLD, first), verifies(NEW, second)) == (True, True)
    assert first.headers["webhook-id"] == second.headers["webhook-id"]


async def test_what_cannot_be_read_is_not_sent_without_its_signature() -> None:
    async with Subscriber() as subscriber, Sender(egress=LOOPBACK) as sender:
        world = World(sender=sender)
        topic = await world.topic(partitions=1)
        known = await world.subscribe(topic, endpoint=subscriber.url)
        known = world.plane.put(replace(known, signing_secrets=(a_secret(OLD),)))
        async with world.worker():
            await world.plane.until_applied()
            masked = replace(known.signing_secrets[0], key="*****")
            locked = replace(known, signing_secrets=(masked,), locked="its key is unknown")
            world.plane.put(locked)
            await world.plane.until_applied()
            await world.publish(topic, b'{"n":1}')
            other = await world.subscribe(topic, "other", endpoint=f"{subscriber.url}other")
            await world.publish(topic, b'{"n":2}')
            await subscriber.wait_for(1)
            world.plane.put(known)
            await subscriber.wait_for(3)
    first, *later = subscriber.received
    assert (first.path, other.locked) == ("/other", "")
    assert all(verifies(OLD, received) for received in later)
