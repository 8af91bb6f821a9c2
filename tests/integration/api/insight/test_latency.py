"""How long messages took, as it is asked for and answered; Spark's part is in tests/spark."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import httpx

from app.domain.job import Claim, JobResult
from app.postgres.urls import libpq_url
from app.storage.database import Database
from app.storage.insight.jobs import JobRepository
from app.storage.latency_columns import LATENCY, LATENCY_FIGURES
from app.storage.spark.analysis_parts import write_part

NOON_MS = 1_769_860_800_000

# Delivered, discarded, unknown, resent, attempts, within.
Counts = tuple[int, int, int, int, int, int | None]


async def requested(api: httpx.AsyncClient, **body: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    response = await api.post("/jobs", json={"kind": "LATENCY_ANALYTICS", **body})
    assert response.status_code == httpx.codes.ACCEPTED, response.text
    job: dict[str, Any] = response.json()
    return job


def a_row(subscription: str, counts: Counts, times: int | None) -> Sequence[object]:
    """As Spark writes it; all times are so many microseconds."""
    messages = counts[0] + counts[1]
    names = ("shop.orders", f"id-{subscription}", subscription)
    return (*names, messages, *counts, *[times] * len(LATENCY_FIGURES))


async def done(database: Database, url: str, rows: Sequence[Sequence[object]]) -> Claim:
    """A runner has done the job that waits."""
    async with database.transaction() as session:
        job = await JobRepository(session).take("r-1", timedelta(minutes=1))
    assert job is not None
    await asyncio.to_thread(write_part, libpq_url(url), LATENCY, rows, claim=job.claim, part=0)
    async with database.transaction() as session:
        await JobRepository(session).finish(job.claim, JobResult(counts={"coveredFrom": NOON_MS}))
    return job.claim


async def test_the_worst_subscriptions_come_first_with_their_times(
    api: httpx.AsyncClient, database: Database, postgres_url: str
) -> None:
    asked = await requested(api, sloSeconds=2, topic="shop.orders")
    assert asked["scope"]["sloSeconds"] == 2.0
    rows = [
        a_row("good", (10, 0, 0, 0, 10, 10), 1_000),
        a_row("unknown", (1, 0, 1, 3, 1, 0), None),
        a_row("late", (8, 3, 1, 0, 20, 5), 2_500_500),
        a_row("slow", (10, 0, 0, 0, 10, 10), 2_000),
    ]
    await done(database, postgres_url, rows)
    answer = (await api.get("/analytics/latency", params={"topic": "shop.orders"})).json()
    assert (answer["jobId"], answer["scope"]["sloSeconds"]) == (asked["id"], 2.0)
    assert answer["coveredFrom"] == "2026-01-31T12:00:00+00:00"
    found = answer["subscriptions"]
    assert [each["subscription"] for each in found] == ["late", "slow", "good", "unknown"]
    assert found[0] == {
        "topic": "shop.orders", "subscription": "late", "subscriptionId": "id-late",
        "delivered": 8, "discarded": 3, "unknown": 1, "resent": 0, "attempts": 20,
        "within": 5, "attained": 0.5,
    } | dict.fromkeys(
        ("total", "queued", "waited", "connect", "subscriber"),
        dict.fromkeys(("mean", "p50", "p95", "p99", "max"), 2_500.5),
    )  # fmt: skip
    assert "attained" not in found[3]
    assert "total" not in found[3]
    one = {"topic": "shop.orders", "subscription": "good", "job": asked["id"]}
    answer = (await api.get("/analytics/latency", params=one)).json()
    assert [each["attained"] for each in answer["subscriptions"]] == [1.0]
    answer = (await api.get("/analytics/latency", params={"limit": "1", **one})).json()
    assert len(answer["subscriptions"]) == 1


async def test_without_an_slo_the_slowest_come_first_and_nobody_was_late(
    api: httpx.AsyncClient, database: Database, postgres_url: str
) -> None:
    assert "sloSeconds" not in (await requested(api))["scope"]
    rows = [
        a_row("fast", (1, 0, 0, 0, 1, None), 1),
        a_row("slow", (1, 0, 0, 0, 1, None), 2),
    ]
    await done(database, postgres_url, rows)
    found = (await api.get("/analytics/latency")).json()["subscriptions"]
    assert [each["subscription"] for each in found] == ["slow", "fast"]
    assert not {"within", "attained"} & set(found[0])


async def test_a_job_of_another_kind_has_no_such_results(
    api: httpx.AsyncClient, database: Database, postgres_url: str
) -> None:
    job = await requested(api)
    await done(database, postgres_url, [])
    assert (await api.get("/analytics/latency", params={"job": job["id"]})).is_success
    missing = await api.get("/analytics/undelivered", params={"job": job["id"]})
    assert (missing.status_code, missing.json()["code"]) == (404, "ANALYSIS_NOT_EXISTS")
    assert "LATENCY_ANALYTICS" in missing.json()["message"]
