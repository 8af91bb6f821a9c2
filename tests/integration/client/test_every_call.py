"""Every call of the client, against the real API; its figures need workers: see tests/e2e."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from angelia_client import (
    Angelia,
    AsyncAngelia,
    ConflictError,
    InvalidError,
    NewMessage,
    NotFoundError,
    Redrive,
    Replay,
    ServiceError,
)

TOPIC = "shop.orders"
DAY = timedelta(days=1)
OWNER = {"owner": {"source": "Plaintext", "id": "tests"}}


async def test_groups_are_made_listed_and_deleted(angelia: AsyncAngelia) -> None:
    await angelia.groups.create("shop")
    assert await angelia.groups.names() == ["shop"]
    with pytest.raises(ConflictError):
        await angelia.groups.create("shop")
    await angelia.groups.delete("shop")
    assert await angelia.groups.names() == []


async def test_topics_are_made_shown_changed_and_deleted(angelia: AsyncAngelia) -> None:
    made = await angelia.topics.create(TOPIC, {"partitions": 2})
    assert (made.name, made.partitions) == (TOPIC, 2)
    assert await angelia.topics.names() == [TOPIC]
    assert await angelia.topics.names(group="other") == []
    changed = await angelia.topics.change(TOPIC, {"description": "orders"})
    assert changed.description == "orders"
    assert changed == await angelia.topics.get(TOPIC)
    assert (await angelia.topics.metrics(TOPIC)).subscriptions == 0
    history = await angelia.topics.metrics_history(TOPIC, step="day")
    assert (history.step, history.points) == ("day", ())
    assert await angelia.topics.exists(TOPIC)
    await angelia.topics.delete(TOPIC)
    assert not await angelia.topics.exists(TOPIC)


async def test_subscriptions_are_made_shown_changed_and_deleted(angelia: AsyncAngelia) -> None:
    await angelia.topics.create(TOPIC)
    subscriptions = angelia.subscriptions
    made = await subscriptions.create(TOPIC, "billing", "http://example.com/", settings=OWNER)
    assert (made.topic, made.name, made.owner.id) == (TOPIC, "billing", "tests")
    assert await subscriptions.names(TOPIC) == ["billing"]
    for place in (datetime.now(UTC), "-6h", "earliest"):
        late = await subscriptions.create(
            TOPIC, "late", "http://e.com/", settings=OWNER, start_from=place
        )
        assert late.history is None
        await subscriptions.delete(TOPIC, "late")
    with pytest.raises(InvalidError, match="startFrom"):
        await subscriptions.create(TOPIC, "late", "http://e.com/", settings=OWNER, start_from="x")
    patch = {"subscriptionPolicy": {"rate": 7}}
    changed = await subscriptions.change(TOPIC, "billing", patch=patch)
    assert changed.policy["rate"] == 7
    assert (await subscriptions.suspend(TOPIC, "billing")).state == "SUSPENDED"
    assert (await subscriptions.activate(TOPIC, "billing")).state == "ACTIVE"
    assert (await subscriptions.metrics(TOPIC, "billing")).delivered == 0
    now = datetime.now(UTC)
    history = await subscriptions.metrics_history(TOPIC, "billing", start=now - DAY, end=now)
    assert (history.step, history.points) == ("minute", ())
    with pytest.raises(InvalidError, match="from"):
        await subscriptions.metrics_history(TOPIC, "billing", start=now, end=now - DAY)
    assert await subscriptions.exists(TOPIC, "billing")
    await subscriptions.delete(TOPIC, "billing")
    assert not await subscriptions.exists(TOPIC, "billing")
    with pytest.raises(NotFoundError):
        await subscriptions.exists("no.topic", "billing")


async def test_signing_secrets_are_made_listed_and_deleted(angelia: AsyncAngelia) -> None:
    await angelia.topics.create(TOPIC)
    await angelia.subscriptions.create(TOPIC, "billing", "http://example.com/", settings=OWNER)
    made = await angelia.signing_secrets.create(TOPIC, "billing")
    assert (made.secret or "").startswith("whsec_")
    (listed,) = await angelia.signing_secrets.all(TOPIC, "billing")
    assert listed.id == made.id
    assert listed.secret != made.secret
    await angelia.signing_secrets.delete(TOPIC, "billing", secret_id=made.id)
    assert await angelia.signing_secrets.all(TOPIC, "billing") == []


async def test_messages_are_published_and_found(angelia: AsyncAngelia) -> None:
    await angelia.topics.create(TOPIC, {"maxMessageSize": 1024})
    published = await angelia.publish(TOPIC, {"order": 1}, key="k", message_id="mine")
    assert (published.message_id, published.subscriptions) == ("mine", 0)
    results = await angelia.publish_batch(
        TOPIC, [{"order": 2}, "x" * 2000, NewMessage(body={}, key="k")]
    )
    assert [(each.stored, each.status) for each in results] == [
        (True, 201),
        (False, 413),
        (True, 201),
    ]
    with pytest.raises(InvalidError):
        await angelia.publish_batch(TOPIC, [b"{"])
    found = [each async for each in angelia.messages.find(TOPIC, key="k")]
    assert [(each.message_id, each.body) for each in found] == [
        ("mine", b'{"order":1}'),
        (results[2].id, b"{}"),
    ]
    by_value = angelia.messages.find(TOPIC, path="$.order", value="2")
    assert [each.body async for each in by_value] == [b'{"order":2}']
    by_id = angelia.messages.find(TOPIC, message_id="mine")
    assert [each.body async for each in by_id] == [b'{"order":1}']
    by_text = angelia.messages.find(TOPIC, text='r":2')
    assert [each.body async for each in by_text] == [b'{"order":2}']
    assert await angelia.messages.trace("mine", topic=TOPIC) == []
    with pytest.raises(ValueError, match="topic"):
        await angelia.messages.trace("mine", subscription="billing")


async def test_undelivered_messages_are_listed_and_sent_again(angelia: AsyncAngelia) -> None:
    await angelia.topics.create(TOPIC)
    await angelia.subscriptions.create(TOPIC, "billing", "http://example.com/", settings=OWNER)
    assert [each async for each in angelia.undelivered.all(TOPIC, "billing")] == []
    assert [each async for each in angelia.undelivered.all(TOPIC)] == []
    assert await angelia.undelivered.last(TOPIC, "billing") is None
    with pytest.raises(NotFoundError):
        await angelia.undelivered.last("no.topic", "billing")
    which = Redrive(status_codes=(404,))
    sent = await angelia.undelivered.redrive(TOPIC, "billing", which=which, dry_run=True)
    assert (sent.count, sent.more) == (0, False)
    every = [each async for each in angelia.undelivered.redrive_all(TOPIC, "billing", which=which)]
    assert [each.count for each in every] == [0]


async def test_a_subscription_is_moved_back(angelia: AsyncAngelia) -> None:
    await angelia.topics.create(TOPIC, {"partitions": 2})
    await angelia.subscriptions.create(TOPIC, "billing", "http://example.com/", settings=OWNER)
    positions = await angelia.subscriptions.retransmit(TOPIC, "billing", since="-1h", dry_run=True)
    assert sorted(each.partition for each in positions) == [0, 1]
    with pytest.raises(InvalidError, match="retransmissionDate"):
        await angelia.subscriptions.retransmit(TOPIC, "billing", since="soon")


async def test_a_ping_without_a_worker_is_refused(angelia: AsyncAngelia) -> None:
    await angelia.topics.create(TOPIC)
    await angelia.subscriptions.create(TOPIC, "billing", "http://example.com/", settings=OWNER)
    with pytest.raises(ServiceError) as caught:
        await angelia.subscriptions.ping(TOPIC, "billing")
    assert caught.value.code == "NO_WORKER"


async def test_ledgers_are_asked_for_shown_and_checked(angelia: AsyncAngelia) -> None:
    await angelia.topics.create(TOPIC)
    await angelia.subscriptions.create(TOPIC, "billing", "http://example.com/", settings=OWNER)
    job = await angelia.ledgers.request(TOPIC, "billing")
    assert (job.kind, job.scope.subscription) == ("LEDGER", "billing")
    ledger = await angelia.ledgers.get(TOPIC, "billing", start=datetime.now(UTC) - DAY)
    assert (ledger.entries, ledger.sums.published, ledger.proved) == ((), 0, False)
    check = await angelia.ledgers.check(TOPIC, "billing", number=1, hash_="0" * 64)
    assert (check.intact, check.broken, check.entries) == (False, 1, 0)
    assert (await angelia.ledgers.check(TOPIC, "billing")).intact
    assert [each async for each in angelia.ledgers.exported(TOPIC, "billing")] == []
    assert all("PUBLIC KEY" in each.public_key for each in await angelia.ledgers.keys())


async def test_simulations_are_asked_for_and_shown(angelia: AsyncAngelia) -> None:
    await angelia.topics.create(TOPIC)
    await angelia.subscriptions.create(TOPIC, "billing", "http://example.com/", settings=OWNER)
    job = await angelia.analytics.simulate(TOPIC, "billing", proposal={"rate": 5})
    assert (job.kind, job.scope.subscription) == ("SIMULATION", "billing")
    found = await angelia.analytics.simulation(TOPIC, "billing", id_=job.id)
    assert (found["rate"], found["state"]) == (5, "REQUESTED")
    with pytest.raises(NotFoundError):
        await angelia.analytics.simulation(TOPIC, "billing", id_="none")


async def test_jobs_are_asked_for_listed_and_cancelled(angelia: AsyncAngelia) -> None:
    asked = await angelia.jobs.request("UNDELIVERED_ANALYTICS")
    assert asked.state == "REQUESTED"
    assert asked.scope.end - asked.scope.start == timedelta(days=1)
    assert [each.id async for each in angelia.jobs.all(state="REQUESTED")] == [asked.id]
    assert (await angelia.jobs.cancel(asked.id)).state == "CANCELLED"
    followed = [each.state async for each in angelia.jobs.follow(asked.id)]
    assert followed == ["CANCELLED"]
    with pytest.raises(NotFoundError):
        await angelia.jobs.get("none")
    with pytest.raises(NotFoundError):
        await angelia.analytics.undelivered()
    with pytest.raises(NotFoundError):
        await angelia.analytics.failures({"limit": 5})
    with pytest.raises(NotFoundError):
        await angelia.analytics.latency({"topic": TOPIC})
    timed = await angelia.jobs.request("LATENCY_ANALYTICS", slo=timedelta(milliseconds=500))
    assert timed.scope.slo_seconds == 0.5


async def test_keys_are_made_listed_and_revoked_and_all_is_audited(angelia: AsyncAngelia) -> None:
    made = await angelia.keys.create("ci", scopes=["read"], lifetime=timedelta(days=1))
    assert made.key.startswith("ang_")
    assert [each.name async for each in angelia.keys.all()] == ["ci"]
    await angelia.keys.revoke(made.id)
    (revoked,) = [each async for each in angelia.keys.all()]
    assert revoked.revoked_at is not None
    events = [each async for each in angelia.audit.events({"kind": "key"})]
    assert [each.name for each in events]


async def test_readiness_is_told(angelia: AsyncAngelia) -> None:
    readiness = await angelia.readiness()
    assert readiness.ready == all(readiness.parts.values())


async def test_the_client_for_threads_does_the_same(url: str) -> None:
    def all_of_it() -> list[str]:
        with Angelia(url) as angelia:
            angelia.topics.create(TOPIC)
            angelia.subscriptions.create(TOPIC, "billing", "http://example.com/", settings=OWNER)
            angelia.publish(TOPIC, {"order": 1})
            job = angelia.jobs.request("UNDELIVERED_ANALYTICS")
            angelia.jobs.cancel(job.id)
            return [
                *angelia.subscriptions.names(TOPIC),
                *(each.message for each in angelia.messages.find(TOPIC, path="$.order", value="1")),
                *(each.state for each in angelia.jobs.follow(job.id)),
            ]

    assert await asyncio.to_thread(all_of_it) == ["billing", '{"order":1}', "CANCELLED"]


async def test_messages_are_found_by_a_key_that_is_not_ascii(angelia: AsyncAngelia) -> None:
    await angelia.topics.create(TOPIC)
    await angelia.publish(TOPIC, {}, key="zażółć")
    assert [each.key async for each in angelia.messages.find(TOPIC, key="zażółć")] == ["zażółć"]
    with pytest.raises(InvalidError):
        await angelia.publish(TOPIC, {}, message_id="é")


async def test_topics_and_subscriptions_are_queried(angelia: AsyncAngelia) -> None:
    for name in ("shop.orders", "shop.returns"):
        await angelia.topics.create(name)
        await angelia.subscriptions.create(name, "a", "http://example.com/", settings=OWNER)
    like = {"name": {"like": ".*orders"}}
    assert [each.name async for each in angelia.topics.query(like)] == ["shop.orders"]
    every = [each async for each in angelia.subscriptions.query()]
    assert [each.topic for each in every] == ["shop.orders", "shop.returns"]


async def test_how_a_subscription_does_is_told(angelia: AsyncAngelia) -> None:
    await angelia.topics.create(TOPIC)
    await angelia.subscriptions.create(TOPIC, "billing", "http://example.com/", settings=OWNER)
    assert (await angelia.subscriptions.health(TOPIC, "billing")).status == "NO_DATA"
    assert (await angelia.subscriptions.forecast(TOPIC, "billing")).subscription == "billing"
    assert await angelia.subscriptions.alerts() == []
    (figures,) = [each async for each in angelia.subscriptions.query_metrics()]
    assert (figures.topic, figures.name, figures.lag) == (TOPIC, "billing", 0)
    query = {"name": {"like": "shop.*"}}
    (traffic,) = [each async for each in angelia.topics.query_metrics(query)]
    assert (traffic.name, traffic.subscriptions) == (TOPIC, 1)


async def test_retransmissions_are_asked_for_followed_and_cancelled(angelia: AsyncAngelia) -> None:
    await angelia.topics.create(TOPIC)
    await angelia.subscriptions.create(TOPIC, "billing", "http://example.com/", settings=OWNER)
    which = Replay(only="all", since="-1h", share=0.25, rate=5, keys=("k",))
    begun = await angelia.retransmissions.request(TOPIC, "billing", which=which)
    assert (begun.state, begun.share, begun.progress) == ("REQUESTED", 0.25, 0)
    assert begun.rate == 5
    for wrong in (replace(which, rate=0), replace(which, share=0)):
        with pytest.raises(InvalidError):
            await angelia.retransmissions.request(TOPIC, "billing", which=wrong)
    assert [each.id for each in await angelia.retransmissions.all(TOPIC, "billing")] == [begun.id]
    await angelia.retransmissions.cancel(TOPIC, "billing", id_=begun.id)
    followed = angelia.retransmissions.follow(TOPIC, "billing", id_=begun.id)
    assert [each.state async for each in followed] == ["CANCELLED"]


async def test_schemas_are_set_read_and_taken_away(angelia: AsyncAngelia) -> None:
    await angelia.topics.create(TOPIC)
    assert await angelia.schemas.get(TOPIC) is None
    text = '{"type": "object", "required": ["order"] }'
    assert await angelia.schemas.add(TOPIC, text) == 1
    in_force = await angelia.schemas.get(TOPIC)
    assert in_force is not None
    assert (in_force.text, in_force.version) == (text, 1)
    assert in_force == await angelia.schemas.get(TOPIC, version=1)
    assert [each.in_force for each in await angelia.schemas.versions(TOPIC)] == [True]
    with pytest.raises(InvalidError):
        await angelia.publish(TOPIC, {})
    await angelia.schemas.delete(TOPIC)
    assert await angelia.schemas.get(TOPIC) is None


async def test_any_call_of_the_api_can_be_made(angelia: AsyncAngelia) -> None:
    assert await angelia.call("GET", "/oauth/providers") == []
    assert await angelia.call("GET", "/status/ping") == "UP"
    assert (await angelia.call("POST", "/topics", {"name": TOPIC}))["name"] == TOPIC
    assert await angelia.call("DELETE", f"/topics/{TOPIC}") is None
    with pytest.raises(NotFoundError):
        await angelia.call("GET", f"/topics/{TOPIC}")
