import asyncio
from collections.abc import Sequence
from datetime import timedelta

import httpx
import pytest
from sqlalchemy import text

from app.config import Settings
from app.domain.catalogue.topic import Ack, Deduplication, Topic
from app.domain.errors import LogUnavailableError
from app.domain.message import NewRecord
from app.log.interface import Position
from app.main import create_app
from app.services.directory.topics import TopicDirectory
from app.services.publishing.deduplication import IdForgetter
from app.storage.database import Database
from app.storage.runtime.published_ids import claimed_ids
from tests.cases import for_each
from tests.fakes.memory_log import MemoryLog
from tests.integration.api.server import given, serving
from tests.integration.storage.builders import add_topic

TOPIC = "shop.once"
RULE = {"ttl": 60, "maxEntries": 1000, "onDuplicate": "ACCEPT"}
ENVELOPES = f"/topics/{TOPIC}/batch?envelope=true"
HOUR = timedelta(hours=1)


class ForgetfulLog(MemoryLog):
    """Stores all, and acknowledges no record that contains `lost` the first time."""

    def __init__(self) -> None:
        super().__init__()
        self.lost = b'"lost"'

    async def append(
        self, topic: str, records: Sequence[NewRecord], *, ack: Ack = Ack.ALL
    ) -> Sequence[Position]:
        positions = await super().append(topic, records, ack=ack)
        if any(self.lost in record.value for record in records):
            self.lost = b'"never again"'
            raise LogUnavailableError("stored, and not acknowledged")
        return positions


@pytest.fixture
def log() -> MemoryLog:
    return ForgetfulLog()


@pytest.fixture
async def once(api: httpx.AsyncClient) -> str:
    """The path of a topic with an idempotent filter."""
    body = {"name": TOPIC, "partitions": 2, "deduplication": RULE}
    (await api.post("/topics", json=body)).raise_for_status()
    return f"/topics/{TOPIC}"


def bodies(log: MemoryLog) -> list[bytes]:
    return sorted(record.value or b"" for record in log.records(TOPIC))


async def published(api: httpx.AsyncClient, body: bytes, own_id: str) -> httpx.Response:
    return await api.post(f"/topics/{TOPIC}", content=body, headers={"Idempotency-Key": own_id})


async def test_stores_what_has_the_same_id_once(
    api: httpx.AsyncClient, once: str, log: MemoryLog
) -> None:
    first, second = [await published(api, b"1", "a") for _ in range(2)]
    other = await published(api, b"2", "b")
    without = [await api.post(once, content=b"3") for _ in range(2)]
    assert {each.status_code for each in (first, second, other, *without)} == {201}
    assert second.headers["Hermes-Message-Id"] == first.headers["Hermes-Message-Id"] == "a"
    assert [each.headers.get("Angelia-Duplicate") for each in (first, second, other)] == [
        None,
        "true",
        None,
    ]
    assert bodies(log) == [b"1", b"2", b"3", b"3"]


async def test_a_topic_without_a_filter_stores_all(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    for _ in range(2):
        headers = {"Idempotency-Key": "a"}
        stored = await api.post(f"/topics/{topic}", content=b"1", headers=headers)
        assert stored.status_code == 201
    assert len(log.records(topic)) == 2


@pytest.mark.usefixtures("once")
async def test_of_many_at_once_under_one_id_in_two_processes_one_is_stored(
    api: httpx.AsyncClient, settings: Settings, postgres_url: str, log: MemoryLog
) -> None:
    other = create_app(settings, database_url=postgres_url, log=given(log))
    async with serving(other) as elsewhere:
        answers = await asyncio.gather(
            *(published((api, elsewhere)[n % 2], b"%d" % n, "a") for n in range(20))
        )
    assert {each.status_code for each in answers} == {201}
    assert [each.headers.get("Angelia-Duplicate") for each in answers].count(None) == 1
    assert len(log.records(TOPIC)) == 1


@pytest.mark.usefixtures("once")
async def test_stores_again_what_may_not_have_been_stored(
    api: httpx.AsyncClient, log: MemoryLog
) -> None:
    statuses = [(await published(api, b'"lost"', "a")).status_code for _ in range(3)]
    assert statuses == [503, 201, 201]
    assert bodies(log) == [b'"lost"', b'"lost"']


@pytest.mark.usefixtures("once")
async def test_an_id_that_waits_for_one_that_fails_is_stored(
    api: httpx.AsyncClient, log: MemoryLog
) -> None:
    answers = await asyncio.gather(*(published(api, b'"lost"', "a") for _ in range(5)))
    assert sorted(each.status_code for each in answers) == [201] * 4 + [503]
    assert len([each for each in answers if "Angelia-Duplicate" in each.headers]) == 3
    assert bodies(log) == [b'"lost"', b'"lost"']


@pytest.mark.usefixtures("once")
async def test_a_process_that_dies_before_its_record_leaves_no_id_behind(
    api: httpx.AsyncClient, database: Database, log: MemoryLog
) -> None:
    claimed = asyncio.Event()

    async def dies() -> None:
        async with claimed_ids(database, TOPIC, {"a": None}, ttl=HOUR):
            claimed.set()
            await asyncio.Event().wait()

    dying = asyncio.ensure_future(dies())
    await claimed.wait()
    waiting = asyncio.ensure_future(published(api, b"1", "a"))
    dying.cancel()
    answer = await waiting
    assert (answer.status_code, answer.headers.get("Angelia-Duplicate")) == (201, None)
    assert bodies(log) == [b"1"]


@pytest.mark.usefixtures("once")
async def test_a_batch_stores_each_id_once_and_says_which_it_knew(
    api: httpx.AsyncClient, log: MemoryLog
) -> None:
    await published(api, b"0", "a")
    ids = ["a", "b", "b", None, None, "c"]
    body = [{"id": own_id, "message": n} for n, own_id in enumerate(ids)]
    answer = await api.post(ENVELOPES, json=body)
    assert answer.status_code == 201
    assert [each.get("duplicate", False) for each in answer.json()] == [
        *(True, False, True),
        *(False, False, False),
    ]
    assert bodies(log) == [b"0", b"1", b"3", b"4", b"5"]


@pytest.mark.usefixtures("once")
async def test_what_a_batch_could_not_store_can_be_published_again(
    api: httpx.AsyncClient, log: MemoryLog
) -> None:
    body = [
        {"id": "a", "key": "k", "message": "lost"},
        {"id": "a", "key": "k", "message": "lost"},
        {"id": "b", "key": "other", "message": 1},
    ]
    first = await api.post(ENVELOPES, json=body)
    second = await api.post(ENVELOPES, json=body)
    assert [each["status"] for each in first.json()] == [503, 503, 201]
    assert [each["status"] for each in second.json()] == [201, 201, 201]
    assert [each.get("duplicate") for each in second.json()] == [None, True, True]
    assert bodies(log) == [b'"lost"', b'"lost"', b"1"]


@pytest.mark.usefixtures("once")
async def test_an_id_is_forgotten_after_its_time(
    api: httpx.AsyncClient, database: Database, log: MemoryLog
) -> None:
    await published(api, b"1", "a")
    async with database.transaction() as session:
        await session.execute(
            text("UPDATE published_ids SET recorded_at = recorded_at - interval '61 seconds'")
        )
    answers = [await published(api, b"2", "a") for _ in range(2)]
    assert [each.headers.get("Angelia-Duplicate") for each in answers] == [None, "true"]
    assert bodies(log) == [b"1", b"2"]


async def test_a_topic_made_again_knows_no_ids_of_before(api: httpx.AsyncClient, once: str) -> None:
    await published(api, b"1", "a")
    (await api.delete(once)).raise_for_status()
    (await api.post("/topics", json={"name": TOPIC, "deduplication": {}})).raise_for_status()
    assert "Angelia-Duplicate" not in (await published(api, b"1", "a")).headers


async def test_drops_ids_that_are_old_or_too_many(database: Database) -> None:
    async def look_up(name: str) -> Topic:
        return Topic(name=name, deduplication=Deduplication(ttl=HOUR, entries_max=3))

    async with database.transaction() as session:
        await add_topic(session, TOPIC)
    directory = TopicDirectory(look_up)
    await directory.get(TOPIC)
    for own_id in "abcdef":
        async with claimed_ids(database, TOPIC, {own_id: None}, ttl=HOUR):
            pass
    async with database.transaction() as session:
        await session.execute(
            text(
                "UPDATE published_ids SET recorded_at = recorded_at - interval '2 hours'"
                " WHERE message_id IN ('e', 'f')"
            )
        )
    await IdForgetter(database, directory).forget()
    async with database.transaction() as session:
        kept = await session.scalars(text("SELECT message_id FROM published_ids ORDER BY 1"))
        assert list(kept) == ["b", "c", "d"]


@for_each(
    ("rule", "path"),
    [
        ({"ttl": 0}, "deduplication.ttl"),
        ({"ttl": 604_801}, "deduplication.ttl"),
        ({"maxEntries": 0}, "deduplication.maxEntries"),
        ({"maxEntries": 1_000_001}, "deduplication.maxEntries"),
        ({"expression": "body."}, "deduplication.expression"),
        ({"expression": ""}, "deduplication.expression"),
        ({"expression": "status == 1"}, "deduplication.expression"),
        ({"expression": "body.map(b, b)"}, "deduplication.expression"),
    ],
)
async def test_a_rule_that_cannot_be_is_refused(
    api: httpx.AsyncClient, rule: dict[str, object], path: str
) -> None:
    refused = await api.post("/topics", json={"name": TOPIC, "deduplication": rule})
    assert (refused.status_code, refused.json()["details"][0]["path"]) == (400, path)


async def test_a_rule_is_kept_shown_and_taken_back(api: httpx.AsyncClient, once: str) -> None:
    assert (await api.get(once)).json()["deduplication"] == RULE
    (await api.put(once, json={"deduplication": {"ttl": 5}})).raise_for_status()
    assert (await api.get(once)).json()["deduplication"] == {**RULE, "ttl": 5}
    (await api.put(once, json={"deduplication": None})).raise_for_status()
    assert "deduplication" not in (await api.get(once)).json()
