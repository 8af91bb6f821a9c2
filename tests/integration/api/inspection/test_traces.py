"""`…/events/{id}/trace`: what is said of a message, by whom it was recorded, and to whom."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from app.domain.discards.undelivered import Undelivered
from app.domain.message import Partition
from app.domain.streams import TRACES, TRACES_PARTITIONS
from app.domain.trace import TraceSource
from app.log.interface import LogTopic
from app.services.publishing.tracing import DUPLICATE
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database, open_database
from app.storage.discards.undelivered import UndeliveredRepository
from app.tracing.packs import Pack, TraceRow, unpacked
from tests.fakes.memory_log import MemoryLog
from tests.fakes.worker import until
from workers.recorder.traces import DatabaseTraces

STREAM = Partition("angelia.traces", 0)
GIB = 1 << 30


@pytest.fixture
async def database(postgres_url: str) -> AsyncIterator[Database]:
    async with open_database(postgres_url) as opened:
        yield opened


@pytest.fixture
async def source(database: Database, subscription: str) -> TraceSource:
    del subscription
    async with database.transaction() as session:
        found = await SubscriptionRepository(session).get("shop.orders", "billing")
    return TraceSource(topic="shop.orders", subscription_id=found.id, subscription="billing")


def micros_ago(milliseconds: float) -> int:
    span = datetime.now(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return (span - timedelta(milliseconds=milliseconds)) // timedelta(microseconds=1)


def a_row(source: int, at: int, status: str = "SUCCESS", **settings: Any) -> TraceRow:  # noqa: ANN401 - fields of the value
    row = TraceRow(
        source, at, status, "m-1", 1, 7, 1, 200, "", 1_500, 250, None, 2_000, "", "", "",
    )  # fmt: skip
    return row._replace(**settings)


async def recorded(
    database: Database, sources: list[TraceSource], *rows: TraceRow, lost: int = 0
) -> None:
    store = DatabaseTraces(database, kept=timedelta(days=7), bytes_max=GIB)
    await store.positions()
    named = dict(enumerate(sources))
    await store.record([Pack("w-1", micros_ago(0), lost, "", named, rows)], STREAM, 1)


async def test_a_trace_has_the_publication_and_each_attempt_as_hermes_says_them(
    api: httpx.AsyncClient, database: Database, source: TraceSource, subscription: str
) -> None:
    published = TraceSource(topic="shop.orders")
    await recorded(
        database,
        [published, source],
        a_row(0, micros_ago(90), partition=-1, offset=-1, attempt=0, status_code=None,
              queued=None, waited=None),
        a_row(1, micros_ago(50), "FAILED", status_code=503, reason="no"),
        a_row(1, micros_ago(10), attempt=2, queued=None),
    )  # fmt: skip
    listed = (await api.get(f"{subscription}/events/m-1/trace")).json()
    assert [(each["status"], each.get("subscription"), each.get("attempt")) for each in listed] == [
        ("INFLIGHT", None, None),
        ("SUCCESS", None, None),
        ("INFLIGHT", "billing", 1),
        ("FAILED", "billing", 1),
        ("INFLIGHT", "billing", 2),
        ("SUCCESS", "billing", 2),
    ]
    del listed[3]["timestamp"]
    assert listed[3] == {
        "messageId": "m-1",
        "topicName": "shop.orders",
        "subscription": "billing",
        "status": "FAILED",
        "reason": "no",
        "partition": 1,
        "offset": 7,
        "cluster": "primary",
        "attempt": 1,
        "statusCode": 503,
        "queued": 1.5,
        "waited": 0.25,
        "took": 2.0,
        "worker": "w-1",
    }


async def test_a_message_is_found_in_its_topic_and_anywhere_too(
    api: httpx.AsyncClient, database: Database, source: TraceSource, subscription: str
) -> None:
    elsewhere = TraceSource(topic="shop.other", subscription_id="x", subscription="theirs")
    odd = "shop.orders/1/7"
    await recorded(
        database,
        [source, elsewhere],
        a_row(0, micros_ago(2), message_id=odd, took=None),
        a_row(1, micros_ago(1), message_id=odd, took=None),
    )

    async def found(path: str) -> list[str]:
        return [each["subscription"] for each in (await api.get(path)).json()]

    assert await found(f"{subscription}/events/{odd}/trace") == ["billing"]
    assert await found(f"/topics/shop.orders/events/{odd}/trace") == ["billing"]
    assert await found(f"/events/{odd}/trace") == ["billing", "theirs"]
    assert await found("/events/none/trace") == []


async def test_a_discard_is_known_without_a_trace_and_said_once_with_one(
    api: httpx.AsyncClient, database: Database, source: TraceSource, subscription: str
) -> None:
    discard = Undelivered(
        subscription_id=source.subscription_id,
        topic="shop.orders",
        subscription="billing",
        message_id="m-1",
        discarded_at=datetime.now(UTC),
        reason="Total timeout elapsed",
        status=503,
        attempts=4,
        partition=1,
        offset=7,
        body=b"{}",
    )
    async with database.transaction() as session:
        stream = Partition("angelia.undelivered", 0)
        await UndeliveredRepository(session).record([discard], stream, 1)
    path = f"{subscription}/events/m-1/trace"
    (only,) = (await api.get(path)).json()
    assert (only["status"], only["reason"], only["attempt"]) == (
        "DISCARDED",
        "Total timeout elapsed",
        4,
    )
    await recorded(database, [source], a_row(0, micros_ago(1), "DISCARDED", took=None))
    assert len((await api.get(path)).json()) == 1


async def test_what_is_lost_is_said_by_number(
    api: httpx.AsyncClient, database: Database, source: TraceSource, subscription: str
) -> None:
    answer = await api.get(f"{subscription}/events/m-1/trace")
    assert "Angelia-Traces-Lost" not in answer.headers
    await recorded(database, [source], a_row(0, micros_ago(1)), lost=42)
    answer = await api.get(f"{subscription}/events/m-1/trace")
    assert answer.headers["Angelia-Traces-Lost"] == "42"


async def test_a_trace_without_entries_says_why(
    api: httpx.AsyncClient, subscription: str, topic: str
) -> None:
    paths = (f"{subscription}/events/none/trace", f"/topics/{topic}/events/none/trace")
    for path in paths:
        assert (await api.get(path)).headers["Angelia-Trace"] == "not-tracked"
    (await api.put(subscription, json={"trackingMode": "trackingAll"})).raise_for_status()
    for path in (*paths, "/events/none/trace"):
        answer = await api.get(path)
        assert (answer.json(), answer.headers["Angelia-Trace"]) == ([], "unknown-id")


async def test_a_trace_with_entries_has_nothing_to_explain(
    api: httpx.AsyncClient, database: Database, source: TraceSource, subscription: str
) -> None:
    await recorded(database, [source], a_row(0, micros_ago(1)))
    answer = await api.get(f"{subscription}/events/m-1/trace")
    assert answer.json()
    assert "Angelia-Trace" not in answer.headers


async def test_who_is_not_there_has_no_traces(api: httpx.AsyncClient, subscription: str) -> None:
    none = await api.get(f"{subscription}-none/events/m/trace")
    assert (none.status_code, none.json()["code"]) == (400, "SUBSCRIPTION_NOT_EXISTS")
    none = await api.get("/topics/shop.none/events/m/trace")
    assert (none.status_code, none.json()["code"]) == (404, "TOPIC_NOT_EXISTS")


async def stream_in(log: MemoryLog) -> None:
    """The traces stream, as workers make it."""
    await log.create_topic(
        LogTopic(
            name=TRACES,
            partitions=TRACES_PARTITIONS,
            retention=timedelta(days=1),
            message_size_max=1 << 20,
        )
    )


async def rows_in(log: MemoryLog, count: int) -> list[TraceRow]:
    """Wait until so many entries are in the stream; all that are."""

    def rows() -> list[TraceRow]:
        packs = [unpacked(record) for record in log.records(TRACES)]
        return [TraceRow(*row) for pack in packs if pack for row in pack.rows]

    await until(log.changed, lambda: len(rows()) >= count)
    return rows()


async def test_publications_of_a_topic_that_is_traced_say_what_became_of_them(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    await api.put(f"/topics/{topic}", json={"trackingMode": "trackingAll"})
    await stream_in(log)
    published = await api.post(f"/topics/{topic}", json={"a": 1})
    items = [{"id": "mine", "message": {}}, {"message": {}}]
    batch = await api.post(f"/topics/{topic}/batch?envelope=true", json=items)
    ids = [published.headers["Hermes-Message-Id"], *(each["id"] for each in batch.json())]
    said = await rows_in(log, 3)
    assert {(row.message_id, row.status) for row in said} == {(each, "SUCCESS") for each in ids}
    assert all(row.took is not None and row.partition == -1 for row in said)


@pytest.mark.parametrize("mode", ["trackingAll", "discardedOnly"])
async def test_what_the_log_does_not_take_is_an_error(
    api: httpx.AsyncClient, topic: str, log: MemoryLog, mode: str
) -> None:
    await api.put(f"/topics/{topic}", json={"trackingMode": mode})
    await stream_in(log)
    log.go_down()
    refused = await api.post(f"/topics/{topic}", json={"a": 1})
    assert refused.status_code == 503
    log.come_back()
    (row,) = await rows_in(log, 1)
    assert (row.status, row.message_id) == ("ERROR", refused.headers["Hermes-Message-Id"])
    assert row.reason == refused.json()["message"]


@pytest.mark.parametrize("mode", ["trackingAll", "discardedOnly"])
async def test_what_is_refused_before_the_log_is_asked_is_an_error(
    api: httpx.AsyncClient, topic: str, log: MemoryLog, mode: str
) -> None:
    await api.put(f"/topics/{topic}", json={"trackingMode": mode, "maxMessageSize": 1_024})
    await stream_in(log)
    refused = await api.post(f"/topics/{topic}", content=b"1".ljust(2_000))
    assert refused.status_code == 413
    items = [{"id": "mine", "message": {}}, {"id": "large", "message": "x" * 2_000}]
    batch = await api.post(f"/topics/{topic}/batch?envelope=true", json=items)
    assert [each["status"] for each in batch.json()] == [201, 413]
    count = 3 if mode == "trackingAll" else 2
    said = {row.message_id: row for row in await rows_in(log, count) if row.status == "ERROR"}
    assert said.keys() == {refused.headers["Hermes-Message-Id"], "large"}
    assert said["large"].reason == batch.json()[1]["message"]
    assert said[refused.headers["Hermes-Message-Id"]].reason == refused.json()["message"]


async def test_what_is_refused_since_it_is_stored_under_its_id_is_no_error(
    api: httpx.AsyncClient, log: MemoryLog
) -> None:
    rule = {"onDuplicate": "REFUSE", "expression": "body.order"}
    body = {"name": "shop.once", "deduplication": rule, "trackingMode": "trackingAll"}
    (await api.post("/topics", json=body)).raise_for_status()
    await stream_in(log)
    for own_id in ("a", "a", "b"):
        headers = {"Idempotency-Key": own_id}
        answer = await api.post("/topics/shop.once", json={"order": 1}, headers=headers)
    items = [{"id": each, "message": {"order": 1}} for each in ("a", "b")]
    batch = await api.post("/topics/shop.once/batch?envelope=true", json=items)
    assert [each["status"] for each in batch.json()["results"]] == [409, 409]
    said = [(row.message_id, row.status, row.reason) for row in await rows_in(log, 5)]
    there, other = ("a", "SUCCESS", DUPLICATE), ("b", "ERROR", answer.json()["message"])
    # The stream keeps the order of its packs in each partition alone.
    assert sorted(said) == sorted([("a", "SUCCESS", ""), there, other, there, other])


async def test_publications_of_other_topics_say_nothing(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    await stream_in(log)
    await api.post(f"/topics/{topic}", json={"a": 1})
    await api.put(f"/topics/{topic}", json={"trackingMode": "discardedOnly"})
    await api.post(f"/topics/{topic}", json={"a": 2})
    await api.put(f"/topics/{topic}", json={"trackingMode": "trackingAll"})
    last = await api.post(f"/topics/{topic}", json={"a": 3})
    (row,) = await rows_in(log, 1)
    assert row.message_id == last.headers["Hermes-Message-Id"]
