"""What a subscription says for its operators, and subscriptions that go with their topic."""

from typing import Any

import httpx

from app.domain.message import Partition
from tests.fakes.memory_log import MemoryLog

PATH = "/topics/shop.orders/subscriptions"
SAID: dict[str, Any] = {
    "monitoringDetails": {"severity": "CRITICAL", "reaction": "call us"},
    "endpointAddressResolverMetadata": {"zone": "a", "weights": {"x": 1}},
    "autoDeleteWithTopicEnabled": True,
}


def a_body(name: str, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    return {"name": name, "endpoint": "http://h.test/", **fields}


async def test_what_owners_say_is_kept_and_changed_field_by_field(
    api: httpx.AsyncClient, topic: str
) -> None:
    assert topic
    made = await api.post(PATH, json=a_body("billing", **SAID))
    assert "Angelia-Ignored-Fields" not in made.headers
    assert made.json().items() >= SAID.items()
    patch = {
        "monitoringDetails": {"reaction": None},
        "endpointAddressResolverMetadata": {"zone": None, "rack": 5},
    }
    changed = (await api.put(f"{PATH}/billing", json=patch)).json()
    assert changed["monitoringDetails"] == {"severity": "CRITICAL", "reaction": ""}
    metadata = changed["endpointAddressResolverMetadata"]
    assert metadata == {"weights": {"x": 1}, "rack": 5}
    assert (await api.get(f"{PATH}/billing")).json()["autoDeleteWithTopicEnabled"] is True


async def test_a_topic_goes_with_the_subscriptions_that_are_to_go_with_it(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    for name, leaves in (("a", True), ("b", True), ("c", False)):
        await api.post(PATH, json=a_body(name, autoDeleteWithTopicEnabled=leaves))
    refused = await api.delete(f"/topics/{topic}")
    assert (refused.status_code, refused.json()["code"]) == (403, "TOPIC_NOT_EMPTY")
    assert (await api.get(PATH)).json() == ["a", "b", "c"]
    await api.put(f"{PATH}/c", json={"autoDeleteWithTopicEnabled": True})
    assert (await api.delete(f"/topics/{topic}")).status_code == 200
    gone = await api.get(f"{PATH}/a")
    assert (gone.status_code, gone.json()["code"]) == (404, "TOPIC_NOT_EXISTS")
    partitions = [Partition(topic, index) for index in (0, 1)]
    assert (await log.committed({f"{topic}_a": partitions}))[f"{topic}_a"] == {}
    events = (await api.get("/audit?action=REMOVED")).json()
    assert [each["name"] for each in events] == [topic, *(f"{topic}/{name}" for name in "cba")]
    assert events[1]["before"]["endpoint"] == "http://h.test/"


async def test_a_topics_answer_has_what_hermes_console_reads(
    api: httpx.AsyncClient, topic: str
) -> None:
    found = (await api.get(f"/topics/{topic}")).json()
    assert found["offlineStorage"] == {
        "enabled": False,
        "retentionTime": {"duration": 0, "infinite": False},
    }
    assert (found["chaos"], found["jsonToAvroDryRun"]) == ({"mode": "DISABLED"}, False)
