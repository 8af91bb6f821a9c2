"""Requests that wait for the log: nobody else waits with them, and nothing is left half done."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial

import httpx
import pytest
from sqlalchemy import text

from app.config import Settings
from app.domain.access.audit import Action, Change
from app.domain.catalogue.log_claims import Intent, LogClaim
from app.domain.errors import StorageUnavailableError
from app.domain.message import Partition
from app.log.interface import Committed, LogTopic
from app.log.kafka import kafka_log
from app.main import create_app
from app.services.catalogue.topics import TopicService
from app.services.log_claims import LogClaims
from app.storage.database import Database, Session, open_database
from app.storage.runtime.log_claims import LogClaimRepository
from tests.fakes.memory_log import MemoryLog
from tests.integration.api.server import given, serving
from tests.integration.api.slow_answers import answer_of
from tests.servers.kafka import KafkaBroker, SharedBroker

PATIENCE_S = 60.0
TOPICS = "/consistency/inconsistencies/topics"
UNANSWERED = (503, "SENDING_TO_KAFKA_TIMEOUT")
FOREIGN = LogTopic(
    name="shop.foreign", partitions=1, retention=timedelta(days=1), message_size_max=1 << 20
)


class HangingLog(MemoryLog):
    """Does what changes it only while it `answers`; says when it was `asked`."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = asyncio.Event()
        self.answers.set()
        self.asked = asyncio.Event()

    async def create_topic(self, topic: LogTopic) -> None:
        await self._wait()
        await super().create_topic(topic)

    async def alter_topic(self, topic: LogTopic) -> None:
        await self._wait()
        await super().alter_topic(topic)

    async def delete_topic(self, name: str) -> None:
        await self._wait()
        await super().delete_topic(name)

    async def commit(
        self, offsets: Mapping[str, Mapping[Partition, Committed]]
    ) -> Mapping[tuple[str, Partition], str]:
        await self._wait()
        return await super().commit(offsets)

    async def _wait(self) -> None:
        self.asked.set()
        await self.answers.wait()


@pytest.fixture
def log() -> HangingLog:
    return HangingLog()


Ask = Callable[[httpx.AsyncClient], Coroutine[object, object, httpx.Response]]
ASKED: Mapping[str, Ask] = {
    "create a topic": lambda api: api.post("/topics", json={"name": "shop.new"}),
    "change a topic": lambda api: api.put(
        "/topics/shop.other", json={"name": "shop.other", "maxMessageSize": 4096}
    ),
    "delete a topic": lambda api: api.delete("/topics/shop.other"),
    "create a subscription": lambda api: api.post(
        "/topics/shop.other/subscriptions",
        json={"name": "new", "endpoint": "http://new.test/", "supportTeam": "B"},
    ),
    "make it again": lambda api: api.post("/consistency/sync/topics/shop.gone"),
    "remove it": lambda api: api.delete(f"{TOPICS}?topicName={FOREIGN.name}"),
}


@pytest.mark.parametrize("asked", ASKED)
async def test_others_go_on_while_a_request_waits_for_the_log(
    api: httpx.AsyncClient, subscription: str, log: HangingLog, asked: str
) -> None:
    for name in ("shop.other", "shop.gone"):
        (await api.post("/topics", json={"name": name})).raise_for_status()
    await log.delete_topic("shop.gone")
    await log.create_topic(FOREIGN)
    log.asked.clear()
    log.answers.clear()
    async with asyncio.TaskGroup() as tasks:
        pending = tasks.create_task(ASKED[asked](api))
        async with asyncio.timeout(PATIENCE_S):
            await log.asked.wait()
        suspended = await api.put(f"{subscription}/state", json="SUSPENDED")
        changed = await api.put(
            "/topics/shop.orders",
            json={"name": "shop.orders", "maxMessageSize": 2048, "description": "changed"},
        )
        assert (suspended.status_code, changed.status_code) == (200, 200)
        assert not pending.done()
        log.answers.set()
    assert pending.result().status_code in {200, 201}


async def test_a_subscription_of_a_topic_that_is_deleted_meanwhile_is_not_found(
    api: httpx.AsyncClient, log: HangingLog, topic: str
) -> None:
    log.asked.clear()
    log.answers.clear()
    body = {"name": "new", "endpoint": "http://new.test/", "supportTeam": "B"}
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
        created = tasks.create_task(api.post(f"/topics/{topic}/subscriptions", json=body))
        await log.asked.wait()
        log.asked.clear()
        deleted = tasks.create_task(api.delete(f"/topics/{topic}"))
        # The topic is deleted in the database, and then in the log.
        await log.asked.wait()
        await MemoryLog.delete_topic(log, topic)
        log.answers.set()
    assert deleted.result().status_code == 200
    answer = created.result()
    assert (answer.status_code, answer.json()["code"]) == (404, "TOPIC_NOT_EXISTS")


async def test_a_deletion_that_the_log_did_not_answer_is_ended_later(
    api: httpx.AsyncClient, log: HangingLog, topic: str, postgres_url: str
) -> None:
    await api.post(f"/topics/{topic}", content=b'"old"')
    log.go_down()
    assert (await api.delete(f"/topics/{topic}")).status_code == 200
    assert (await api.get(f"/topics/{topic}")).status_code == 404
    refused = await api.post("/topics", json={"name": topic})
    assert (refused.status_code, refused.json()["code"]) == UNANSWERED
    log.come_back()
    assert (await api.get(TOPICS)).json() == [topic]
    await _settle_all(postgres_url, log)
    assert (await api.get(TOPICS)).json() == []
    assert topic not in log.topics


async def test_a_topic_made_again_has_nothing_of_one_whose_deletion_was_not_ended(
    api: httpx.AsyncClient, log: HangingLog, topic: str
) -> None:
    await api.post(f"/topics/{topic}", content=b'"old"')
    log.go_down()
    await api.delete(f"/topics/{topic}")
    log.come_back()
    assert (await api.post("/topics", json={"name": topic})).status_code == 201
    await api.post(f"/topics/{topic}", content=b'"new"')
    assert [record.value for record in log.records(topic)] == [b'"new"']


async def test_a_deletion_that_is_asked_for_twice_is_still_ended_in_the_log(
    api: httpx.AsyncClient, log: HangingLog, topic: str
) -> None:
    await api.post(f"/topics/{topic}", content=b'"old"')
    log.go_down()
    answers = [await api.delete(f"/topics/{topic}") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 404]
    log.come_back()
    assert (await api.post("/topics", json={"name": topic})).status_code == 201
    assert list(log.records(topic)) == []


@pytest.mark.usefixtures("subscription")
async def test_a_change_is_undone_in_the_log_though_a_deletion_was_refused_meanwhile(
    api: httpx.AsyncClient, log: HangingLog, topic: str, postgres_url: str
) -> None:
    log.go_down()
    await api.put(f"/topics/{topic}", json={"name": topic, "maxMessageSize": 4096})
    refused = await api.delete(f"/topics/{topic}")
    assert (refused.status_code, refused.json()["code"]) == (403, "TOPIC_NOT_EMPTY")
    log.come_back()
    # As if it had been done, too late for the answer.
    log.topics[topic] = replace(log.topics[topic], message_size_max=4096)
    await _settle_all(postgres_url, log)
    assert log.topics[topic].message_size_max == 2048


async def test_a_refused_deletion_makes_no_deletion_of_a_creation_that_was_not_ended(
    api: httpx.AsyncClient, log: HangingLog, postgres_url: str
) -> None:
    await log.create_topic(FOREIGN)
    async with (
        open_database(postgres_url) as database,
        LogClaims(database).claimed(f"topic {FOREIGN.name}", Intent.CREATE) as claim,
    ):
        claim.begin()
    assert (await api.delete(f"/topics/{FOREIGN.name}")).status_code == 404
    await _settle_all(postgres_url, log)
    assert FOREIGN.name in log.topics


async def test_a_deletion_that_was_claimed_and_not_begun_deletes_nothing_later(
    log: HangingLog, postgres_url: str
) -> None:
    await log.create_topic(FOREIGN)
    async with open_database(postgres_url) as database, database.transaction() as session:
        # Its process dies before it has seen that the topic is none of ours.
        claim = LogClaim(subject=f"topic {FOREIGN.name}", intent=Intent.DELETE, token="t")
        assert await LogClaimRepository(session).take(claim, timedelta())
    await _settle_all(postgres_url, log)
    assert FOREIGN.name in log.topics


class UnclearDatabase(Database):
    """Says once that it failed, though what it was told is committed."""

    def __init__(self, database: Database, *, unclear: str) -> None:
        self._sound = database
        self._unclear = text(unclear)
        self.failed = False

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        async with self._sound.transaction() as session:
            before = await session.scalar(self._unclear)
            yield session
            after = await session.scalar(self._unclear)
        if before and not after:
            self.failed = True
            raise StorageUnavailableError("The database failed: no answer to COMMIT")


UNCLEAR = {
    "a topic": "SELECT count(*) FROM topics WHERE name = 'shop.orders'",
    "one that only the log has": "SELECT NOT EXISTS (SELECT FROM audit_events)",
}


@pytest.mark.parametrize("deleted", UNCLEAR)
async def test_a_deletion_of_which_nobody_knows_whether_it_was_committed_is_ended_later(
    api: httpx.AsyncClient, log: HangingLog, postgres_url: str, deleted: str
) -> None:
    if deleted == "a topic":
        (await api.post("/topics", json={"name": "shop.orders"})).raise_for_status()
    else:
        await log.create_topic(replace(FOREIGN, name="shop.orders"))
    async with open_database(postgres_url) as sound:
        database = UnclearDatabase(sound, unclear=UNCLEAR[deleted])
        service = TopicService(database, log, take_in=_nothing, describe=lambda _: {})
        event = Change(action=Action.REMOVED, kind="logTopic", name="shop.orders")
        deleting = (
            service.delete("shop.orders")
            if deleted == "a topic"
            else service.remove_from_log("shop.orders", event)
        )
        with pytest.raises(StorageUnavailableError):
            await deleting
        assert database.failed
        async with sound.transaction() as session:
            await session.execute(text("UPDATE leases SET until = now() WHERE name LIKE 'log/%'"))
    await _settle_all(postgres_url, log)
    assert "shop.orders" not in log.topics


async def test_a_change_that_the_log_did_not_answer_is_undone_in_the_log(
    api: httpx.AsyncClient, log: HangingLog, topic: str, postgres_url: str
) -> None:
    log.go_down()
    refused = await api.put(f"/topics/{topic}", json={"name": topic, "maxMessageSize": 4096})
    assert (refused.status_code, refused.json()["code"]) == UNANSWERED
    assert (await api.get(f"/topics/{topic}")).json()["maxMessageSize"] == 2048
    log.come_back()
    # As if it had been done, too late for the answer.
    log.topics[topic] = LogTopic(
        name=topic, partitions=2, retention=timedelta(days=1), message_size_max=4096
    )
    await _settle_all(postgres_url, log)
    assert log.topics[topic].message_size_max == 2048


async def _settle_all(postgres_url: str, log: HangingLog) -> None:
    async with open_database(postgres_url) as database:
        service = TopicService(database, log, take_in=_nothing, describe=lambda _: {})
        await service.settle_all()


async def _nothing() -> None:
    return


async def test_thirty_topics_that_are_created_at_once_are_all_created(
    settings: Settings, postgres_url: str, kafka_broker: SharedBroker, kafka_namespace: str
) -> None:
    async with kafka_log(kafka_broker.bootstrap, namespace=kafka_namespace) as log:
        app = create_app(settings, database_url=postgres_url, log=given(log))
        async with serving(app) as api:
            bodies = [{"name": f"shop.orders{number}"} for number in range(30)]
            answers = await asyncio.gather(
                *(api.post("/topics", json=body, timeout=PATIENCE_S) for body in bodies)
            )
            refused = [
                body
                for body, answer in zip(bodies, answers, strict=True)
                if answer.status_code != 201
            ]
            # Each waits at most 5 s for its turn to change the catalogue. A busy machine may need
            # more for thirty turns; if they waited for Kafka, most would be refused.
            assert len(refused) < 10, answers[-1].text
            for body in refused:
                # What was refused may still be under way.
                await answer_of(partial(api.post, "/topics", json=body, timeout=PATIENCE_S))
            assert len((await api.get("/topics")).json()) == len(bodies)


async def test_a_frozen_broker_keeps_nobody_waiting_but_who_asks_it_and_is_named(
    settings: Settings, postgres_url: str, own_kafka_broker: KafkaBroker, kafka_namespace: str
) -> None:
    async with kafka_log(own_kafka_broker.bootstrap, namespace=kafka_namespace) as log:
        app = create_app(settings, database_url=postgres_url, log=given(log))
        async with serving(app) as api, asyncio.TaskGroup() as tasks:
            (await api.post("/topics", json={"name": "shop.orders"})).raise_for_status()
            billing = {"name": "billing", "endpoint": "http://h.test/", "supportTeam": "B"}
            path = "/topics/shop.orders/subscriptions"
            (await api.post(path, json=billing)).raise_for_status()
            own_kafka_broker.pause()
            try:
                new = {"name": "shop.new"}
                pending = tasks.create_task(api.post("/topics", json=new, timeout=PATIENCE_S))
                async with open_database(postgres_url) as database:
                    await _claimed(database, "topic shop.new")
                suspended = await api.put(f"{path}/billing/state", json="SUSPENDED")
                assert (suspended.status_code, pending.done()) == (200, False)
                refused = await pending
            finally:
                own_kafka_broker.resume()
    assert (refused.status_code, refused.json()["code"]) == UNANSWERED
    assert "Kafka did not answer" in refused.json()["message"]


async def _claimed(database: Database, subject: str) -> None:
    """Return when a request has claimed to change that in the log."""
    held = text("SELECT count(*) FROM leases WHERE name = :name")
    async with asyncio.timeout(PATIENCE_S):
        while True:
            async with database.transaction() as session:
                if await session.scalar(held, {"name": f"log/{subject}"}):
                    return
