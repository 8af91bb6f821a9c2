"""The requests of Hermes' document on subscribing, one after the other, as it has them.

Each is sent to the letter, and gets what the document shows, on both logs: its status and the
fields it names.
What a running worker does (deliveries, their traces) is shown end to end elsewhere; here its
reports are written as one writes them.
"""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from app.domain.discards.undelivered import Undelivered
from app.domain.message import NewRecord, Partition
from app.domain.streams import TRACES, UNDELIVERED
from app.domain.trace import TraceSource
from app.log.interface import MessageLog
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database
from app.storage.discards.undelivered import UndeliveredRepository
from app.tracing.packs import Pack, TraceRow
from tests.cases import for_each
from workers.recorder.traces import DatabaseTraces

TOPIC = "group.topic-name"
SUBSCRIPTIONS = f"/topics/{TOPIC}/subscriptions"
MINE = f"{SUBSCRIPTIONS}/mySubscription"
JSON = {"Content-Type": "application/json"}

MINIMAL = b'{"name": "mySubscription", "endpoint": "http://my-service", "supportTeam": "My Team"}'
ALL_OPTIONS = b"""{
    "name": "mySubscription",
    "endpoint": "http://my-service",
    "description": "This is my subscription",
    "trackingEnabled": false,
    "supportTeam": "My Team",
    "contact": "my-team@my-company.com",
    "subscriptionPolicy": {
        "rate": 100,
        "messageTtl": 3600,
        "retryClientErrors": false
    }
}"""
MESSAGE = "1d6b9496-5af7-4a06-a27f-df7a6a5719c6"
TIMED_OUT = "Total timeout elapsed"
METRICS = {
    *("delivered", "discarded", "inflight", "timeouts", "otherErrors"),
    *("codes2xx", "codes4xx", "codes5xx", "rate"),
}


@pytest.fixture
def log(real_log: MessageLog) -> MessageLog:
    """The embedded log, and a real Kafka."""
    return real_log


@pytest.fixture
async def hermes(api: httpx.AsyncClient) -> httpx.AsyncClient:
    """With the topic of the document, which has no step to make one."""
    (await api.post("/topics", json={"name": TOPIC})).raise_for_status()
    return api


@for_each("body", [MINIMAL, ALL_OPTIONS])
async def test_creating_a_subscription(hermes: httpx.AsyncClient, body: bytes) -> None:
    made = await hermes.post(SUBSCRIPTIONS, content=body, headers=JSON)
    assert made.status_code == 201, made.text
    assert "Angelia-Ignored-Fields" not in made.headers
    found = (await hermes.get(MINE)).json()
    asked = json.loads(body)
    policy = asked.pop("subscriptionPolicy", {})
    assert {name: found[name] for name in asked} == asked
    # The defaults of the table of all options.
    defaults = {"rate": 100, "messageTtl": 3600, "retryClientErrors": False}
    assert found["subscriptionPolicy"].items() >= (defaults | policy).items()
    assert found["trackingEnabled"] is False
    assert found["owner"] == {"source": "Plaintext", "id": "My Team"}
    (await hermes.delete(MINE)).raise_for_status()


async def test_suspending_and_activating_it(hermes: httpx.AsyncClient) -> None:
    await hermes.post(SUBSCRIPTIONS, content=MINIMAL, headers=JSON)
    for state in (b'"SUSPENDED"', b'"ACTIVE"'):
        answer = await hermes.post(f"{MINE}/state", content=state, headers=JSON)
        assert answer.status_code == 200
        assert (await hermes.get(f"{MINE}/state")).content == state
    # The document says that quotation marks are important.
    refused = await hermes.post(f"{MINE}/state", content=b"SUSPENDED", headers=JSON)
    assert (refused.status_code, refused.json()["code"]) == (400, "FORMAT_ERROR")


async def test_the_last_undelivered_message(hermes: httpx.AsyncClient, database: Database) -> None:
    await hermes.post(SUBSCRIPTIONS, content=MINIMAL, headers=JSON)
    assert (await hermes.get(f"{MINE}/undelivered/last")).status_code == 404
    assert (await hermes.get(f"{MINE}/undelivered")).json() == []
    await discarded(database, TIMED_OUT)
    last = (await hermes.get(f"{MINE}/undelivered/last")).json()
    shown = {
        "timestamp": 1452952981548,
        "subscription": "mySubscription",
        "topicName": TOPIC,
        "status": "DISCARDED",
        "reason": TIMED_OUT,
        "message": "body of a message",
        "partition": 5,
        "offset": 368741824,
        "cluster": "primary",
    }
    assert {name: last[name] for name in shown} == shown
    (listed,) = (await hermes.get(f"{MINE}/undelivered")).json()
    assert listed.items() >= (shown | {"messageId": MESSAGE}).items()


async def test_metrics(hermes: httpx.AsyncClient) -> None:
    await hermes.post(SUBSCRIPTIONS, content=MINIMAL, headers=JSON)
    metrics = (await hermes.get(f"{MINE}/metrics")).json()
    assert metrics.keys() >= METRICS
    assert all(metrics[name] == 0 for name in METRICS)


@for_each("when", [b"2015-09-03T13:30:00.000", b"-6h"])
async def test_retransmission(hermes: httpx.AsyncClient, log: MessageLog, when: bytes) -> None:
    await log.append(TOPIC, [NewRecord(value=b"{}", key=b"k")] * 3)
    await hermes.post(SUBSCRIPTIONS, content=MINIMAL, headers=JSON)
    answer = await hermes.post(f"{MINE}/retransmission", content=when)
    assert answer.status_code == 200, answer.text
    offsets: list[dict[str, Any]] = answer.json()
    assert [each["partition"] for each in offsets] == list(range(8))
    assert {each["offset"] for each in offsets} == {0}
    (await hermes.delete(MINE)).raise_for_status()


async def test_message_tracking(hermes: httpx.AsyncClient, database: Database) -> None:
    await hermes.post(SUBSCRIPTIONS, content=MINIMAL, headers=JSON)
    path = f"{MINE}/events/{MESSAGE}/trace"
    nothing = await hermes.get(path)
    assert (nothing.status_code, nothing.json()) == (200, [])
    await traced(database)
    entries = (await hermes.get(path)).json()
    by_frontend = {"messageId", "timestamp", "topicName", "status", "cluster"}
    by_consumers = by_frontend | {"subscription", "partition", "offset"}
    assert [each["status"] for each in entries] == [
        *("INFLIGHT", "SUCCESS"),
        *("INFLIGHT", "FAILED", "INFLIGHT", "SUCCESS"),
    ]
    for each in entries[:2]:
        assert each.keys() >= by_frontend
        assert not each.keys() & {"subscription", "partition", "offset"}
    for each in entries[2:]:
        assert each.keys() >= by_consumers
    assert [each.get("reason") for each in entries[2:]] == [None, TIMED_OUT, None, None]
    assert {(each["partition"], each["offset"]) for each in entries[2:]} == {(5, 171165098)}
    assert {each["messageId"] for each in entries} == {MESSAGE}


async def traced(database: Database) -> None:
    """Its publication, an attempt that failed, and one that did not."""
    async with database.transaction() as session:
        found = await SubscriptionRepository(session).get(TOPIC, "mySubscription")
    theirs = TraceSource(topic=TOPIC, subscription_id=found.id, subscription=found.name)
    sources = {0: TraceSource(topic=TOPIC), 1: theirs}
    store = DatabaseTraces(database, kept=timedelta(days=7), bytes_max=1 << 30)
    await store.positions()
    now = int(datetime.now(UTC).timestamp() * 1_000_000)
    row = TraceRow(0, now - 90_000, "SUCCESS", MESSAGE, -1, -1, 0, None, "", None, None, None,
              2_000, "", "", "")  # fmt: skip
    attempt = row._replace(source=1, partition=5, offset=171165098, attempt=1)
    failed = attempt._replace(at=now - 50_000, status="FAILED", reason=TIMED_OUT)
    rows = [row, failed, attempt._replace(at=now - 10_000, attempt=2)]
    await store.record([Pack("w", now, 0, "", sources, rows)], Partition(TRACES, 0), 1)


async def discarded(database: Database, reason: str) -> None:
    """The discard that the document shows, with the id that it shows elsewhere."""
    async with database.transaction() as session:
        found = await SubscriptionRepository(session).get(TOPIC, "mySubscription")
        discard = Undelivered(
            subscription_id=found.id,
            topic=TOPIC,
            subscription=found.name,
            message_id=MESSAGE,
            discarded_at=datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=1452952981548),
            reason=reason,
            status=None,
            attempts=3,
            partition=5,
            offset=368741824,
            body=b"body of a message",
        )
        await UndeliveredRepository(session).record([discard], Partition(UNDELIVERED, 0), 1)
