"""Single messages of a topic, and subscriptions as consumer groups."""

import itertools
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from app.domain.message import HEADER_TARGET, NewRecord, Partition
from app.domain.status import CursorStatus, WorkerStatus
from app.domain.targeted import RecordTarget
from app.log.interface import Committed
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database
from app.storage.health.statuses import StatusRepository
from tests.fakes.memory_log import MemoryLog
from tests.integration.storage.builders import beat

PREVIEW = "/topics/shop.orders/preview"
AT = f"{PREVIEW}/cluster/primary-dc/partition"


@pytest.fixture
def log() -> MemoryLog:
    """A millisecond passes with each message."""
    ticks = itertools.count(1_700_000_000_000)
    return MemoryLog(lambda: next(ticks))


async def test_the_last_messages_are_shown_the_newest_first(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    assert (await api.get(PREVIEW)).json() == []
    (await api.put(f"/topics/{topic}", json={"maxMessageSize": 50_000})).raise_for_status()
    large = b'"' + b"x" * 20_000 + b'"'
    for body in (b"1", b"2", b"3", b"\xff4", large):
        await log.append(topic, [NewRecord(value=body)])
    first, second, third = (await api.get(PREVIEW)).json()
    assert (len(first["content"]), first["truncated"]) == (10_240, True)
    assert (second["content"], third["content"]) == ("\ufffd4", "3")
    assert not second["truncated"]
    assert second["messageId"] == f"{topic}/{second['partition']}/{second['offset']}"
    assert first["timestamp"] > second["timestamp"] > third["timestamp"]
    whole = await api.get(f"{PREVIEW}/0")
    assert whole.content == large
    assert whole.headers["Content-Type"] == "application/octet-stream"
    for place in ("3", "-1", "x", "9" * 30):
        missing = await api.get(f"{PREVIEW}/{place}")
        assert (missing.status_code, missing.json()["code"]) == (404, "OFFSET_NOT_FOUND_EXCEPTION")
    at = await api.get(f"{AT}/{second['partition']}/offset/{second['offset']}")
    assert at.content == b"\xff4"
    assert at.headers["Content-Type"].startswith("text/plain")


async def test_what_was_sent_again_to_one_subscription_is_none_of_the_last_messages(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    to_one = RecordTarget("a" * 32, "b" * 32).header()
    copy = NewRecord(value=b"copy", headers=((HEADER_TARGET, to_one),), key=b"k")
    for body in (b"0", b"1", b"2"):
        await log.append(topic, [NewRecord(value=body, key=b"k"), *[copy] * 20])
    await log.append(topic, [NewRecord(value=b"3", key=b"k")])
    shown = (await api.get(PREVIEW)).json()
    assert [each["content"] for each in shown] == ["3", "2", "1"]
    assert (await api.get(f"{PREVIEW}/1")).content == b"2"
    # There may be any number of them: the search for others ends.
    await log.append(topic, [replace(copy, value=b"x" * 2_000)] * 1_000)
    assert (await api.get(PREVIEW)).json() == []


@pytest.mark.usefixtures("topic")
async def test_what_is_not_in_the_log_cannot_be_shown(
    api: httpx.AsyncClient, log: MemoryLog
) -> None:
    await log.append("shop.orders", [NewRecord(value=b"1", key=b"k")] * 3)
    full = next(
        part for part, each in (await log.bounds(await log.partitions("shop.orders"))).items()
        if each.end
    )  # fmt: skip
    log.trim(full, 1)
    elsewhere = f"{PREVIEW}/cluster/other/partition/0/offset/0"
    for path, code in (
        (f"{AT}/{full.index}/offset/0", "OFFSET_NOT_FOUND_EXCEPTION"),
        (f"{AT}/{full.index}/offset/3", "OFFSET_NOT_FOUND_EXCEPTION"),
        (f"{AT}/{full.index}/offset/x", "OFFSET_NOT_FOUND_EXCEPTION"),
        (f"{AT}/2/offset/0", "PARTITIONS_NOT_FOUND_FOR_TOPIC"),
        (f"{AT}/x/offset/0", "PARTITIONS_NOT_FOUND_FOR_TOPIC"),
        (elsewhere, "BROKERS_CLUSTER_NOT_FOUND_EXCEPTION"),
        ("/topics/no.such/preview", "TOPIC_NOT_EXISTS"),
        (AT.replace("orders", "none") + "/0/offset/0", "TOPIC_NOT_EXISTS"),
    ):
        missing = await api.get(path)
        assert (missing.status_code, missing.json()["code"]) == (404, code), path
    log.go_down()
    assert (await api.get(PREVIEW)).status_code == 503


async def test_a_subscription_is_shown_as_its_consumer_group(
    api: httpx.AsyncClient, subscription: str, log: MemoryLog, database: Database
) -> None:
    path = f"{subscription}/consumer-groups"
    await log.append("shop.orders", [NewRecord(value=b"1")] * 4)
    [group] = (await api.get(path)).json()
    assert (group["clusterName"], group["groupId"]) == ("primary", "shop.orders_billing")
    assert (group["state"], group["members"]) == ("Empty", [])
    ends = await log.bounds(await log.partitions("shop.orders"))
    assert [each["lag"] for each in group["partitions"]] == [each.end for each in ends.values()]
    await log.commit({"shop.orders_billing": {Partition("shop.orders", 1): Committed(1, "m")}})
    await with_worker(database, partition=1)
    [group] = (await api.get(path)).json()
    [member] = group["members"]
    assert (group["state"], member["consumerId"], member["host"]) == ("Stable", "w1", "h1")
    [standing] = member["partitions"]
    assert standing == {
        "partition": 1,
        "topic": "shop.orders",
        "currentOffset": 1,
        "logEndOffset": ends[Partition("shop.orders", 1)].end,
        "lag": ends[Partition("shop.orders", 1)].end - 1,
        "offsetMetadata": "m",
        "contentType": "JSON",
    }
    await api.put(f"{subscription}/state", json="SUSPENDED")
    [group] = (await api.get(path)).json()
    assert (group["state"], len(group["partitions"])) == ("Empty", 2)
    missing = await api.get("/topics/shop.orders/subscriptions/none/consumer-groups")
    assert (missing.status_code, missing.json()["code"]) == (400, "SUBSCRIPTION_NOT_EXISTS")


async def test_a_consumer_group_says_what_the_messages_of_its_topic_are(
    api: httpx.AsyncClient,
) -> None:
    record = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}
    schema = json.dumps(record)
    topic = {"name": "shop.avro", "contentType": "AVRO", "schema": schema, "partitions": 1}
    (await api.post("/topics", json=topic)).raise_for_status()
    subscription = {"name": "billing", "endpoint": "http://h.test/", "contentType": "JSON"}
    (await api.post("/topics/shop.avro/subscriptions", json=subscription)).raise_for_status()
    [group] = (await api.get("/topics/shop.avro/subscriptions/billing/consumer-groups")).json()
    assert [each["contentType"] for each in group["partitions"]] == ["AVRO"]


async def with_worker(database: Database, *, partition: int) -> None:
    """A live worker that has that partition."""
    now = datetime.now(UTC)
    async with database.transaction() as session:
        found = await SubscriptionRepository(session).get("shop.orders", "billing")
        worker = WorkerStatus(
            id="w1",
            host="h1",
            pid=1,
            applied_change=found.change + 1_000,
            partitions=1,
            started_at=now - timedelta(hours=1),
            seen_at=now,
        )
        cursor = CursorStatus(
            subscription_id=found.id,
            topic=found.topic,
            partition=partition,
            worker_id="w1",
            offset=1,
            end=2,
            delivered=1,
            discarded=0,
            volume=1,
        )
        await StatusRepository(session).write(cursors=[cursor], loads=[])
    await beat(database, worker)
