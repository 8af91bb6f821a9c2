import httpx
import pytest

from app.domain.message import Partition
from tests.cases import for_each
from tests.fakes.memory_log import MemoryLog


async def test_a_group_is_created_listed_and_deleted(api: httpx.AsyncClient) -> None:
    created = await api.post("/groups", json={"groupName": "shop.eu"})
    assert (created.status_code, created.headers["Location"]) == (201, "/groups/shop.eu")
    assert (await api.get("/groups")).json() == ["shop.eu"]
    assert (await api.get("/groups/shop.eu")).json() == {"groupName": "shop.eu"}
    assert (await api.put("/groups/shop.eu", json={"groupName": "shop.eu"})).status_code == 204
    assert (await api.delete("/groups/shop.eu")).status_code == 200
    assert (await api.get("/groups/shop.eu")).json()["code"] == "GROUP_NOT_EXISTS"


async def test_a_topic_needs_only_a_name_and_brings_its_group(
    api: httpx.AsyncClient, log: MemoryLog
) -> None:
    created = await api.post("/topics", json={"name": "pl.shop.orders"})
    body = created.json()
    assert (created.status_code, created.headers["Location"]) == (201, "/topics/pl.shop.orders")
    assert body.pop("createdAt") == body.pop("modifiedAt") > 1.6e9
    assert body == {
        "name": "pl.shop.orders",
        "description": "",
        "owner": {"source": "Plaintext", "id": "anonymous"},
        "retentionTime": {"duration": 1, "retentionUnit": "DAYS"},
        "ack": "ALL",
        "contentType": "JSON",
        "maxMessageSize": 51200,
        "partitions": 8,
        "adopted": False,
        "propagatedHeaders": [],
        "trackingEnabled": False,
        "trackingMode": "trackingOff",
        "migratedFromJsonType": False,
        "jsonToAvroDryRun": False,
        "chaos": {"mode": "DISABLED"},
        "offlineStorage": {"enabled": False, "retentionTime": {"duration": 0, "infinite": False}},
        "subscribingRestricted": False,
        "fallbackToRemoteDatacenterEnabled": False,
        "auth": {"publishers": [], "enabled": False, "unauthenticatedAccessEnabled": True},
    }
    assert log.topics["pl.shop.orders"].partitions == 8
    assert (await api.get("/groups")).json() == ["pl.shop"]


async def test_topics_are_listed_by_group(api: httpx.AsyncClient) -> None:
    for name in ("b.two", "a.one"):
        await api.post("/topics", json={"name": name})
    assert (await api.get("/topics")).json() == ["a.one", "b.two"]
    assert (await api.get("/topics", params={"groupName": "a"})).json() == ["a.one"]


async def test_a_group_that_cannot_be_has_no_topics(api: httpx.AsyncClient) -> None:
    assert (await api.get("/topics", params={"groupName": "a b"})).json() == []


async def test_the_body_that_the_console_of_hermes_sends_creates_a_topic(
    api: httpx.AsyncClient,
) -> None:
    body = {
        "name": "shop.orders",
        "description": "what customers ordered",
        "owner": {"source": "Plaintext", "id": "Orders"},
        "auth": {"enabled": False, "unauthenticatedAccessEnabled": True, "publishers": []},
        "subscribingRestricted": False,
        "retentionTime": {"retentionUnit": "HOURS", "duration": 36},
        "offlineStorage": {"enabled": False, "retentionTime": {"infinite": False, "duration": 60}},
        "trackingEnabled": False,
        "trackingMode": "trackingOff",
        "contentType": "JSON",
        "maxMessageSize": 10240,
        "ack": "ALL",
        "fallbackToRemoteDatacenterEnabled": True,
    }
    created = await api.post("/topics", json=body)
    assert created.status_code == 201
    assert created.headers["Angelia-Ignored-Fields"] == "fallbackToRemoteDatacenterEnabled"
    assert created.json()["retentionTime"] == {"duration": 36, "retentionUnit": "HOURS"}
    assert created.json()["owner"]["id"] == "Orders"


async def test_a_topic_is_changed_by_a_merge_patch_and_the_log_with_it(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    patch = {"retentionTime": {"duration": 3}, "partitions": 4, "maxMessageSize": None}
    changed = (await api.put(f"/topics/{topic}", json=patch)).json()
    assert changed["retentionTime"] == {"duration": 3, "retentionUnit": "DAYS"}
    assert changed["maxMessageSize"] == 51200
    assert changed["modifiedAt"] > changed["createdAt"]
    assert (await api.get(f"/topics/{topic}")).json() == changed
    assert (log.topics[topic].partitions, log.topics[topic].retention.days) == (4, 3)


@pytest.mark.parametrize(
    ("duration", "unit"), [(48, "HOURS"), (1440, "MINUTES"), (3600, "SECONDS")]
)
async def test_the_retention_of_a_topic_keeps_the_unit_that_was_sent(
    api: httpx.AsyncClient, log: MemoryLog, duration: int, unit: str
) -> None:
    sent = {"duration": duration, "retentionUnit": unit}
    await api.post("/topics", json={"name": "shop.kept", "retentionTime": sent})
    assert (await api.get("/topics/shop.kept")).json()["retentionTime"] == sent
    before = log.topics["shop.kept"].retention
    patch = {"retentionTime": {"duration": duration * 2}}
    changed = (await api.put("/topics/shop.kept", json=patch)).json()
    assert changed["retentionTime"] == {"duration": duration * 2, "retentionUnit": unit}
    assert log.topics["shop.kept"].retention == before * 2


async def test_a_topic_sent_back_as_it_was_read_changes_nothing(
    api: httpx.AsyncClient, topic: str
) -> None:
    read = (await api.get(f"/topics/{topic}")).json()
    headers = {"Prefer": "handling=strict"}
    assert (await api.put(f"/topics/{topic}", json=read, headers=headers)).json() == read


@for_each("patch", [{"partitions": 1}, {"name": "shop.other"}, {"ack": "SOME"}])
async def test_a_change_that_cannot_be_leaves_the_topic_as_it_was(
    api: httpx.AsyncClient, topic: str, patch: dict[str, object]
) -> None:
    before = (await api.get(f"/topics/{topic}")).json()
    refused = await api.put(f"/topics/{topic}", json={"description": "new", **patch})
    assert (refused.status_code, refused.json()["code"]) == (400, "VALIDATION_ERROR")
    assert refused.json()["details"][0]["path"] in patch
    assert (await api.get(f"/topics/{topic}")).json() == before


async def test_deleting_a_topic_deletes_its_messages(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    assert (await api.delete(f"/topics/{topic}")).status_code == 200
    assert (await api.get(f"/topics/{topic}")).status_code == 404
    assert topic not in log.topics


async def test_what_is_not_empty_is_not_deleted(
    api: httpx.AsyncClient, topic: str, subscription: str
) -> None:
    refused = await api.delete(f"/topics/{topic}")
    assert (refused.status_code, refused.json()["code"]) == (403, "TOPIC_NOT_EMPTY")
    refused = await api.delete("/groups/shop")
    assert (refused.status_code, refused.json()["code"]) == (403, "GROUP_NOT_EMPTY")
    assert (await api.get(subscription)).status_code == 200


async def test_a_topic_that_the_log_does_not_make_leaves_nothing(
    api: httpx.AsyncClient, log: MemoryLog
) -> None:
    log.go_down()
    refused = await api.post("/topics", json={"name": "shop.orders"})
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
    assert (await api.get("/topics")).json() == []
    assert (await api.get("/groups")).json() == []
    log.come_back()
    assert (await api.post("/topics", json={"name": "shop.orders"})).status_code == 201


async def test_the_figures_of_a_topic_say_what_is_known(
    api: httpx.AsyncClient, topic: str, subscription: str, log: MemoryLog
) -> None:
    for _ in range(3):
        await api.post(f"/topics/{topic}", content=b"1")
    known = {"volume": 3, "deliveryRate": 0.0, "throughput": 0.0, "subscriptions": 1}
    lately = {"published": 3, "rate": 3 / 60}
    assert (await api.get(f"/topics/{topic}/metrics")).json() == lately | known
    log.go_down()
    assert (await api.get(f"/topics/{topic}/metrics")).json() == known
    assert subscription.endswith("billing")


async def test_a_topic_created_again_starts_afresh(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    await api.post(f"/topics/{topic}", content=b'"old"')
    await api.delete(f"/topics/{topic}")
    await api.post("/topics", json={"name": topic, "partitions": 1})
    assert (await log.bounds([Partition(topic, 0)]))[Partition(topic, 0)].end == 0
    assert (await api.post(f"/topics/{topic}", content=b'"new"')).status_code == 201


async def test_a_change_of_a_topic_can_be_tried_without_being_made(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    before = await api.get(f"/topics/{topic}")
    path, change = f"/topics/{topic}?dryRun=true", {"partitions": 4, "description": "orders"}
    tried = await api.put(path, json=change)
    assert tried.status_code == 200
    assert (tried.json()["partitions"], tried.json()["description"]) == (4, "orders")
    assert (await api.get(f"/topics/{topic}")).text == before.text
    assert log.topics[topic].partitions == 2
    wrong = await api.put(path, json={"partitions": 1})
    assert [each["path"] for each in wrong.json()["details"]] == ["partitions"]
    (await api.put(f"/topics/{topic}", json={"description": "others"})).raise_for_status()
    late = await api.put(path, json=change, headers={"If-Match": before.headers["etag"]})
    assert late.status_code == 412
