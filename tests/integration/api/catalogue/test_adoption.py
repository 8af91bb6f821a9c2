"""Topics that others made or changed in the log: what they have there is taken over."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import psycopg
import pytest
from structlog.testing import capture_logs

from app.domain.catalogue.topic import Topic
from app.domain.errors import LogUnavailableError
from app.domain.message import NewRecord
from app.log.interface import FoundTopic, LogTopic
from app.services.catalogue.foreign_changes import ForeignChangeService
from app.storage.catalogue.changes import ChangeFeed
from app.storage.catalogue.topics import TopicRepository
from app.storage.database import open_database
from app.telemetry import SeldomRepeated
from tests.cases import for_each
from tests.fakes.memory_log import MemoryLog

NAME = "shop.theirs"
PATH = f"/topics/{NAME}"
THEIRS = LogTopic(
    name=NAME, partitions=3, retention=timedelta(hours=5, milliseconds=7), message_size_max=1 << 20
)
NONE_OF_IT: dict[str, Any] = {"name": NAME, "adopted": True}


class ForeignLog(MemoryLog):
    """Has a topic of somebody else, and counts what is done to topics."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []
        # The topic whose settings may not be seen.
        self.untold = ""

    async def topic(self, name: str) -> FoundTopic:
        if name == self.untold:
            raise LogUnavailableError("is DescribeConfigs allowed?")
        return await super().topic(name)

    async def create_topic(self, topic: LogTopic) -> None:
        self.done.append(f"create {topic.name}")
        await super().create_topic(topic)

    async def alter_topic(self, topic: LogTopic) -> None:
        self.done.append(f"alter {topic.name}")
        await super().alter_topic(topic)

    async def delete_topic(self, name: str) -> None:
        self.done.append(f"delete {name}")
        await super().delete_topic(name)

    async def theirs(self, topic: LogTopic = THEIRS) -> None:
        """Somebody else makes it, or changes it."""
        await super().create_topic(topic)
        self.done.clear()


@pytest.fixture
async def log() -> ForeignLog:
    log = ForeignLog()
    await log.theirs()
    await log.append(NAME, [NewRecord(value=b"{}")])
    return log


@pytest.fixture
async def adopted(api: httpx.AsyncClient) -> dict[str, Any]:
    answer = await api.post("/topics", json=NONE_OF_IT)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def refused_for(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 400, answer.text
    return [each["path"] for each in answer.json()["details"]]


async def test_an_adopted_topic_has_the_partitions_and_the_retention_of_the_log(
    log: ForeignLog, adopted: dict[str, Any]
) -> None:
    assert adopted["adopted"] is True
    assert adopted["partitions"] == 3
    assert adopted["retentionTime"] == {"duration": 5, "retentionUnit": "HOURS"}
    assert (log.done, log.topics[NAME]) == ([], THEIRS)


async def test_a_topic_that_the_log_does_not_have_cannot_be_adopted(
    api: httpx.AsyncClient, log: ForeignLog
) -> None:
    answer = await api.post("/topics", json={"name": "shop.nowhere", "adopted": True})
    assert refused_for(answer) == ["adopted"]
    assert log.done == []
    assert (await api.get("/topics/shop.nowhere")).status_code == 404


@pytest.mark.usefixtures("adopted")
@for_each(
    ("change", "field"),
    [
        ({"partitions": 4}, "partitions"),
        ({"retentionTime": {"duration": 1}}, "retentionTime.duration"),
        ({"adopted": False}, "adopted"),
    ],
)
async def test_what_is_the_log_s_of_an_adopted_topic_is_not_changed_here(
    api: httpx.AsyncClient, log: ForeignLog, change: dict[str, Any], field: str
) -> None:
    assert refused_for(await api.put(PATH, json=change)) == [field]
    assert log.done == []


@pytest.mark.usefixtures("adopted")
async def test_the_other_settings_of_an_adopted_topic_are_changed_without_the_log(
    api: httpx.AsyncClient, log: ForeignLog
) -> None:
    body = {"description": "theirs", "maxMessageSize": 4096, "partitions": 3}
    changed = await api.put(PATH, json=body)
    assert (changed.status_code, changed.json()["maxMessageSize"]) == (200, 4096)
    assert (log.done, log.topics[NAME]) == ([], THEIRS)


async def test_a_topic_of_ours_does_not_become_an_adopted_one(
    api: httpx.AsyncClient, topic: str
) -> None:
    assert refused_for(await api.put(f"/topics/{topic}", json={"adopted": True})) == ["adopted"]


@pytest.mark.usefixtures("adopted")
async def test_an_adopted_topic_stays_in_the_log_when_it_is_deleted(
    api: httpx.AsyncClient, log: ForeignLog
) -> None:
    assert (await api.delete(PATH)).status_code == 200
    assert (log.done, len(log.records(NAME))) == ([], 1)
    assert (await api.post("/topics", json=NONE_OF_IT)).status_code == 201


@pytest.mark.usefixtures("adopted")
async def test_an_adopted_topic_that_is_gone_from_the_log_is_not_made_again(
    api: httpx.AsyncClient, log: ForeignLog
) -> None:
    await log.delete_topic(NAME)
    log.done.clear()
    answer = await api.post(f"/consistency/sync/topics/{NAME}")
    assert refused_for(answer) == ["topicName"]
    assert log.done == []


@pytest.mark.usefixtures("adopted")
async def test_what_others_change_of_an_adopted_topic_is_taken_over(
    api: httpx.AsyncClient, log: ForeignLog, postgres_url: str
) -> None:
    async with open_database(postgres_url) as database:
        service = ForeignChangeService(database, log, describe=_described)
        await service.look()
        before = (await api.get(PATH)).json()
        await log.theirs(
            LogTopic(name=NAME, partitions=5, retention=timedelta.max, message_size_max=1 << 20)
        )
        await service.look()
        after = (await api.get(PATH)).json()
        await log.delete_topic(NAME)
        await service.look()
    assert (before["partitions"], after["partitions"]) == (3, 5)
    assert after["retentionTime"] == {"duration": 3650, "retentionUnit": "DAYS"}
    assert after["modifiedAt"] > before["modifiedAt"] == before["createdAt"]
    assert (await api.get(PATH)).json() == after


async def test_partitions_that_others_add_to_a_topic_of_ours_are_taken_over_and_nothing_else(
    api: httpx.AsyncClient, log: ForeignLog, postgres_url: str
) -> None:
    ours = "/topics/shop.ours"
    (await api.post("/topics", json={"name": "shop.ours", "partitions": 2})).raise_for_status()
    before = (await api.get(ours)).json()
    async with open_database(postgres_url) as database:
        service = ForeignChangeService(database, log, describe=_described)
        await service.look()
        unchanged = (await api.get(ours)).json()
        await log.theirs(replace(THEIRS, name="shop.ours", partitions=5))
        await service.look()
    after = (await api.get(ours)).json()
    assert unchanged == before
    assert after == {**before, "partitions": 5, "modifiedAt": after["modifiedAt"]}


async def test_a_topic_of_ours_has_as_many_partitions_as_one_that_was_in_the_log_before(
    api: httpx.AsyncClient, log: ForeignLog, postgres_url: str
) -> None:
    (await api.post("/topics", json={"name": NAME, "partitions": 2})).raise_for_status()
    async with open_database(postgres_url) as database:
        await ForeignChangeService(database, log, describe=_described).look()
    assert (await api.get(PATH)).json()["partitions"] == THEIRS.partitions


@pytest.mark.usefixtures("adopted")
async def test_an_adopted_topic_of_which_the_log_does_not_tell_delays_no_others(
    api: httpx.AsyncClient, log: ForeignLog, postgres_url: str
) -> None:
    other = "shop.theirs_too"
    await log.theirs(replace(THEIRS, name=other))
    (await api.post("/topics", json={**NONE_OF_IT, "name": other})).raise_for_status()
    await log.theirs(replace(THEIRS, name=other, partitions=4))
    log.untold = NAME
    async with open_database(postgres_url) as database:
        service = ForeignChangeService(database, log, describe=_described)
        with capture_logs([SeldomRepeated()]) as logged:
            await service.look()
            await service.look()
    assert (await api.get(f"/topics/{other}")).json()["partitions"] == 4
    assert [(each["event"], each["topic"]) for each in logged] == [("topic_not_followed", NAME)]


@pytest.mark.usefixtures("adopted")
async def test_a_topic_that_was_made_anew_as_ours_is_not_taken_over(
    api: httpx.AsyncClient, log: ForeignLog, postgres_url: str
) -> None:
    await log.theirs(replace(THEIRS, partitions=5))
    async with open_database(postgres_url) as database, asyncio.TaskGroup() as tasks:
        service = ForeignChangeService(database, log, describe=_described)
        async with database.transaction() as session:
            await ChangeFeed(session).hold()
            tasks.create_task(service.look())
            await _until_waiting(postgres_url)
            topics = TopicRepository(session)
            current = await topics.get(NAME)
            await topics.delete(NAME)
            await topics.add(replace(current, adopted=False, partitions=2))
    found = (await api.get(PATH)).json()
    assert (found["adopted"], found["partitions"]) == (False, 2)


async def _until_waiting(url: str) -> None:
    """Return when somebody waits for a lock."""
    waiting = (
        "SELECT 1 FROM pg_stat_activity"
        " WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    async with (
        asyncio.timeout(60),
        await psycopg.AsyncConnection.connect(url, autocommit=True) as connection,
    ):
        while not await (await connection.execute(waiting)).fetchone():
            pass


def _described(topic: Topic) -> dict[str, Any]:
    return {"partitions": topic.partitions}
