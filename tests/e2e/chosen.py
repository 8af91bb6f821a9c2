"""Retransmissions whose messages are chosen already, as a Spark job leaves them: without Spark."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import psycopg
from psycopg.types.json import Jsonb

from app.domain.job import JobKind
from app.domain.replay.retransmission import RUN_MAX, Request
from app.storage.json_values import to_json
from tests.e2e.service import Service

_SCOPE = {"from": "2026-01-01T00:00:00+00:00", "to": "2026-01-02T00:00:00+00:00"}


async def ends_of(service: Service, path: str) -> list[int]:
    """Where the partitions of a subscription's topic end."""
    wanted = {"retransmissionDate": "9999-01-01T00:00:00Z"}
    answer = await service.http.put(f"{path}/retransmission?dryRun=true", json=wanted)
    (listed,) = answer.raise_for_status().json().values()
    return [each["offset"] for each in listed]


async def chosen(url: str, path: str, ends: Sequence[int], *, share: float = 1.0) -> str:
    """All before these ends is to be sent again; where that retransmission is seen."""
    job, until = uuid4().hex, datetime.now(UTC)
    _, _, topic, _, name = path.split("/")
    request = Request(since=until - timedelta(hours=1), until=until, spans=(), share=share)
    runs = [
        (job, partition, start, partition, start, min(start + RUN_MAX, end))
        for partition, end in enumerate(ends)
        for start in range(0, end, RUN_MAX)
    ]
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await connection.execute(
            "INSERT INTO spark_jobs (id, kind, scope, state) VALUES (%s, %s, %s, 'DONE')",
            [job, JobKind.RETRANSMISSION, Jsonb(_SCOPE | {"topic": topic, "subscription": name})],
        )
        await connection.execute(
            "INSERT INTO retransmissions (id, subscription_id, topic, subscription, request, state,"
            " attempt, matched) SELECT %s, id, topic, name, %s, 'SENDING', 1, %s"
            " FROM subscriptions WHERE topic = %s AND name = %s",
            [job, Jsonb(to_json(request)), sum(ends), topic, name],
        )
        await connection.cursor().executemany(
            'INSERT INTO retransmission_runs (job_id, attempt, part, "row", partition, start,'
            ' "end", messages, size) VALUES (%s, 1, %s, %s, %s, %s, %s, 1, 0)',
            runs,
        )
        await connection.execute(
            'UPDATE retransmission_runs SET messages = "end" - start WHERE job_id = %s', [job]
        )
    return f"{path}/retransmissions/{job}"
