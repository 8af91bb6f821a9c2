"""Alerts are messages of a topic that anybody can subscribe to."""

import pytest

from app.domain.catalogue.subscription import State
from app.domain.errors import LogUnavailableError
from app.domain.streams import ALERTS
from app.storage.catalogue.topics import TopicRepository
from app.storage.health.alerts import AlertRepository
from tests.integration.health.watched import Watched
from tests.integration.storage.builders import TOPIC, a_subscription, add_entry

GONE = "The endpoint answered 410"


async def test_an_alert_is_announced_when_it_begins_and_when_it_is_over(watched: Watched) -> None:
    subscription = await watched.subscription()
    monitor = watched.monitor()
    await monitor.look()
    assert ALERTS not in watched.log.topics
    await watched.set_state(subscription, State.SUSPENDED, GONE)
    for _ in range(3):
        await monitor.look()
    await watched.set_state(subscription, State.ACTIVE)
    for _ in range(3):
        await monitor.look()
    raised, cleared = watched.announced()
    assert raised["data"]["description"] == f"Suspended: {GONE}"
    assert raised["subject"] == f"{TOPIC}/billing"
    assert (raised["type"], cleared["type"]) == ("angelia.alert.raised", "angelia.alert.cleared")
    assert cleared["data"]["alertId"] == raised["data"]["alertId"]
    ids = [record.header(b"id") for record in watched.log.records(ALERTS)]
    assert ids == [raised["id"].encode(), cleared["id"].encode()]


async def test_messages_that_a_ledger_misses_are_told_until_the_next_entry_misses_none(
    watched: Watched,
) -> None:
    subscription = await watched.subscription()
    monitor = watched.monitor()
    await add_entry(watched.database, subscription, number=1, missing=7)
    for _ in range(2):
        await monitor.look()
    assert watched.told() == [("LEDGER_MISSING", "RAISED")]
    [raised] = watched.announced()
    details = raised["data"]["details"]
    assert (details["entry"], details["missing"]) == (1, 7)
    await add_entry(watched.database, subscription, number=2, missing=0)
    await monitor.look()
    assert watched.told()[1:] == [("LEDGER_MISSING", "CLEARED")]


async def test_the_topic_is_one_of_ours_and_nobody_else_publishes_to_it(watched: Watched) -> None:
    await watched.announcer().make_topic()
    await watched.announcer().make_topic()
    async with watched.database.transaction() as session:
        topic = await TopicRepository(session).get(ALERTS)
    assert topic.owner.id == "angelia"
    assert topic.auth.enabled
    assert not topic.auth.unauthenticated_access


async def test_what_could_not_be_announced_is_announced_later_in_order(watched: Watched) -> None:
    subscription = await watched.subscription()
    await watched.announcer().make_topic()
    monitor = watched.monitor()
    await watched.set_state(subscription, State.SUSPENDED, GONE)
    await monitor.look()
    (sent,) = watched.log.records(ALERTS)
    await watched.forget_announcements()
    await watched.set_state(subscription, State.ACTIVE)
    await monitor.look()
    assert watched.told() == [("SUSPENDED", "RAISED")] * 2 + [("SUSPENDED", "CLEARED")]
    assert [record.header(b"id") for record in watched.log.records(ALERTS)][:2] == [
        sent.header(b"id")
    ] * 2


async def test_a_log_that_takes_nothing_keeps_alerts_waiting(watched: Watched) -> None:
    subscription = await watched.subscription()
    monitor = watched.monitor()
    await watched.set_state(subscription, State.SUSPENDED, GONE)
    watched.log.refusing.add(ALERTS)
    with pytest.raises(LogUnavailableError):
        await monitor.look()
    await watched.set_state(subscription, State.ACTIVE)
    with pytest.raises(LogUnavailableError):
        await monitor.look()
    watched.log.refusing.clear()
    await monitor.look()
    assert watched.told() == [("SUSPENDED", "RAISED"), ("SUSPENDED", "CLEARED")]


async def test_alerts_about_who_gets_alerts_are_not_sent_to_them(watched: Watched) -> None:
    await watched.announcer().make_topic()
    on_alerts = await watched.add(a_subscription("pager", topic=ALERTS))
    monitor = watched.monitor()
    await watched.set_state(on_alerts, State.SUSPENDED, GONE)
    for _ in range(3):
        await monitor.look()
    assert watched.announced() == []
    async with watched.database.transaction() as session:
        (alert,) = await AlertRepository(session).active()
        assert await AlertRepository(session).unannounced() == []
    assert (alert.topic, alert.subscription) == (ALERTS, "pager")


async def test_alerts_of_a_subscription_that_is_deleted_are_over(watched: Watched) -> None:
    subscription = await watched.subscription()
    monitor = watched.monitor()
    await watched.set_state(subscription, State.SUSPENDED, GONE)
    await monitor.look()
    await watched.delete(subscription)
    await monitor.look()
    assert watched.told() == [("SUSPENDED", "RAISED"), ("SUSPENDED", "CLEARED")]


async def test_alerts_of_many_subscriptions_begin_and_are_over_together(watched: Watched) -> None:
    names = {f"billing-{number}" for number in range(5)}
    subscriptions = [await watched.subscription(name) for name in sorted(names)]
    monitor = watched.monitor()
    for each in subscriptions:
        await watched.set_state(each, State.SUSPENDED, f"{GONE} ({each.name})")
    await monitor.look()
    for each in subscriptions:
        await watched.set_state(each, State.ACTIVE)
    await monitor.look()
    events = [event["data"] for event in watched.announced()]
    for state in ("RAISED", "CLEARED"):
        said = {e["subscriptionName"]: e["description"] for e in events if e["state"] == state}
        assert said == {name: f"Suspended: {GONE} ({name})" for name in names}
    assert len(events) == 2 * len(names)
