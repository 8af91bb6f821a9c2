from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from app.domain.job import JobKind, JobResult, JobScope
from app.storage.database import Database
from app.storage.insight.jobs import JobRepository
from app.storage.insight.spark_runners import SparkRunnerRepository
from tests.cases import for_each

JOB = {
    "kind": "UNDELIVERED_ANALYTICS",
    "from": "2026-01-01T00:00:00Z",
    "to": "2026-01-02T00:00:00+01:00",
    "topic": "shop.orders",
}


async def requested(api: httpx.AsyncClient, **body: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    response = await api.post("/jobs", json=JOB | body)
    assert response.status_code == httpx.codes.ACCEPTED, response.text
    job: dict[str, Any] = response.json()
    assert response.headers["Location"] == f"/jobs/{job['id']}"
    return job


async def finished(database: Database) -> None:
    async with database.transaction() as session:
        job = await JobRepository(session).take("r-1", timedelta(minutes=1))
        assert job is not None
        await JobRepository(session).finish(job.claim, JobResult(counts={"messages": 7}))


async def test_a_job_is_requested_and_found_again(api: httpx.AsyncClient) -> None:
    job = await requested(api)
    assert job["state"] == "REQUESTED"
    assert job["scope"] == {
        "from": "2026-01-01T00:00:00+00:00",
        "to": "2026-01-02T00:00:00+01:00",
        "topic": "shop.orders",
    }
    found = (await api.get(f"/jobs/{job['id']}")).json()
    assert found.pop("log") == []
    assert datetime.fromisoformat(found["scope"]["to"]) == datetime.fromisoformat(JOB["to"])
    assert (await api.get("/jobs")).json() == [found]


async def test_without_times_a_job_is_about_the_last_day(api: httpx.AsyncClient) -> None:
    response = await api.post("/jobs", json={"kind": "UNDELIVERED_ANALYTICS"})
    start, end = map(datetime.fromisoformat, response.json()["scope"].values())
    assert end - start == timedelta(days=1)


async def test_a_job_says_what_it_waits_for_while_no_runner_is_live(
    api: httpx.AsyncClient, database: Database
) -> None:
    assert "angelia spark" in (await requested(api))["waitingFor"]
    async with database.transaction() as session:
        await SparkRunnerRepository(session).beat("r-1")
    assert "waitingFor" not in await requested(api)


async def test_jobs_are_listed_by_state(api: httpx.AsyncClient, database: Database) -> None:
    first, second = await requested(api), await requested(api)
    await finished(database)
    done = (await api.get("/jobs", params={"state": "DONE"})).json()
    assert [job["id"] for job in done] == [first["id"]]
    assert done[0]["counts"] == {"messages": 7}
    assert done[0]["progress"] == 1.0
    newest = (await api.get("/jobs", params={"limit": "1"})).json()
    assert [job["id"] for job in newest] == [second["id"]]


async def test_a_waiting_job_can_be_cancelled(api: httpx.AsyncClient) -> None:
    job = await requested(api)
    for _ in range(2):
        cancelled = await api.delete(f"/jobs/{job['id']}")
        assert cancelled.status_code == httpx.codes.OK
        assert cancelled.json()["state"] == "CANCELLED"


async def test_a_running_job_says_that_it_is_being_cancelled(
    api: httpx.AsyncClient, database: Database
) -> None:
    job = await requested(api)
    async with database.transaction() as session:
        await JobRepository(session).take("r-1", timedelta(minutes=1))
    cancelled = (await api.delete(f"/jobs/{job['id']}")).json()
    assert (cancelled["state"], cancelled["cancelling"]) == ("RUNNING", True)


async def test_a_job_that_has_ended_cannot_be_cancelled(
    api: httpx.AsyncClient, database: Database
) -> None:
    job = await requested(api)
    await finished(database)
    refused = await api.delete(f"/jobs/{job['id']}")
    assert (refused.status_code, refused.json()["code"]) == (409, "JOB_ENDED")


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_a_job_that_does_not_exist_is_not_found(api: httpx.AsyncClient, method: str) -> None:
    missing = await api.request(method, "/jobs/none")
    assert (missing.status_code, missing.json()["code"]) == (404, "JOB_NOT_EXISTS")


async def test_no_more_than_a_hundred_jobs_wait(api: httpx.AsyncClient, database: Database) -> None:
    scope = JobScope(start=datetime(2026, 1, 1, tzinfo=UTC), end=datetime(2026, 1, 2, tzinfo=UTC))
    async with database.transaction() as session:
        for _ in range(100):
            await JobRepository(session).add(JobKind.UNDELIVERED_ANALYTICS, scope)
    refused = await api.post("/jobs", json=JOB)
    assert (refused.status_code, refused.json()["code"]) == (429, "JOB_QUEUE_FULL")
    assert refused.headers["Retry-After"]


@for_each(
    ("change", "path"),
    [
        ({"kind": "MINING"}, "kind"),
        ({"kind": None}, "kind"),
        ({"from": "yesterday"}, "from"),
        ({"from": "2026-01-03T00:00:00Z"}, "from"),
        ({"from": "2020-01-01T00:00:00Z"}, "from"),
        ({"to": True}, "to"),
        ({"topic": "orders"}, "topic"),
        ({"topic": None, "subscription": "billing"}, "topic"),
        ({"subscription": "a b"}, "subscription"),
        ({"sloSeconds": 1}, "sloSeconds"),
        ({"kind": "LATENCY_ANALYTICS", "sloSeconds": 0}, "sloSeconds"),
        ({"kind": "LATENCY_ANALYTICS", "sloSeconds": 604_801}, "sloSeconds"),
        ({"kind": "LATENCY_ANALYTICS", "sloSeconds": "1"}, "sloSeconds"),
        ({"kind": "ARCHIVE", "from": None, "to": None, "sloSeconds": 1}, "sloSeconds"),
    ],
)
async def test_a_job_that_cannot_be_names_the_field(
    api: httpx.AsyncClient, change: dict[str, Any], path: str
) -> None:
    body = {key: value for key, value in (JOB | change).items() if value is not None}
    refused = await api.post("/jobs", json=body)
    assert refused.status_code == httpx.codes.BAD_REQUEST
    assert [detail["path"] for detail in refused.json()["details"]] == [path]


async def test_a_state_that_does_not_exist_is_refused(api: httpx.AsyncClient) -> None:
    refused = await api.get("/jobs", params={"state": "LOST"})
    assert refused.status_code == httpx.codes.BAD_REQUEST
    assert "CANCELLED" in refused.json()["message"]


@for_each("path", ["/analytics/undelivered", "/analytics/failures", "/analytics/latency"])
async def test_an_analysis_that_was_never_made_says_how_to_ask_for_it(
    api: httpx.AsyncClient, path: str
) -> None:
    missing = await api.get(path)
    assert (missing.status_code, missing.json()["code"]) == (404, "ANALYSIS_NOT_EXISTS")
    assert "POST /jobs" in missing.json()["message"]


async def test_an_analysis_of_a_job_that_is_not_done_says_so(api: httpx.AsyncClient) -> None:
    job = await requested(api)
    missing = await api.get("/analytics/failures", params={"job": job["id"]})
    assert missing.status_code == httpx.codes.NOT_FOUND
    assert "REQUESTED" in missing.json()["message"]


async def test_an_analysis_is_counted_by_what_exists(api: httpx.AsyncClient) -> None:
    refused = await api.get("/analytics/undelivered", params={"by": "reason,colour"})
    assert refused.status_code == httpx.codes.BAD_REQUEST
    assert refused.json()["details"][0]["path"] == "by"
