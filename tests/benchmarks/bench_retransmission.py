"""A retransmission of 100,000 messages beside live traffic, on both logs; cancelled half-way.

The messages are chosen already: Spark has no part in it. The publisher does not wait for answers,
and latency counts from when a message was to be published. Also written to
`build/bench/retransmission-*`.
"""

import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import psycopg
import pytest
from psycopg.types.json import Jsonb

from app.domain.job import JobKind
from app.domain.retransmission import RUN_MAX, Request
from app.storage.settings import to_json
from tests.benchmarks import pace
from tests.benchmarks.figures import Report
from tests.benchmarks.open_loop import publish_backlog, publishing
from tests.benchmarks.percentiles import percentile
from tests.benchmarks.stopwatch import Stopwatch, stopwatch
from tests.e2e.service import Service, eventually

TOPIC: Final = "bench.retransmission"
MESSAGES: Final = 100_000
LIVE: Final = 500
RATE: Final = 2_000
SHARE: Final = 0.5
CALM_S: Final = 10.0
PARTITIONS: Final = 4
JOB: Final = "d" * 32
SCOPE: Final = {
    "from": "2026-01-01T00:00:00+00:00",
    "to": "2026-01-02T00:00:00+00:00",
    "topic": TOPIC,
    "subscription": "s",
}


async def test_a_retransmission_beside_live_traffic(
    configuration: Mapping[str, str], logs: Path, request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.id
    title = f"{MESSAGES:,} messages again at {RATE * SHARE:.0f}/s, {LIVE}/s live, {name} log"
    report = Report(f"retransmission-{name}", title)
    async with Service(configuration, logs) as service, stopwatch() as receiver:
        await service.api()
        await service.worker()
        await service.topic(TOPIC, partitions=PARTITIONS)
        await publish_backlog(service, TOPIC, MESSAGES)
        path = await service.subscribe(TOPIC, "s", receiver.url, rate=RATE)
        async with publishing(service, TOPIC, rate=LIVE):
            await pace.until(time.monotonic() + 2.0)
            before = await live(receiver, CALM_S)
            await chosen(configuration["ANGELIA_DATABASE_URL"], path.rpartition("/")[2])
            await pace.until(time.monotonic() + 2.0)
            during = await live(receiver, CALM_S)
        where = f"{path}/retransmissions/{JOB}"
        await until_written(service, where, MESSAGES // 2)
        # Nothing else comes by now.
        asked = time.monotonic()
        (await service.http.delete(where)).raise_for_status()
        await pace.until(time.monotonic() + 4.0)
        stopped = {"last request s after": max(0.0, (await receiver.counts()).last_at - asked)}
        report.add("before", [before])
        report.add("during", [during])
        report.add("cancelled", [stopped])
    report.write()


async def live(receiver: Stopwatch, seconds: float) -> dict[str, float]:
    """The latencies of what is new, for so long, and how much comes at all."""
    await receiver.latencies()
    began, taken = time.monotonic(), (await receiver.counts()).taken
    await pace.until(began + seconds)
    taken = (await receiver.counts()).taken - taken
    latencies = await receiver.latencies()
    return {
        "p50 ms": percentile(latencies, 50),
        "p99 ms": percentile(latencies, 99),
        "requests/s": taken / (time.monotonic() - began),
    }


async def until_written(service: Service, where: str, count: int) -> None:
    async def written() -> bool:
        seen = (await service.http.get(where)).raise_for_status().json()
        return bool(seen["counts"]["written"] >= count)

    await eventually(written)


async def chosen(url: str, subscription: str) -> None:
    """A retransmission of all that was there first, as a Spark job leaves it."""
    until = datetime.now(UTC)
    request = Request(since=until - timedelta(hours=1), until=until, spans=(), share=SHARE)
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await connection.execute(
            "INSERT INTO spark_jobs (id, kind, scope, state) VALUES (%s, %s, %s, 'DONE')",
            [JOB, JobKind.RETRANSMISSION, Jsonb(SCOPE)],
        )
        await connection.execute(
            "INSERT INTO retransmissions (id, subscription_id, topic, subscription, request, state,"
            " attempt, matched) SELECT %s, id, topic, name, %s, 'SENDING', 1, %s"
            " FROM subscriptions WHERE name = %s",
            [JOB, Jsonb(to_json(request)), MESSAGES, subscription],
        )
        await connection.cursor().executemany(
            "INSERT INTO retransmission_runs VALUES (%s, 1, %s, %s, %s, %s, %s, %s, 0, NULL)",
            [
                (JOB, partition, number, partition, start, start + RUN_MAX, RUN_MAX)
                for partition in range(PARTITIONS)
                for number, start in enumerate(range(0, MESSAGES // PARTITIONS, RUN_MAX))
            ],
        )
