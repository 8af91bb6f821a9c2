"""Retransmission as users have it: real processes, a real Spark, on both logs."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import psycopg
import pytest
from pydantic import SecretStr
from pyspark.sql import SparkSession

from app.config import Settings
from app.domain.message import Partition
from app.log.interface import Committed
from app.storage.database import open_database
from app.storage.keyring import open_vault
from app.storage.notices import JOBS, listen
from app.tracing.packs import packed, read_pack
from spark.engine import SparkEngine
from spark.runner import Runner, RunnerPace
from spark.store import DatabaseJobs
from tests.contract.harness import Harness, KafkaHarness, PostgresHarness
from tests.e2e.chosen import ends_of
from tests.e2e.service import Service, created, eventually
from tests.fakes.subscriber import Received, Reply, Subscriber
from tests.servers.service import ONE_LOG

pytestmark = pytest.mark.timeout(600)

TOPIC = "shop.orders"
MESSAGES = 20_000
PER_CALL = 1_000
# Of a hundred messages, so many are refused for good.
REFUSED = 7
MARK = "hermes-retransmission"
# Spark may start with the job, on a machine that may be busy.
JOB_S = 300.0


def number_of(body: bytes) -> int:
    number: int = orjson.loads(body)["n"]
    return number


def is_refused(number: int) -> bool:
    return number % 100 < REFUSED


def picky(received: Received) -> Reply:
    return Reply(status=400 if is_refused(number_of(received.body)) else 200)


async def published(service: Service, messages: int = MESSAGES) -> None:
    for first in range(0, messages, PER_CALL):
        await published_at_once(service, range(first, first + PER_CALL))


async def published_at_once(service: Service, numbers: Collection[int]) -> None:
    lines = b"\n".join(b'{"n":%d}' % n for n in numbers)
    headers = {"Content-Type": "application/x-ndjson"}
    created(await service.http.post(f"/topics/{TOPIC}/batch", content=lines, headers=headers))


async def subscribed(service: Service, name: str, endpoint: str) -> str:
    body = {
        "name": name,
        "endpoint": endpoint,
        "owner": {"source": "Plaintext", "id": "tests"},
        "trackingMode": "trackingAll",
        "subscriptionPolicy": {"rate": 100_000, "requestTimeout": 20_000, "adaptiveRate": False},
    }
    created(await service.http.post(f"/topics/{TOPIC}/subscriptions", json=body))
    return f"/topics/{TOPIC}/subscriptions/{name}"


async def retransmitted(service: Service, path: str, **body: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """Ask for one, and wait for its end."""
    answer = await service.http.post(f"{path}/retransmission", json={"from": "-6h", **body})
    assert answer.status_code == 202, answer.text
    assert {each["partition"] for each in answer.json()} == set(range(4))
    return await ended(service, answer.headers["Location"])


async def ended(service: Service, where: str) -> dict[str, Any]:
    seen: dict[str, Any] = {}

    async def has_ended() -> bool:
        seen.update((await service.http.get(where)).raise_for_status().json())
        return seen["state"] in {"DONE", "FAILED", "CANCELLED"}

    try:
        await eventually(has_ended, within_s=JOB_S)
    except TimeoutError:
        job = await service.http.get(f"/jobs/{seen['id']}")
        raise AssertionError(f"{seen} {job.text}") from None
    assert seen["state"] == "DONE", seen
    return seen


def came_again(subscriber: Subscriber, id_: str) -> Counter[int]:
    """The messages of that retransmission, and how often each came."""
    again = [each for each in subscriber.received if each.headers.get(MARK) == id_]
    return Counter(number_of(each.body) for each in again)


def once(numbers: Collection[int]) -> Counter[int]:
    return Counter(numbers)


@asynccontextmanager
async def a_runner(
    spark: SparkSession, configuration: Mapping[str, str], place: Path
) -> AsyncIterator[None]:
    """A runner in this process, on the session of all tests."""
    url = configuration["ANGELIA_DATABASE_URL"]
    settings = Settings(
        spark_output=str(place),
        kafka_bootstrap=configuration.get("ANGELIA_KAFKA_BOOTSTRAP"),
        namespace=configuration.get("ANGELIA_NAMESPACE", ""),
        # Entries that it signs are intact for the service, which has the same key.
        secret_key=SecretStr(configuration["ANGELIA_SECRET_KEY"]),
    )
    engine = SparkEngine(settings, database_url=url, start=lambda _: spark)
    stopping, pace = asyncio.Event(), RunnerPace(report_every=timedelta(milliseconds=200))
    async with (
        open_database(url, vault=open_vault(settings)) as database,
        listen(url, [JOBS]) as notices,
        asyncio.TaskGroup() as tasks,
    ):
        runner = Runner(DatabaseJobs(database, notices, "r-1"), engine, pace=pace)
        tasks.create_task(runner.run(stopping))
        try:
            yield
        finally:
            stopping.set()


@ONE_LOG
async def test_what_was_refused_is_sent_again_and_nothing_else(
    spark: SparkSession, configuration: Mapping[str, str], logs: Path, tmp_path: Path
) -> None:
    refused = {number for number in range(PER_CALL) if is_refused(number)}
    async with (
        Service(configuration, logs) as service,
        Subscriber(picky) as billing,
        a_runner(spark, configuration, tmp_path),
    ):
        await service.api()
        await service.worker()
        await service.topic(TOPIC, partitions=4)
        to_billing = await subscribed(service, "billing", billing.url)
        await published(service, PER_CALL)
        await service.accounted(to_billing, PER_CALL)
        billing.reply = Reply()
        before = len(billing.received)
        sent = await retransmitted(service, to_billing, only="undelivered")
        assert came_again(billing, sent["id"]) == once(refused)
        assert len(billing.received) - before == len(refused)
        assert sent["counts"]["delivered"] == sent["counts"]["written"] == len(refused)


@pytest.mark.long
@ONE_LOG
async def test_exactly_what_is_wanted_is_sent_again(
    spark: SparkSession, configuration: Mapping[str, str], logs: Path, tmp_path: Path
) -> None:
    async with (
        Service(configuration, logs) as service,
        Subscriber(picky) as billing,
        Subscriber() as audit,
    ):
        await service.api()
        doomed = await service.worker()
        await service.topic(TOPIC, partitions=4)
        to_billing = await subscribed(service, "billing", billing.url)
        to_audit = await subscribed(service, "audit", audit.url)
        await service.set_state(to_audit, "SUSPENDED")
        await published(service)
        await billing.wait_until(lambda: len(billing.received) > MESSAGES // 3, 60)
        await doomed.kill()
        # Each is about that very moment, however much later a runner comes.
        first = [await asked_for_entry(service, path) for path in (to_billing, to_audit)]
        await service.worker()
        await service.set_state(to_audit, "ACTIVE")
        refused = {number for number in range(MESSAGES) if is_refused(number)}
        metrics = await service.accounted(to_billing, MESSAGES)
        assert (metrics["delivered"], metrics["discarded"]) == (
            MESSAGES - len(refused), len(refused),
        )  # fmt: skip
        await service.accounted(to_audit, MESSAGES)
        async with a_runner(spark, configuration, tmp_path):
            for path in (to_billing, to_audit):
                nothing = await retransmitted(service, path, only="missing", dryRun=True)
                assert nothing["counts"]["matched"] == 0, nothing["messages"]
            looked_at = await retransmitted(service, to_billing, only="undelivered", dryRun=True)
            assert looked_at["counts"]["matched"] == len(refused)
            assert len(looked_at["messages"]) == 20
            await each_is_accounted_for(service, to_billing, billing, refused=refused, job=first[0])
            await each_is_accounted_for(service, to_audit, audit, refused=(), job=first[1])
            billing.reply = Reply()
            before = len(billing.received)
            sent = await retransmitted(service, to_billing, only="undelivered", share=1)
            assert came_again(billing, sent["id"]) == once(refused)
            assert len(billing.received) - before == len(refused)
            assert sent["counts"]["delivered"] == sent["counts"]["written"] == len(refused)
            # They are undelivered no more, so a second one has nothing to do.
            [again] = await new_entries(service, to_billing)
            assert (again["proved"], again["sums"]["missing"]) == (True, 0)
            assert again["sums"]["resent"] == again["sums"]["delivered"] == len(refused)
            [others] = await new_entries(service, to_audit)
            assert others["proved"]
            assert set(others["sums"].values()) == {0}
            none = await retransmitted(service, to_billing, only="undelivered")
            assert none["counts"]["matched"] == 0

            removed = range(4_000, 4_010)
            await lose_traces(configuration, {each.message_id for each in audit.received
                                              if number_of(each.body) in removed})  # fmt: skip
            never_read = await passed_over(service, configuration, to_audit)
            missed = await sent_as_missing(service, to_audit)
            assert came_again(audit, missed) == once([*removed, *never_read])

            await in_archive_alone(service, configuration, to_audit)
            from_archive = await sent_from_archive(service, to_audit)
            assert came_again(audit, from_archive) == once(removed)
        marks = {each.headers.get(MARK) for each in audit.received}
        assert marks == {None, missed, from_archive}


async def passed_over(
    service: Service, configuration: Mapping[str, str], path: str
) -> Collection[int]:
    """New messages that it never reads; their numbers."""
    numbers = range(MESSAGES, MESSAGES + 10)
    async with never_read(service, configuration, path):
        await published_at_once(service, numbers)
    return numbers


@asynccontextmanager
async def never_read(
    service: Service, configuration: Mapping[str, str], path: str
) -> AsyncIterator[None]:
    """Of what is published in the block it reads nothing: somebody sets its offsets behind that."""

    async def is_let_go() -> bool:
        suspended = await service.set_state(path, "SUSPENDED")
        return suspended.headers["Angelia-Applied"] == "true"

    await eventually(is_let_go)
    yield
    ends = {Partition(TOPIC, at): Committed(e) for at, e in enumerate(await ends_of(service, path))}
    async with harness_of(configuration).opened() as log:
        assert await log.commit({f"{TOPIC}_{path.rpartition('/')[2]}": ends}) == {}
    await service.set_state(path, "ACTIVE")


async def sent_as_missing(service: Service, path: str) -> str:
    """What is missing comes again, and is missing no more; the id."""
    sent = await retransmitted(service, path, only="missing")
    assert sent["counts"]["untraced"] == 0
    none = await retransmitted(service, path, only="missing", dryRun=True)
    assert none["counts"]["matched"] == 0, none["messages"]
    id_: str = sent["id"]
    return id_


async def sent_from_archive(service: Service, path: str) -> str:
    """Those of 4,000 to 4,009 once more; the id."""
    some = {"type": "jsonpath", "path": "$.n", "matcher": "400\\d"}
    sent = await retransmitted(service, path, only="all", filter=some)
    counts = sent["counts"]
    assert (counts["matched"], counts["archived"], counts["gone"]) == (10, 10, 0)
    id_: str = sent["id"]
    return id_


async def in_archive_alone(service: Service, configuration: Mapping[str, str], path: str) -> None:
    """All that is in the topic by now is archived, and the log loses it."""
    storage = {"enabled": True, "retentionTime": {"duration": 1}}
    changed = await service.http.put(f"/topics/{TOPIC}", json={"offlineStorage": storage})
    changed.raise_for_status()
    asked = await service.http.post("/jobs", json={"kind": "ARCHIVE", "topic": TOPIC})
    await ended(service, asked.raise_for_status().headers["Location"])
    ends = {Partition(TOPIC, at): end for at, end in enumerate(await ends_of(service, path))}
    harness = harness_of(configuration)
    for partition, end in ends.items():
        await harness.trim(partition, end)

    async def trimmed() -> bool:
        bounds = await log.bounds(list(ends))
        return {each: bound.start for each, bound in bounds.items()} == ends

    async with harness.opened() as log:
        await eventually(trimmed)


def harness_of(configuration: Mapping[str, str]) -> Harness:
    """The log that the service runs on."""
    bootstrap = configuration.get("ANGELIA_KAFKA_BOOTSTRAP")
    url = configuration["ANGELIA_DATABASE_URL"]
    harness = PostgresHarness(url) if bootstrap is None else KafkaHarness(bootstrap)
    harness.namespace = configuration.get("ANGELIA_NAMESPACE", "")
    return harness


async def asked_for_entry(service: Service, path: str) -> str:
    """Ask for an entry of the ledger; the job that is to make it."""
    answer = await service.http.post(f"{path}/ledger")
    assert answer.status_code == 202, answer.text
    return answer.headers["Location"]


async def new_entries(service: Service, path: str, jobs: Collection[str] = ()) -> list[Any]:
    """The entries that those jobs make, and one of what happened since."""
    for job in jobs:
        await ended(service, job)
    await ended(service, await asked_for_entry(service, path))
    found = (await service.http.get(f"{path}/ledger")).raise_for_status().json()
    entries: list[Any] = found["entries"]
    return entries[-len(jobs) - 1 :]


async def each_is_accounted_for(
    service: Service, path: str, receiver: Subscriber, *, refused: Collection[int], job: str
) -> None:
    """Have the ledger agree, to the message, with what the receiver knows itself."""
    middle, rest = await new_entries(service, path, [job])
    assert (middle["doubts"], rest["doubts"]) == ([], [])
    came = {number_of(each.body) for each in receiver.received}
    # Taken in the middle of it: some are delivered, and what is left is carried on.
    before, after = middle["sums"], rest["sums"]
    assert (before["published"], after["published"]) == (MESSAGES, 0)
    assert before["unfinished"] == after["carried"] > 0
    assert before["delivered"] + after["delivered"] == len(came - set(refused))
    assert before["discarded"] + after["discarded"] == len(came & set(refused))
    assert before["missing"] == after["missing"] == after["unfinished"] == 0
    statuses = Counter[int | None]()
    for each in middle["reasons"] + rest["reasons"]:
        statuses[each.get("status")] += each["messages"]
    assert statuses == +Counter({400: len(refused)})
    check = (await service.http.get(f"{path}/ledger/check")).raise_for_status().json()
    said = {name: check[name] for name in ("intact", "entries", "signed", "hash")}
    assert said == {"intact": True, "entries": 2, "signed": True, "hash": rest["hash"]}, check


async def lose_traces(configuration: Mapping[str, str], ids: Collection[str]) -> None:
    """All that is known of these messages is lost."""
    async with await psycopg.AsyncConnection.connect(
        configuration["ANGELIA_DATABASE_URL"]
    ) as connection:
        found = await connection.execute("SELECT ctid, tableoid, body FROM trace_packs")
        packs = await found.fetchall()
        for ctid, table, body in packs:
            pack = read_pack(body)
            assert pack is not None
            left = pack._replace(rows=[row for row in pack.rows if row[3] not in ids])
            await connection.execute(
                "UPDATE trace_packs SET body = %s WHERE ctid = %s AND tableoid = %s",
                [packed(left).value, ctid, table],
            )
