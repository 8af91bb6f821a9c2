"""Simulations as they are asked for and answered; Spark's part is in tests/spark."""

from datetime import datetime, timedelta
from typing import Any

import httpx

from app.domain.job import JobResult
from app.storage.database import Database
from app.storage.insight.jobs import JobRepository
from spark.store import DatabaseJobs
from tests.cases import for_each

COUNTS = {
    "read": 100, "matched": 50, "added": 45, "dropped": 5, "bytes": 900, "peakPerSecond": 50,
    "backlog": 50, "delayMs": 500_000, "backlogAtMs": 1_767_268_800_000,
    "drainedAtMs": 1_767_269_300_500, "left": 49, "gone": 3,
}  # fmt: skip


AN_EXAMPLE = {"partition": 1, "timestamp_ms": 1_767_268_800_000, "size": 9}
EXAMPLES = (
    {"message_id": "m-3", "offset": 3, "is_added": True, **AN_EXAMPLE},
    {"message_id": "m-4", "offset": 4, "is_added": False, **AN_EXAMPLE},
    {"message_id": "m-5", "offset": 5, "is_added": False, **AN_EXAMPLE},
)


async def done(database: Database) -> None:
    async with database.transaction() as session:
        job = await JobRepository(session).take("r-1", timedelta(minutes=1))
        assert job is not None
    # Only what it hears of its jobs is the notices': this one hears nothing.
    store = DatabaseJobs(database, notices=None, runner="r-1")  # type: ignore[arg-type]  # not used
    result = JobResult(counts=COUNTS, output="/there", samples=EXAMPLES)
    assert await store.finish(job.claim, result)


def shown(message_id: str, offset: int) -> dict[str, Any]:
    place = {"partition": 1, "offset": offset}
    return {"messageId": message_id, **place, "timestamp": 1_767_268_800_000, "size": 9}


async def test_a_simulation_is_asked_for_and_says_what_would_have_been(
    api: httpx.AsyncClient, subscription: str, database: Database
) -> None:
    odd = {"type": "jsonpath", "path": "$.n", "matcher": "[13579]"}
    body = {"from": "-6h", "filters": [odd], "rate": 40, "inflightSize": 5, "requestMillis": 500}
    asked = await api.post(f"{subscription}/simulate", json=body)
    assert asked.status_code == httpx.codes.ACCEPTED, asked.text
    assert asked.json()["kind"] == "SIMULATION"
    where = asked.headers["Location"]
    assert where == f"{subscription}/simulations/{asked.json()['id']}"
    waiting = (await api.get(where)).json()
    assert (waiting["state"], waiting["minutes"]) == ("REQUESTED", [])
    assert "result" not in waiting
    assert (waiting["addedMessages"], waiting["droppedMessages"]) == ([], [])
    assert "angelia spark" in waiting["waitingFor"]
    await done(database)
    found = (await api.get(where)).json()
    begins, ends = (datetime.fromisoformat(found[name]) for name in ("from", "to"))
    assert ends - begins == timedelta(hours=6)
    assert [each["matcher"] for each in found["filters"]] == ["[13579]"]
    assert (found["rate"], found["inflightSize"], found["requestMillis"]) == (40, 5, 500)
    assert (found["capacity"], found["output"]) == (10, "/there")
    assert found["result"] == {
        "read": 100, "matched": 50, "now": 10, "added": 45, "dropped": 5, "bytes": 900,
        "peakPerSecond": 50, "backlog": 50, "delayMillis": 500_000, "left": 49, "gone": 3,
        "backlogAt": "2026-01-01T12:00:00+00:00", "drainedAt": "2026-01-01T12:08:20.500000+00:00",
    }  # fmt: skip
    assert found["addedMessages"] == [shown("m-3", 3)]
    assert found["droppedMessages"] == [shown("m-4", 4), shown("m-5", 5)]


async def test_without_a_proposal_the_subscription_is_tried_as_it_is(
    api: httpx.AsyncClient, subscription: str
) -> None:
    asked = await api.post(f"{subscription}/simulate")
    found = (await api.get(asked.headers["Location"])).json()
    as_it_is = (await api.get(subscription)).json()["subscriptionPolicy"]
    assert (found["filters"], found["rate"]) == ([], as_it_is["rate"])
    assert found["inflightSize"] == as_it_is["inflightSize"]
    assert found["capacity"] == as_it_is["rate"]
    begins, ends = (datetime.fromisoformat(found[name]) for name in ("from", "to"))
    assert ends - begins == timedelta(days=1)


@for_each(
    ("body", "path"),
    [
        ({"rate": 0}, "rate"),
        ({"rate": "1"}, "rate"),
        ({"inflightSize": 0}, "inflightSize"),
        ({"requestMillis": 0}, "requestMillis"),
        ({"requestMillis": 600_001}, "requestMillis"),
        ({"from": "-8d"}, "from"),
        ({"from": "2026-01-02T00:00:00Z", "to": "2026-01-01T00:00:00Z"}, "from"),
        ({"to": "soon"}, "to"),
        ({"filters": [{"type": "jsonpath", "path": "$.", "matcher": "a"}]}, "filters.0.path"),
    ],
)
async def test_what_cannot_be_tried_names_the_field(
    api: httpx.AsyncClient, subscription: str, body: dict[str, Any], path: str
) -> None:
    refused = await api.post(f"{subscription}/simulate", json=body)
    assert refused.status_code == httpx.codes.BAD_REQUEST
    assert [detail["path"] for detail in refused.json()["details"]] == [path]


async def test_a_simulation_belongs_to_its_subscription(
    api: httpx.AsyncClient, subscription: str, topic: str
) -> None:
    asked = await api.post(f"{subscription}/simulate")
    other = {"name": "audit", "endpoint": "http://subscriber.test/", "supportTeam": "A"}
    (await api.post(f"/topics/{topic}/subscriptions", json=other)).raise_for_status()
    job_id = asked.json()["id"]
    path = f"/topics/{topic}/subscriptions/audit/simulations/{job_id}"
    for missing in (await api.get(path), await api.get(f"{subscription}/simulations/none")):
        assert (missing.status_code, missing.json()["code"]) == (404, "JOB_NOT_EXISTS")
