"""Completeness ledgers by REST: asked for, shown, checked. Spark makes them: see tests/spark."""

from collections.abc import Sequence
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.commit import Progress
from app.domain.errors import LogUnavailableError
from app.domain.insight.ledger_anchors import LedgerAnchor
from app.domain.insight.ledger_chain import NOTHING, hash_of
from app.domain.job import JobKind, JobResult
from app.domain.message import NewRecord
from app.domain.streams import LEDGERS
from app.ledger_keys import public_verifiers
from app.log.interface import Committed, MessageLog, Position
from app.services.insight.ledger_anchors import append_anchors
from app.services.insight.ledger_schedule import ENTRIES_MAX, LedgerSchedule, batches, due
from app.services.insight.ledgers import LedgerService
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database, open_database
from app.storage.insight.jobs import JobRepository
from app.storage.insight.ledgers import Kept, LedgerRepository
from app.storage.insight.spark_runners import SparkRunnerRepository
from app.storage.tables import LedgerEntryRow
from spark.store import DatabaseJobs
from tests.cases import for_each
from tests.fakes.memory_log import MemoryLog

TOPIC = "shop.orders"
PATH = f"/topics/{TOPIC}/subscriptions/billing"
LEDGER = f"{PATH}/ledger"
LEASE = timedelta(minutes=5)
EVER = "2020-01-01T00:00:00Z"


async def subscribed(http: httpx.AsyncClient, name: str = "billing") -> None:
    body = {"name": name, "endpoint": "http://localhost:9/x", "supportTeam": "tests"}
    answer = await http.post(f"/topics/{TOPIC}/subscriptions", json=body)
    assert answer.status_code == 201, answer.text


@pytest.fixture
async def shop(api: httpx.AsyncClient, topic: str) -> httpx.AsyncClient:
    assert topic == TOPIC
    await subscribed(api)
    return api


async def made(database: Database, *, runner: str = "r-1") -> None:
    """A runner that counts nothing makes what is asked for."""
    async with database.transaction() as session:
        job = await JobRepository(session).take(runner, LEASE)
        assert job is not None
        assert await JobRepository(session).finish(job.claim, JobResult())
        assert await LedgerRepository(session).write(job.claim)


async def entries(http: httpx.AsyncClient, **query: str) -> Sequence[dict[str, Any]]:
    answer = (await http.get(LEDGER, params={"from": EVER, **query})).raise_for_status()
    found: Sequence[dict[str, Any]] = answer.json()["entries"]
    return found


async def test_an_entry_is_asked_for_once_until_it_is_made(
    shop: httpx.AsyncClient, database: Database
) -> None:
    asked = await shop.post(LEDGER)
    assert asked.status_code == 202
    job = asked.json()
    assert (job["kind"], job["state"]) == ("LEDGER", "REQUESTED")
    assert "waitingFor" in job
    assert asked.headers["Location"] == f"/jobs/{job['id']}"
    assert (await shop.post(LEDGER)).json()["id"] == job["id"]
    [event] = [each for each in (await shop.get("/audit")).json() if each["kind"] == "ledger"]
    assert (event["action"], event["name"]) == ("REQUESTED", f"{TOPIC}/billing")
    await made(database)
    later = (await shop.post(LEDGER)).json()
    assert later["id"] != job["id"]


async def test_entries_follow_each_other_and_are_shown_by_their_end(
    shop: httpx.AsyncClient, database: Database
) -> None:
    empty = (await shop.get(LEDGER)).json()
    assert (empty["entries"], empty["proved"]) == ([], False)
    for _ in range(3):
        await shop.post(LEDGER)
        await made(database)
    first, second, third = await entries(shop)
    assert [each["number"] for each in (first, second, third)] == [1, 2, 3]
    assert first["previous"] == NOTHING
    assert (second["previous"], third["from"]) == (first["hash"], second["to"])
    assert first["proved"]
    assert first["doubts"] == first["reasons"] == []
    assert first["sums"]["published"] == first["sums"]["missing"] == 0
    assert first["partitions"][0]["partition"] == 0
    assert await entries(shop, to=second["to"]) == [first, second]
    assert await entries(shop, **{"from": second["to"]}) == [third]
    assert await entries(shop, limit="1") == [third]


async def test_what_is_proved_is_what_entries_cover(
    shop: httpx.AsyncClient, database: Database
) -> None:
    for _ in range(3):
        await shop.post(LEDGER)
        await made(database)
    first, second, third = await entries(shop)

    async def asked(**query: str) -> dict[str, Any]:
        found: dict[str, Any] = (await shop.get(LEDGER, params=query)).raise_for_status().json()
        return found

    # Nothing was to be said of the time before it was created.
    whole = await asked(**{"from": EVER})
    assert (whole["proved"], whole["doubts"], whole["entryCount"]) == (True, [], 3)
    assert (whole["coveredFrom"], whole["coveredTo"]) == (first["from"], third["to"])
    assert whole["to"] == third["to"]
    # What came since the newest entry, nobody knows.
    later = (datetime.fromisoformat(third["to"]) + timedelta(days=3)).isoformat()
    for query in ({"from": EVER, "to": later}, {"from": third["to"], "to": later}):
        found = await asked(**query)
        assert (found["proved"], found["doubts"]) == (False, ["NOT_COVERED"])
        assert found["to"] == later
    # Up to within an entry: it is of the whole of that.
    part = await asked(**{"from": second["from"], "to": second["to"]})
    assert (part["proved"], part["coveredTo"], part["entryCount"]) == (True, second["to"], 1)
    # One in the middle is not there any more.
    async with database.transaction() as session:
        await session.execute(delete(LedgerEntryRow).where(LedgerEntryRow.number == 2))
    assert (await asked(**{"from": EVER}))["doubts"] == ["NOT_COVERED"]


async def test_sums_are_of_all_entries_however_many_are_shown(
    shop: httpx.AsyncClient, database: Database, log: MemoryLog
) -> None:
    for count in (1, 2, 3):
        await log.append(TOPIC, [NewRecord(value=b"x") for _ in range(count)])
        await shop.post(LEDGER)
        await made(database)
    found = (await shop.get(LEDGER, params={"from": EVER, "limit": "1"})).json()
    assert [each["number"] for each in found["entries"]] == [3]
    assert (found["entryCount"], found["sums"]["published"]) == (3, 6)
    # Its runner counts nothing, and takes it all for gone.
    assert (found["proved"], found["doubts"]) == (False, ["GONE"])


async def test_an_entry_says_where_the_messages_are_that_it_misses(
    shop: httpx.AsyncClient, database: Database, log: MemoryLog
) -> None:
    [at, *_] = await log.append(TOPIC, [NewRecord(value=b"x", key=b"k") for _ in range(4)])
    async with database.transaction() as session:
        known = await SubscriptionRepository(session).get(TOPIC, "billing")
    progress = Progress(subscription_id=known.id, offset=3, delivered=1)
    committed = {at.partition: Committed(progress.offset, progress.metadata())}
    await log.commit({known.group: committed})
    await shop.post(LEDGER)
    await made(database)
    [entry] = await entries(shop)
    assert (entry["sums"]["published"], entry["sums"]["missing"]) == (4, 2)
    partition = at.partition.index
    assert entry["missingAmong"] == [{"partition": partition, "offset": 0, "toOffset": 3}]
    assert not entry["missingAmongMore"]
    # As it is, it says to a retransmission what to send.
    asked = {"only": "all", "offsets": entry["missingAmong"], "dryRun": True}
    answer = await shop.post(f"{PATH}/retransmission", json=asked)
    assert answer.status_code == 202, answer.text
    spans = [each for each in answer.json() if each["offset"] < each["toOffset"]]
    assert [(each["partition"], each["offset"], each["toOffset"]) for each in spans] == [
        (partition, 0, 3)
    ]


async def test_the_first_entry_that_was_changed_is_named(
    shop: httpx.AsyncClient, database: Database
) -> None:
    for _ in range(3):
        await shop.post(LEDGER)
        await made(database)
    last = (await entries(shop))[-1]
    intact = (await shop.get(f"{LEDGER}/check")).json()
    signed = {"signed": True, "signedFrom": 1}
    assert intact == {"intact": True, "entries": 3, "hash": last["hash"], **signed}
    kept = {"number": "3", "hash": last["hash"].upper()}
    assert (await shop.get(f"{LEDGER}/check", params=kept)).json() == intact
    async with database.transaction() as session:
        row = LedgerEntryRow
        changed = row.content.op("||")(" ")
        await session.execute(update(row).where(row.number == 2).values(content=changed))
    broken = (await shop.get(f"{LEDGER}/check")).json()
    assert (broken["intact"], broken["broken"], broken["entries"]) == (False, 2, 1)
    assert "hash" in broken["reason"]


async def test_entries_are_signed_by_a_runner_that_has_the_key(
    shop: httpx.AsyncClient, database: Database, postgres_url: str
) -> None:
    async with open_database(postgres_url) as without_key:
        await shop.post(LEDGER)
        await made(without_key)
    for _ in range(2):
        await shop.post(LEDGER)
        await made(database)
    found = await entries(shop)
    [key] = (await shop.get("/ledgers/keys")).json()
    assert [each.get("keyId") for each in found] == [None, key["keyId"], key["keyId"]]
    check = (await shop.get(f"{LEDGER}/check")).json()
    said = (check["intact"], check["entries"], check["signed"], check["signedFrom"])
    assert said == (True, 3, False, 2)
    # Its hash is right for the new text, as whoever can write into the database can make it.
    async with database.transaction() as session:
        row = await session.get_one(LedgerEntryRow, (await owner(session), 3))
        row.content = row.content.replace('"missing":0', '"missing":9')
        row.hash = hash_of(row.previous, row.content)
    broken = (await shop.get(f"{LEDGER}/check")).json()
    assert (broken["intact"], broken["broken"]) == (False, 3)
    assert "signature" in broken["reason"]


async def test_a_signed_ledger_is_not_gone_on_with_without_a_key(
    shop: httpx.AsyncClient, database: Database, postgres_url: str
) -> None:
    await shop.post(LEDGER)
    await made(database)
    asked = (await shop.post(LEDGER)).json()
    async with database.transaction() as session:
        job = await JobRepository(session).take("r-1", LEASE)
    assert job is not None
    async with open_database(postgres_url) as without_key:
        # Only what it hears of its jobs is the notices': this one hears nothing.
        store = DatabaseJobs(without_key, notices=None, runner="r-1")  # type: ignore[arg-type]  # not used
        assert await store.finish(job.claim, JobResult())
    ended = (await shop.get(f"/jobs/{asked['id']}")).json()
    assert ended["state"] == "FAILED"
    assert "ANGELIA_SECRET_KEY" in ended["reason"]
    assert len(await entries(shop)) == 1


async def owner(session: AsyncSession) -> str:
    return (await SubscriptionRepository(session).get(TOPIC, "billing")).id


async def check_of(shop: httpx.AsyncClient) -> dict[str, Any]:
    found: dict[str, Any] = (await shop.get(f"{LEDGER}/check")).raise_for_status().json()
    return found


async def test_an_unsigned_ledger_is_broken_where_the_service_has_its_key(
    shop: httpx.AsyncClient, database: Database, postgres_url: str
) -> None:
    async with open_database(postgres_url) as without_key:
        for _ in range(2):
            await shop.post(LEDGER)
            await made(without_key)
        service = LedgerService(without_key, MemoryLog())
        assert (await service.check(TOPIC, "billing")).broken is None
    broken = await check_of(shop)
    assert (broken["intact"], broken["broken"], broken["signed"]) == (False, 1, False)
    assert "signed" in broken["reason"]
    # The next entry is signed, and vouches for those before.
    await shop.post(LEDGER)
    await made(database)
    check = await check_of(shop)
    assert (check["intact"], check["signed"], check["signedFrom"]) == (True, False, 3)


async def anchored_by_a_runner(database: Database, log: MessageLog) -> None:
    """A runner that counts nothing makes what is asked for, and anchors it."""
    async with database.transaction() as session:
        job = await JobRepository(session).take("r-1", LEASE)
    assert job is not None
    store = DatabaseJobs(database, notices=None, runner="r-1", open_a_log=lambda: nullcontext(log))  # type: ignore[arg-type]  # not used
    assert await store.finish(job.claim, JobResult())


async def test_entries_that_were_removed_are_found_by_their_anchors_in_the_log(
    shop: httpx.AsyncClient, database: Database, log: MemoryLog
) -> None:
    assert "anchored" not in await check_of(shop)
    for _ in range(3):
        await shop.post(LEDGER)
        await anchored_by_a_runner(database, log)
    check = await check_of(shop)
    assert (check["intact"], check["entries"], check["anchored"]) == (True, 3, 3)
    async with database.transaction() as session:
        await session.execute(delete(LedgerEntryRow).where(LedgerEntryRow.number > 1))
    broken = await check_of(shop)
    assert (broken["intact"], broken["broken"], broken["anchored"]) == (False, 2, 1)
    assert "anchored" in broken["reason"]
    async with database.transaction() as session:
        await session.execute(delete(LedgerEntryRow))
    assert (await check_of(shop))["broken"] == 1


async def test_anchors_of_others_and_foreign_records_do_not_count(
    shop: httpx.AsyncClient, database: Database, log: MemoryLog
) -> None:
    await shop.post(LEDGER)
    await anchored_by_a_runner(database, log)
    async with database.transaction() as session:
        known = await owner(session)
    await log.append(LEDGERS, [NewRecord(value=b"x"), NewRecord(value=b"")])
    for forged in (LedgerAnchor(known, 7, "0" * 64), LedgerAnchor("another", 7, "0" * 64)):
        await append_anchors(log, [forged])
    check = await check_of(shop)
    assert (check["intact"], check["anchored"]) == (True, 1)


class LogThatIsDown(MemoryLog):
    """Takes no anchor."""

    async def append(self, *_: object, **__: object) -> Sequence[Position]:
        raise LogUnavailableError("it is down")


async def test_an_entry_is_made_while_the_log_is_down_and_the_next_anchor_covers_it(
    shop: httpx.AsyncClient, database: Database, log: MemoryLog
) -> None:
    await shop.post(LEDGER)
    await anchored_by_a_runner(database, LogThatIsDown())
    check = await check_of(shop)
    assert (check["intact"], check["entries"], check.get("anchored")) == (True, 1, None)
    await shop.post(LEDGER)
    await anchored_by_a_runner(database, log)
    assert (await check_of(shop))["anchored"] == 2


async def test_an_exported_ledger_is_verified_with_the_public_key(
    shop: httpx.AsyncClient, database: Database
) -> None:
    for _ in range(3):
        await shop.post(LEDGER)
        await made(database)
    first = await shop.get(f"{LEDGER}/export", params={"limit": "2"})
    rest = await shop.get(first.links["next"]["url"])
    exported = [*first.json(), *rest.json()]
    assert "next" not in rest.links
    assert [each["number"] for each in exported] == [1, 2, 3]
    [key] = (await shop.get("/ledgers/keys")).json()
    verify = public_verifiers(key["publicKey"].encode())[key["keyId"]]
    for each in exported:
        assert each["hash"] == hash_of(each["previous"], each["content"])
        assert each["keyId"] == key["keyId"]
        assert verify(each["hash"], each["signature"])


async def test_an_entry_that_is_gone_is_missed_by_who_has_kept_its_hash(
    shop: httpx.AsyncClient,
) -> None:
    kept = {"number": "7", "hash": "0" * 64}
    broken = (await shop.get(f"{LEDGER}/check", params=kept)).json()
    assert (broken["intact"], broken["broken"]) == (False, 7)


@for_each(
    ("method", "path", "query", "status", "said"),
    [
        ("GET", f"{LEDGER}/check", {"number": "1"}, 400, "hash"),
        ("GET", f"{LEDGER}/export", {"limit": "0"}, 400, "limit"),
        ("GET", f"{LEDGER}/export", {"after": "-1"}, 400, "after"),
        ("GET", LEDGER.replace("billing", "none") + "/export", {}, 400, "none"),
        ("GET", f"{LEDGER}/check", {"hash": "00"}, 400, "number"),
        ("GET", f"{LEDGER}/check", {"number": "0", "hash": "00"}, 400, "number"),
        ("GET", LEDGER, {"from": "yesterday"}, 400, "from"),
        ("GET", LEDGER, {"to": "x"}, 400, "to"),
        ("GET", LEDGER, {"limit": "0"}, 400, "limit"),
        ("GET", LEDGER, {"from": EVER, "to": EVER}, 400, "from"),
        ("GET", LEDGER.replace("billing", "none"), {}, 400, "none"),
        ("POST", LEDGER.replace("billing", "none"), {}, 400, "none"),
        ("GET", LEDGER.replace("orders", "none") + "/check", {}, 404, "none"),
    ],
)
async def test_what_cannot_be_is_refused(
    shop: httpx.AsyncClient, method: str, path: str, query: dict[str, str], status: int, said: str
) -> None:  # fmt: skip
    answer = await shop.request(method, path, params=query)
    assert answer.status_code == status, answer.text
    assert said in answer.text


async def test_entries_are_asked_for_when_they_are_due_and_a_runner_is_there(
    shop: httpx.AsyncClient, database: Database, log: MemoryLog
) -> None:
    await subscribed(shop, "audit")
    service = LedgerService(database, log)
    schedule, other = (LedgerSchedule(database, service) for _ in range(2))
    tomorrow = datetime.now(UTC) + timedelta(days=1)

    async def asked() -> list[str | None]:
        async with database.transaction() as session:
            jobs = await JobRepository(session).newest(limit=100)
        return [each.scope.topic for each in jobs if each.kind is JobKind.LEDGERS]

    await schedule.look(tomorrow)
    assert await asked() == []
    async with database.transaction() as session:
        await SparkRunnerRepository(session).beat("r-1")
    await schedule.look(datetime.now(UTC))
    # The lease is another's.
    await other.look(tomorrow)
    assert await asked() == []
    for _ in range(2):
        await schedule.look(tomorrow)
        # One job reads the topic for both.
        assert await asked() == [TOPIC]
    await made(database)
    async with database.transaction() as session:
        assert len((await session.scalars(select(LedgerEntryRow))).all()) == 2
    await schedule.look(datetime.now(UTC))
    assert await asked() == [TOPIC]


def test_the_most_overdue_come_first() -> None:
    now, kept = datetime(2026, 1, 30, 12, tzinfo=UTC), timedelta(days=2)
    standings = [
        Kept("t", "fresh", now - timedelta(hours=1), kept),
        Kept("t", "late", now - timedelta(days=1), kept),
        Kept("t", "later", now - timedelta(days=3), kept),
        Kept("t", "short", now - timedelta(hours=1), timedelta(hours=1)),
    ]
    assert [each.subscription_id for each in due(standings, now)] == ["later", "late", "short"]


def late(topic: str, *owners: str) -> list[Kept]:
    return [Kept(topic, owner, datetime(2026, 1, 30, tzinfo=UTC), timedelta()) for owner in owners]


def test_all_entries_of_a_topic_and_many_topics_are_made_by_one_job_up_to_a_size() -> None:
    few = [*late("t.a", "a1"), *late("t.b", "b1", "b2"), *late("t.a", "a2")]
    assert batches(few, {}) == [["a1", "a2", "b1", "b2"]]
    many = [str(number) for number in range(ENTRIES_MAX + 1)]
    found = batches([*late("t.a", "a1"), *late("t.many", *many), *late("t.b", "b1")], {})
    assert found == [["a1"], many, ["b1"]]


def test_entries_whose_job_failed_are_made_last_in_halves_until_the_one_that_fails_is_alone() -> (
    None
):
    entries = [*late("t.a", "1", "2", "3"), *late("t.b", "4")]
    failed = dict.fromkeys(("1", "2", "3"), "j")
    assert batches(entries, failed) == [["4"], ["1", "2"], ["3"]]
    assert batches(entries, {"3": "j"}) == [["1", "2", "4"], ["3"]]


async def test_a_failed_job_is_known_until_its_subscription_has_another(
    shop: httpx.AsyncClient, database: Database, log: MemoryLog
) -> None:
    async def failed() -> list[str]:
        async with database.transaction() as session:
            return list((await LedgerRepository(session).failed()).values())

    await shop.post(LEDGER)
    async with database.transaction() as session:
        jobs = JobRepository(session)
        job = await jobs.take("r-1", LEASE)
        assert job is not None
        assert await jobs.fail(job.claim, "the log has no such topic")
    assert await failed() == [job.id]
    async with database.transaction() as session:
        [kept] = await LedgerRepository(session).extents()
    assert await LedgerService(database, log).request_all([kept.subscription_id])
    assert await failed() == []
    # It is being made.
    assert await LedgerService(database, log).request_all([kept.subscription_id]) is None
