import asyncio
from datetime import timedelta

from app.domain.catalogue.topic import Topic
from app.domain.status import WorkerStatus
from app.services.applied_changes import AppliedChanges
from app.services.directory.topics import TopicDirectory
from app.services.refresh import Refresher
from app.storage.catalogue.groups import GroupRepository
from app.storage.catalogue.topics import TopicRepository
from app.storage.database import Database
from app.storage.health.workers import WorkerRepository
from app.storage.notices import APPLIED, CHANGES, listen
from tests.contract.logs import eventually
from tests.integration.api.catalogue.test_subscriptions import beat

DEADLINE_S = 60
LONG = timedelta(seconds=60)


class Workers:
    """The live workers of a database; `asked` is set once somebody waits for them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.asked = asyncio.Event()

    async def __call__(self) -> list[WorkerStatus]:
        async with self._database.transaction() as session:
            live = await WorkerRepository(session).live(LONG)
        self.asked.set()
        return live


async def missing(name: str) -> Topic:
    raise LookupError(name)


async def test_who_waits_hears_of_an_applied_change_without_asking_again(
    database: Database, postgres_url: str
) -> None:
    workers = Workers(database)
    applied = AppliedChanges(workers, ask_every=LONG)
    refresher = Refresher(database, TopicDirectory(missing), applied)
    await beat(database, 6)
    async with (
        asyncio.timeout(DEADLINE_S),
        listen(postgres_url, (CHANGES, APPLIED)) as notices,
        asyncio.TaskGroup() as tasks,
    ):
        running = tasks.create_task(refresher.run(notices))
        waiting = tasks.create_task(applied.wait(7, within=LONG))
        await workers.asked.wait()
        await beat(database, 7)
        assert await waiting
        running.cancel()


async def test_topics_are_read_without_a_notice_where_there_are_no_keys(
    database: Database, postgres_url: str
) -> None:
    directory = TopicDirectory(missing)
    refresher = Refresher(database, directory, AppliedChanges(Workers(database)))
    async with database.transaction() as session:
        await GroupRepository(session).add("shop")
        await TopicRepository(session).add(Topic(name="shop.orders"))

    async def is_known() -> bool:
        return directory.known("shop.orders") is not None

    async with listen(postgres_url, (APPLIED,)) as notices, asyncio.TaskGroup() as tasks:
        running = tasks.create_task(refresher.run(notices))
        await eventually(is_known)
        running.cancel()


async def test_a_topic_is_known_without_asking_for_it(
    database: Database, postgres_url: str
) -> None:
    directory = TopicDirectory(missing)
    refresher = Refresher(database, directory, AppliedChanges(Workers(database)))
    async with (
        asyncio.timeout(DEADLINE_S),
        listen(postgres_url, (CHANGES, APPLIED)) as notices,
    ):
        async with database.transaction() as session:
            await GroupRepository(session).add("shop")
            await TopicRepository(session).add(Topic(name="shop.orders"))
        assert CHANGES in await notices.wait(LONG)
        await refresher.refresh()
    assert directory.known("shop.orders")
