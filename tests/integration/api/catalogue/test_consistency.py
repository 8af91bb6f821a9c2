"""Topics that only the log has, or only the database: found, and brought together again."""

from datetime import timedelta

import httpx
import pytest

from app.domain.errors import LogUnavailableError
from app.domain.streams import OWN
from app.log.interface import LogTopic
from tests.cases import for_each
from tests.fakes.memory_log import MemoryLog

TOPICS = "/consistency/inconsistencies/topics"
FAILED = (503, "SENDING_TO_KAFKA_TIMEOUT")


class LateLog(MemoryLog):
    """Does what it is asked for too late for whoever asks, when it is `late`."""

    late = False

    async def create_topic(self, topic: LogTopic) -> None:
        await super().create_topic(topic)
        self._too_late()

    async def delete_topic(self, name: str) -> None:
        await super().delete_topic(name)
        self._too_late()

    def _too_late(self) -> None:
        if self.late:
            raise LogUnavailableError("not in time")


@pytest.fixture
def log() -> LateLog:
    return LateLog()


def a_topic(name: str) -> LogTopic:
    return LogTopic(name=name, partitions=1, retention=timedelta(days=1), message_size_max=1 << 20)


def said(answer: httpx.Response) -> tuple[int, object]:
    return answer.status_code, answer.json()["code"]


async def audited(api: httpx.AsyncClient) -> list[tuple[str, str]]:
    events = (await api.get("/audit?kind=logTopic")).raise_for_status().json()
    return [(event["action"], event["name"]) for event in events]


async def test_what_a_failed_creation_left_in_the_log_is_found_and_removed(
    api: httpx.AsyncClient, log: LateLog, topic: str
) -> None:
    log.late = True
    assert said(await api.post("/topics", json={"name": "shop.left"})) == FAILED
    log.late = False
    assert (await api.get(TOPICS)).json() == ["shop.left"]
    assert (await api.get(f"{TOPICS}?only=log")).json() == ["shop.left"]
    assert (await api.get(f"{TOPICS}?only=database")).json() == []
    removed = await api.delete(f"{TOPICS}?topicName=shop.left")
    assert (removed.status_code, removed.content) == (200, b"")
    assert set(log.topics) == {topic}
    assert (await api.get(TOPICS)).json() == []
    assert await audited(api) == [("REMOVED", "shop.left")]


async def test_what_only_the_database_has_is_found_and_made_again(
    api: httpx.AsyncClient, log: LateLog, topic: str
) -> None:
    await log.delete_topic(topic)
    assert (await api.get(TOPICS)).json() == [topic]
    assert (await api.get(f"{TOPICS}?only=database")).json() == [topic]
    assert (await api.get(f"{TOPICS}?only=log")).json() == []
    assert said(await api.delete(f"{TOPICS}?topicName={topic}")) == (404, "TOPIC_NOT_EXISTS")
    for _ in range(2):
        (await api.post(f"/consistency/sync/topics/{topic}")).raise_for_status()
    assert (log.topics[topic].partitions, log.topics[topic].message_size_max) == (2, 2048)
    assert (await api.get(TOPICS)).json() == []
    assert await audited(api) == [("CREATED", topic)]
    assert (await api.post(f"/topics/{topic}", content=b"{}")).status_code == 201


async def test_a_topic_that_both_have_is_not_removed(
    api: httpx.AsyncClient, log: LateLog, topic: str
) -> None:
    refused = await api.delete(f"{TOPICS}?topicName={topic}")
    assert said(refused) == (400, "VALIDATION_ERROR")
    assert refused.json()["details"][0]["path"] == "topicName"
    assert topic in log.topics


async def adopted_and_deleted(api: httpx.AsyncClient, log: LateLog, name: str) -> None:
    await log.create_topic(a_topic(name))
    (await api.post("/topics", json={"name": name, "adopted": True})).raise_for_status()
    (await api.delete(f"/topics/{name}")).raise_for_status()


async def test_a_topic_that_was_adopted_is_removed_only_by_who_says_so(
    api: httpx.AsyncClient, log: LateLog
) -> None:
    path = f"{TOPICS}?topicName=shop.theirs"
    await adopted_and_deleted(api, log, "shop.theirs")
    for refused in (await api.delete(path), await api.delete(f"{path}&onceAdopted=false")):
        assert said(refused) == (400, "VALIDATION_ERROR")
        assert refused.json()["details"][0]["path"] == "onceAdopted"
    assert "shop.theirs" in log.topics
    assert await audited(api) == []
    (await api.delete(f"{path}&onceAdopted=true")).raise_for_status()
    assert "shop.theirs" not in log.topics


async def test_what_others_make_again_is_theirs_until_it_is_made_here(
    api: httpx.AsyncClient, log: LateLog
) -> None:
    path = f"{TOPICS}?topicName=shop.theirs"
    await adopted_and_deleted(api, log, "shop.theirs")
    await log.delete_topic("shop.theirs")
    await log.create_topic(a_topic("shop.theirs"))
    assert (await api.delete(path)).status_code == 400
    (await api.post("/topics", json={"name": "shop.theirs"})).raise_for_status()
    log.go_down()
    (await api.delete("/topics/shop.theirs")).raise_for_status()
    log.come_back()
    (await api.delete(path)).raise_for_status()
    assert "shop.theirs" not in log.topics


async def test_what_is_no_topic_of_ours_is_neither_named_nor_removed(
    api: httpx.AsyncClient, log: LateLog
) -> None:
    others = {*OWN, "undotted", "shop.ünknown"}
    for name in others:
        await log.create_topic(a_topic(name))
    assert (await api.get(TOPICS)).json() == []
    for name in others:
        refused = await api.delete(f"{TOPICS}?topicName={name}")
        assert said(refused) == (404, "TOPIC_NOT_EXISTS")
    assert set(log.topics) == others


async def test_nothing_is_said_to_be_inconsistent_while_the_log_does_not_answer(
    api: httpx.AsyncClient, log: LateLog, topic: str
) -> None:
    log.go_down()
    for method, path in (
        ("GET", TOPICS),
        ("DELETE", f"{TOPICS}?topicName=shop.left"),
        ("POST", f"/consistency/sync/topics/{topic}"),
    ):
        assert said(await api.request(method, path)) == FAILED


@for_each("query", ["", "?topicName="])
async def test_a_removal_from_the_log_must_name_a_topic(api: httpx.AsyncClient, query: str) -> None:
    refused = await api.delete(f"{TOPICS}{query}")
    assert said(refused) == (400, "VALIDATION_ERROR")
    assert [each["path"] for each in refused.json()["details"]] == ["topicName"]
