"""The archive as users have it: real processes, a real Spark, on both logs."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from app.domain.job import JobKind
from app.services.insight.jobs import JobService
from app.storage.database import Database
from tests.contract.harness import PostgresHarness
from tests.contract.logs import eventually
from tests.e2e.service import Service, created
from tests.e2e.service import eventually as in_time
from tests.servers.service import ONE_LOG
from tests.spark.archives import SCOPE, archived, done, folders, kept_places
from tests.spark.retransmissions import a_bench, places
from tests.spark.test_retransmitting import TOPIC, a_runner
from tests.spark.test_runner_process import PATIENCE_S, runner
from tests.spark.test_undelivered_job import is_waiting_for_the_lock

pytestmark = pytest.mark.timeout(600)

MESSAGES = 2_000
STORAGE = {"enabled": True, "retentionTime": {"duration": 60}}


async def published(service: Service, first: int, end: int) -> None:
    lines = b"\n".join(b'{"n":%d}' % n for n in range(first, end))
    headers = {"Content-Type": "application/x-ndjson"}
    created(await service.http.post(f"/topics/{TOPIC}/batch", content=lines, headers=headers))


async def job_done(service: Service, topic: str | None = None) -> dict[str, Any]:
    body = {"kind": "ARCHIVE", **({} if topic is None else {"topic": topic})}
    asked_for = await service.http.post("/jobs", json=body)
    assert asked_for.status_code == 202, asked_for.text
    seen: dict[str, Any] = {}

    async def has_ended() -> bool:
        answer = await service.http.get(asked_for.headers["Location"])
        seen.update(answer.raise_for_status().json())
        return seen["state"] in {"DONE", "FAILED", "CANCELLED"}

    await in_time(has_ended)
    assert seen["state"] == "DONE", seen
    return seen


@ONE_LOG
async def test_what_is_published_is_archived_once(
    spark: SparkSession, configuration: Mapping[str, str], logs: Path, tmp_path: Path
) -> None:
    async with Service(configuration, logs) as service:
        await service.api()
        await service.topic(TOPIC, partitions=4, offlineStorage=STORAGE)
        refused = await service.http.put(
            f"/topics/{TOPIC}", json={"offlineStorage": {"retentionTime": {"duration": -1}}}
        )
        assert refused.status_code == 400
        async with a_runner(spark, configuration, tmp_path / "out"):
            await published(service, 0, MESSAGES // 2)
            first = await job_done(service, TOPIC)
            await published(service, MESSAGES // 2, MESSAGES)
            second = await job_done(service)
            nothing = await job_done(service, TOPIC)
        counts = [each["counts"]["messages"] for each in (first, second, nothing)]
        assert counts == [MESSAGES // 2, MESSAGES // 2, 0]
        found = (await service.http.get(f"/topics/{TOPIC}/archive")).raise_for_status().json()
        assert found["messages"] == MESSAGES
        assert sum(each["offset"] for each in found["partitions"]) == MESSAGES
        paths = [folder["path"] for folder in found["folders"]]
        # As anybody reads them, who knows nothing of us.
        frames = [spark.read.parquet(path) for path in paths]
        bodies = Counter(
            bytes(row[0]) for frame in frames for row in frame.select("value").collect()
        )
        assert bodies == Counter(b'{"n":%d}' % n for n in range(MESSAGES))


# test_archive_job.py has it shorter: without a runner of its own.
@pytest.mark.long
async def test_a_runner_killed_while_it_archives_leaves_nothing_that_is_read(
    spark: SparkSession, database: Database, postgres_url: str, tmp_path: Path
) -> None:
    harness = PostgresHarness(postgres_url)
    async with a_bench(spark, database, harness, url=postgres_url, output=tmp_path) as bench:
        await archived(bench)
        positions = await bench.publish(*(b"%d" % number for number in range(50)))
        await JobService(database).request(JobKind.ARCHIVE, SCOPE)
        async with await psycopg.AsyncConnection.connect(postgres_url) as blocking:
            # The files are written, and it cannot say so: there it is killed.
            await blocking.execute("LOCK TABLE archive_pieces IN SHARE MODE")
            namespace = {"ANGELIA_NAMESPACE": harness.namespace}
            async with runner(postgres_url, tmp_path, **namespace) as first:
                waiting = partial(is_waiting_for_the_lock, database, "archive_pieces")
                await eventually(waiting, seconds=PATIENCE_S)
                first.kill()
                await first.wait()
        [left] = await folders(bench, state=None)
        assert await asyncio.to_thread(lambda: list(Path(left).rglob("*.parquet")))
        assert await kept_places(bench) == Counter()
        result = await done(bench)
        assert result.counts["messages"] == 50
        assert await kept_places(bench) == Counter(places(positions))
