"""How many bytes were ever published to a topic, whichever process took them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncSession

from app.config import Settings
from app.domain.catalogue.topic import Topic
from app.domain.errors import StorageUnavailableError
from app.main import create_app
from app.metrics.publish_counts import PublishCounts
from app.services.metrics.volumes import Volumes
from app.storage.database import Database
from app.storage.health.topic_volumes import VolumeRepository
from tests.fakes.memory_log import MemoryLog
from tests.integration.api.server import given, serving


async def volume(api: httpx.AsyncClient, topic: str) -> int:
    found: int = (await api.get(f"/topics/{topic}/metrics")).raise_for_status().json()["volume"]
    return found


async def test_what_several_processes_took_is_one_volume_also_when_one_has_ended(
    api: httpx.AsyncClient, topic: str, settings: Settings, postgres_url: str, log: MemoryLog
) -> None:
    await api.post(f"/topics/{topic}", content=b"12345")
    app = create_app(settings, database_url=postgres_url, log=given(log))
    async with serving(app) as other:
        await other.post(f"/topics/{topic}", content=b"678")
        await other.post(f"/topics/{topic}/batch", json=[1, 2])
        # What it has counted lately it knows at once, and of the first one's when that has told it.
        assert await volume(other, topic) in {5, 10}
    assert await volume(api, topic) == 10


async def test_what_is_refused_has_no_volume(api: httpx.AsyncClient, topic: str) -> None:
    await api.post(f"/topics/{topic}", content=b"1".ljust(2049))
    await api.post(f"/topics/{topic}?mandatory=true", content=b"1")
    assert await volume(api, topic) == 0


async def test_topics_are_found_by_their_volume(api: httpx.AsyncClient, topic: str) -> None:
    await api.post("/topics", json={"name": "shop.quiet"})
    await api.post(f"/topics/{topic}", content=b"12345")
    query = {"query": {"volume": {"gt": 4}}}
    [found] = (await api.post("/query/topics/metrics", json=query)).json()
    assert (found["name"], found["volume"]) == (topic, 5)


async def test_a_topic_that_is_made_again_begins_with_none(
    api: httpx.AsyncClient, topic: str
) -> None:
    await api.post(f"/topics/{topic}", content=b"12345")
    (await api.delete(f"/topics/{topic}")).raise_for_status()
    (await api.post("/topics", json={"name": topic})).raise_for_status()
    assert await volume(api, topic) == 0
    await api.post(f"/topics/{topic}", content=b"12")
    assert await volume(api, topic) == 2


@pytest.mark.usefixtures("api")
async def test_what_was_told_is_not_told_again_and_what_is_gone_is_passed_over(
    topic: str, database: Database
) -> None:
    counts = PublishCounts()
    volumes = Volumes(database, counts)
    for name, size in ((topic, 3), ("shop.gone", 9), (topic, 4)):
        counts.of(Topic(name=name)).add(1, size, 0.0)
        await volumes.store()
        await volumes.store()
    async with database.transaction() as session:
        stored = VolumeRepository(session)
        assert await stored.of([topic, "shop.gone"]) == {topic: 7}
        assert await volumes.of(stored, [topic, "shop.gone"]) == {topic: 7, "shop.gone": 0}


class Lost(Database):
    """That database, of which the answers to commits are lost."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncSession]:
        async with self._database.transaction() as session:
            yield session
        raise StorageUnavailableError("gone")


@pytest.mark.usefixtures("api")
async def test_what_may_have_been_told_is_not_told_again(topic: str, database: Database) -> None:
    counts = PublishCounts()
    counts.of(Topic(name=topic)).add(1, 3, 0.0)
    with pytest.raises(StorageUnavailableError):
        await Volumes(Lost(database), counts).store()
    await Volumes(database, counts).store()
    async with database.transaction() as session:
        assert await VolumeRepository(session).of([topic]) == {topic: 3}
