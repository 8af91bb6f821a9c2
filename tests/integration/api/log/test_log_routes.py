"""Routes that write to the log, or read it, on the logs that the service runs on."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import update

from app.domain.message import NewRecord
from app.log.interface import MessageLog
from app.services.catalogue.inactive_topics import INACTIVE_AFTER, ActivityService
from app.storage.database import Database
from app.storage.tables import TopicActivityRow

TOPIC = "/topics/shop.orders"
MINE = f"{TOPIC}/subscriptions/billing"
TEXT = {"Content-Type": "text/plain"}
LINES = {"Content-Type": "application/x-ndjson"}
EVENT = {"Content-Type": "application/cloudevents+json"}
AN_EVENT = b'{"specversion":"1.0","id":"e-1","source":"/s","type":"t","data":1}'


@pytest.fixture
def log(real_log: MessageLog) -> MessageLog:
    """The embedded log, and a real Kafka."""
    return real_log


async def got(api: httpx.AsyncClient, path: str) -> Any:  # noqa: ANN401 - any JSON
    answer = await api.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def published(api: httpx.AsyncClient, body: bytes, **headers: str) -> str:
    answer = await api.post(TOPIC, content=body, headers=headers)
    assert answer.status_code == 201, answer.text
    return answer.headers["Hermes-Message-Id"]


async def lags(api: httpx.AsyncClient) -> int:
    """What the consumer group has not read, over all partitions."""
    [group] = await got(api, f"{MINE}/consumer-groups")
    # Nobody has committed anything for a partition that is new: it is read from its beginning.
    return sum(each["logEndOffset"] - each.get("currentOffset", 0) for each in group["partitions"])


@pytest.mark.usefixtures("subscription")
async def test_what_is_published_in_any_form_is_seen_by_all_that_look_at_the_log(
    api: httpx.AsyncClient,
) -> None:
    ids = [await published(api, b'{"n": 1}'), await published(api, AN_EVENT, **EVENT)]
    batch = await api.post(f"{TOPIC}/batch", content=b'{"n": 3}\n{"n": 4}', headers=LINES)
    assert batch.status_code == 201, batch.text
    ids += [each["id"] for each in batch.json()]
    must = await api.post(f"{TOPIC}?mandatory=true", content=b'{"n": 5}')
    ids.append(must.headers["Hermes-Message-Id"])
    shown = await got(api, f"{TOPIC}/preview")
    assert {each["messageId"] for each in shown} <= set(ids)
    assert len(shown) == 3
    found = await got(api, f"{TOPIC}/messages?path=$.n")
    assert {each["messageId"] for each in found} == set(ids) - {"e-1"}
    for each in found:
        place = f"partition/{each['partition']}/offset/{each['offset']}"
        one = await api.get(f"{TOPIC}/preview/cluster/primary-dc/{place}")
        assert (one.status_code, one.text) == (200, each["message"])
    figures = await got(api, f"{TOPIC}/metrics")
    assert (figures["published"], figures["rate"]) == (5, 5 / 60)
    assert await lags(api) == 5
    [figures] = (await api.post("/query/topics/metrics", json={"query": {}})).json()
    assert figures["published"] == 5


@pytest.mark.usefixtures("topic")
async def test_what_the_log_does_not_take_is_refused_and_leaves_nothing_there(
    api: httpx.AsyncClient,
) -> None:
    refusals = {
        "TOPIC_NOT_EXISTS": await api.post("/topics/shop.none", content=b"1"),
        "VALIDATION_ERROR": await api.post(TOPIC, content=b"1".ljust(2049)),
        "UNROUTABLE": await api.post(f"{TOPIC}?mandatory=true", content=b"1"),
        "FORMAT_ERROR": await api.post(TOPIC, content=b"{", headers=EVENT),
    }
    codes = {code: answer.json()["code"] for code, answer in refusals.items()}
    assert codes == {code: code for code in refusals}
    statuses = [answer.status_code for answer in refusals.values()]
    assert statuses == [404, 413, 409, 400]
    assert (await got(api, f"{TOPIC}/metrics"))["published"] == 0
    assert await got(api, f"{TOPIC}/preview") == []


@pytest.mark.usefixtures("subscription")
async def test_places_that_are_not_in_the_log_are_told_apart(api: httpx.AsyncClient) -> None:
    await published(api, b"1", **{"Partition-Key": "k"})
    missing = {
        "cluster/primary-dc/partition/0/offset/7": "OFFSET_NOT_FOUND_EXCEPTION",
        "cluster/primary-dc/partition/9/offset/0": "PARTITIONS_NOT_FOUND_FOR_TOPIC",
        "cluster/other/partition/0/offset/0": "BROKERS_CLUSTER_NOT_FOUND_EXCEPTION",
        "7": "OFFSET_NOT_FOUND_EXCEPTION",
    }
    answers = {place: await api.get(f"{TOPIC}/preview/{place}") for place in missing}
    assert {place: each.json()["code"] for place, each in answers.items()} == missing
    assert {each.status_code for each in answers.values()} == {404}


@pytest.fixture
async def hours(subscription: str, log: MessageLog) -> Sequence[datetime]:
    """When the topic got two messages each time: three hours ago, and one."""
    assert subscription == MINE
    now = datetime.now(UTC)
    moments = [now - timedelta(hours=3), now - timedelta(hours=1)]
    for moment in moments:
        record = NewRecord(value=b"x", timestamp_ms=int(moment.timestamp() * 1000))
        await log.append("shop.orders", [record] * 2)
    return moments


def offsets(places: Sequence[Mapping[str, Any]], field: str = "offset") -> int:
    """All of them together: which partition a message went to is the log's business."""
    assert len(places) == 2
    return sum(each[field] for each in places)


@pytest.mark.usefixtures("hours")
async def test_what_was_published_long_ago_is_not_in_the_rate(api: httpx.AsyncClient) -> None:
    for expected in (0.0, 1 / 60, 2 / 60):
        assert (await got(api, f"{TOPIC}/metrics"))["rate"] == expected
        await published(api, b"1")


@pytest.mark.usefixtures("hours")
async def test_a_time_leads_to_the_same_messages_by_all_routes(api: httpx.AsyncClient) -> None:
    for text, offset in (("-6h", 0), ("-2h", 2), ("-30m", 4)):
        rewound = await api.put(
            f"{MINE}/retransmission?dryRun=true", json={"retransmissionDate": text}
        )
        assert offsets(rewound.json()["primary"]) == offset
        window = {"from": text, "only": "all", "dryRun": True}
        asked = await api.post(f"{MINE}/retransmission", json=window)
        assert asked.status_code == 202, asked.text
        assert (offsets(asked.json()), offsets(asked.json(), "toOffset")) == (offset, 4)
    bare = await api.post(f"{MINE}/retransmission", content="-2h", headers=TEXT)
    assert offsets(bare.json()) == 2
    since = (datetime.now(UTC) - timedelta(hours=2)).isoformat()
    made = await api.post(
        f"{TOPIC}/subscriptions",
        json={"name": "late", "endpoint": "http://h.test/", "startFrom": since},
    )
    assert made.status_code == 201, made.text
    [group] = await got(api, f"{TOPIC}/subscriptions/late/consumer-groups")
    assert offsets(group["partitions"], "currentOffset") == 2


@pytest.mark.usefixtures("subscription")
async def test_a_topic_that_grows_is_read_in_all_its_partitions(api: httpx.AsyncClient) -> None:
    grown = await api.put(TOPIC, json={"partitions": 5})
    assert (grown.status_code, grown.json()["partitions"]) == (200, 5)
    for number in range(20):
        await published(api, b"1", **{"Partition-Key": str(number)})
    [group] = await got(api, f"{MINE}/consumer-groups")
    assert len(group["partitions"]) == 5
    assert any(each["logEndOffset"] for each in group["partitions"][2:])
    assert await lags(api) == 20
    fewer = await api.put(TOPIC, json={"partitions": 4})
    assert (fewer.status_code, fewer.json()["details"][0]["path"]) == (400, "partitions")


async def test_what_is_made_again_under_its_old_name_knows_nothing_of_before(
    api: httpx.AsyncClient, subscription: str
) -> None:
    await published(api, b'{"old": 1}')
    body = {"name": "billing", "endpoint": "http://h.test/"}
    # The subscription alone: it begins with what comes now.
    (await api.delete(subscription)).raise_for_status()
    assert (await api.post(f"{TOPIC}/subscriptions", json=body)).status_code == 201
    assert await lags(api) == 0
    await published(api, b'{"old": 2}')
    assert await lags(api) == 1
    # And the topic with it: the log has nothing of it any more.
    (await api.delete(subscription)).raise_for_status()
    (await api.delete(TOPIC)).raise_for_status()
    gone = await api.post(TOPIC, content=b"1")
    assert (gone.status_code, gone.json()["code"]) == (404, "TOPIC_NOT_EXISTS")
    again = await api.post("/topics", json={"name": "shop.orders", "partitions": 3})
    assert again.status_code == 201, again.text
    assert (await api.post(f"{TOPIC}/subscriptions", json=body)).status_code == 201
    assert await got(api, f"{TOPIC}/preview") == []
    assert await got(api, f"{TOPIC}/messages?path=$.old") == []
    assert (await got(api, f"{TOPIC}/metrics"))["published"] == 0
    new = await published(api, b'{"new": 1}')
    assert [each["messageId"] for each in await got(api, f"{TOPIC}/preview")] == [new]
    assert await lags(api) == 1


async def test_a_topic_that_nobody_publishes_to_any_more_is_inactive(
    api: httpx.AsyncClient, log: MessageLog, database: Database
) -> None:
    activity = ActivityService(database, log)
    for name in ("shop.new", "shop.old", "shop.used"):
        await api.post("/topics", json={"name": name, "partitions": 2})
        await log.append(name, [NewRecord(value=b"{}")])
    await activity.look()
    long_ago = datetime.now(UTC) - INACTIVE_AFTER - timedelta(days=1)
    async with database.transaction() as session:
        aged = update(TopicActivityRow).where(TopicActivityRow.topic != "shop.new")
        await session.execute(aged.values(grown_at=long_ago))
    await log.append("shop.used", [NewRecord(value=b"{}")])
    await activity.look()
    assert (await api.get("/inactive-topics")).json() == [
        {
            "topic": "shop.old",
            "lastPublishedTsMs": int(long_ago.timestamp() * 1000),
            "notificationTsMs": [],
            "whitelisted": False,
        }
    ]
    await api.delete("/topics/shop.old")
    assert (await api.get("/inactive-topics")).json() == []
