"""Offline retransmission as it is asked for and answered; Spark's part is in tests/spark."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import insert

from app.domain.job import JobResult
from app.domain.message import NewRecord
from app.storage.database import Database
from app.storage.insight.jobs import JobRepository
from app.storage.tables import OfflinePartRow
from tests.cases import for_each
from tests.fakes.memory_log import MemoryLog
from tests.integration.api.guarded import Guarded, guarded

ROOT = "/offline-retransmission"
TASKS = f"{ROOT}/tasks"
AGAIN = "shop.again"
BODY = {
    "type": "topic",
    "sourceTopic": "shop.orders",
    "targetTopic": AGAIN,
    "startTimestamp": "2026-01-01T12:00:00Z",
    "endTimestamp": "2026-01-01T13:00Z",
}


@pytest.fixture
async def topics(api: httpx.AsyncClient, topic: str) -> str:
    """A topic to publish to, beside the one that there is."""
    (await api.post("/topics", json={"name": AGAIN})).raise_for_status()
    return topic


@pytest.fixture
async def avro_topic(api: httpx.AsyncClient, topics: str) -> str:
    """A topic beside them that takes no JSON."""
    assert topics
    body = {"name": "shop.avro", "contentType": "AVRO", "schema": '"string"'}
    (await api.post("/topics", json=body)).raise_for_status()
    return "shop.avro"


async def asked(api: httpx.AsyncClient, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    answer = await api.post(TASKS, json={**BODY, **more})
    assert answer.status_code == httpx.codes.CREATED, answer.text
    assert answer.headers["Location"] == f"{TASKS}/{answer.json()['taskId']}"
    found: dict[str, Any] = answer.json()
    return found


async def half_done(database: Database, task_id: str) -> None:
    """A runner has it, and is half through its two partitions."""
    async with database.transaction() as session:
        assert await JobRepository(session).take("r-1", timedelta(minutes=1))
        for partition, problem in ((0, None), (1, "1/5: is of 9 bytes, and the limit is 8")):
            row = {
                "job_id": task_id, "partition": partition, "start": 0, "end": 100, "position": 50,
                "ends": {}, "written": 20, "size": 40, "refused": partition, "problem": problem,
            }  # fmt: skip
            await session.execute(insert(OfflinePartRow).values(row))


async def test_a_task_is_asked_for_and_says_how_far_it_is(
    api: httpx.AsyncClient, topics: str, database: Database
) -> None:
    task = await asked(api)
    found = (await api.get(f"{TASKS}/{task['taskId']}")).json()
    assert found == task
    assert "angelia spark" in task.pop("waitingFor")
    created = task.pop("createdAt")
    assert created.endswith("Z")
    assert datetime.now(UTC) - datetime.fromisoformat(created) < timedelta(minutes=1)
    job = f"/jobs/{task['taskId']}"
    assert task == {
        "type": "topic", "taskId": task["taskId"], "sourceTopic": topics, "targetTopic": AGAIN,
        "startTimestamp": "2026-01-01T12:00:00Z", "endTimestamp": "2026-01-01T13:00:00Z",
        "logsUrl": job, "jobDetailsUrl": job, "metricsUrl": f"/topics/{AGAIN}/metrics",
        "state": "REQUESTED", "cancelling": False, "progress": 0.0, "refusals": [],
        "counts": {"written": 0, "bytes": 0, "refused": 0, "gone": 0},
    }  # fmt: skip
    assert (await api.get(job)).json()["kind"] == "OFFLINE_RETRANSMISSION"
    await half_done(database, task["taskId"])
    [half] = (await api.get(TASKS)).json()
    assert (half["state"], half["progress"]) == ("RUNNING", 0.5)
    assert half["counts"] == {"written": 40, "bytes": 80, "refused": 1, "gone": 0}
    assert half["refusals"] == ["1/5: is of 9 bytes, and the limit is 8"]
    async with database.transaction() as session:
        taken = await JobRepository(session).get(task["taskId"])
        await JobRepository(session).finish(taken.claim, JobResult(counts={"gone": 3}))
    done = (await api.get(f"{TASKS}/{task['taskId']}")).json()
    assert (done["state"], done["progress"], done["counts"]["gone"]) == ("DONE", 1.0, 3)
    late = await api.delete(f"{TASKS}/{task['taskId']}")
    assert (late.status_code, late.json()["code"]) == (409, "JOB_ENDED")


async def test_tasks_are_listed_of_a_topic_too_as_the_console_asks(
    api: httpx.AsyncClient, topics: str
) -> None:
    first = await asked(api)
    second = await asked(api, sourceTopic=AGAIN, startTimestamp=1767268800000)
    (await api.post("/topics", json={"name": "shop.none"})).raise_for_status()
    for path, expected in (
        (TASKS, [second, first]),
        (f"{TASKS}?limit=1", [second]),
        (f"{ROOT}/topics/{topics}/tasks", [first]),
        (f"{ROOT}/topics/{topics}/tasks/", [first]),
        (f"{ROOT}/topics/{AGAIN}/tasks/", [second, first]),
        (f"{ROOT}/topics/shop.none/tasks", []),
    ):
        answer = await api.get(path)
        assert (answer.status_code, answer.json()) == (200, expected), path
    missing = await api.get(f"{ROOT}/topics/shop.unknown/tasks")
    assert (missing.status_code, missing.json()["code"]) == (404, "TOPIC_NOT_EXISTS")


async def test_what_waits_is_cancelled_at_once_and_again_without_harm(
    api: httpx.AsyncClient, topics: str
) -> None:
    assert topics
    task = await asked(api)
    for _ in range(2):
        cancelled = await api.delete(f"{TASKS}/{task['taskId']}")
        assert (cancelled.status_code, cancelled.json()["state"]) == (200, "CANCELLED")
    assert "waitingFor" not in cancelled.json()
    for method in ("GET", "DELETE"):
        missing = await api.request(method, f"{TASKS}/none")
        assert (missing.status_code, missing.json()["code"]) == (404, "JOB_NOT_EXISTS")


@for_each(
    ("more", "path"),
    [
        ({"type": "view", "sourceViewPath": "a.b"}, "type"),
        ({"type": 1}, "type"),
        ({"startTimestamp": "soon"}, "startTimestamp"),
        ({"startTimestamp": ""}, "startTimestamp"),
        ({"startTimestamp": 1767268800000.5}, "startTimestamp"),
        ({"startTimestamp": True}, "startTimestamp"),
        ({"startTimestamp": -1}, "startTimestamp"),
        ({"startTimestamp": 2**63}, "startTimestamp"),
        ({"startTimestamp": "0001-01-01T00:00:00+05:00"}, "startTimestamp"),
        ({"endTimestamp": "9999-12-31T23:59:59-05:00"}, "endTimestamp"),
        ({"endTimestamp": None}, "endTimestamp"),
        ({"endTimestamp": "2026-01-01T12:00:00Z"}, "startTimestamp"),
        ({"startTimestamp": "2024-01-01T12:00:00Z"}, "startTimestamp"),
        ({"targetTopic": "shop.avro"}, "targetTopic"),
        ({"sourceTopic": 3}, "sourceTopic"),
    ],
)
async def test_what_cannot_be_done_names_the_field(
    api: httpx.AsyncClient, topics: str, avro_topic: str, more: dict[str, Any], path: str
) -> None:
    assert topics
    assert avro_topic == "shop.avro"
    refused = await api.post(TASKS, json={**BODY, **more})
    assert refused.status_code == httpx.codes.BAD_REQUEST, refused.text
    assert [detail["path"] for detail in refused.json()["details"]] == [path]
    assert (await api.get(TASKS)).json() == []


@pytest.mark.parametrize("field", ["sourceTopic", "targetTopic"])
async def test_a_topic_that_does_not_exist_is_not_found(
    api: httpx.AsyncClient, topics: str, field: str
) -> None:
    assert topics
    missing = await api.post(TASKS, json={**BODY, field: "shop.unknown"})
    assert (missing.status_code, missing.json()["code"]) == (404, "TOPIC_NOT_EXISTS")


async def test_views_are_said_to_be_none(api: httpx.AsyncClient, topics: str) -> None:
    body = {"type": "view", "sourceViewPath": "a.b", "targetTopic": topics}
    refused = await api.post(TASKS, json=body)
    assert "no views of data here" in refused.json()["message"]


async def test_what_the_log_has_lost_and_nobody_has_is_counted(
    api: httpx.AsyncClient, topics: str, log: MemoryLog
) -> None:
    records = [NewRecord(value=b"1", key=b"k") for _ in range(5)]
    position = (await log.append(topics, records))[0]
    log.trim(position.partition, 3)
    now = datetime.now(UTC)
    task = await asked(
        api, startTimestamp=(now - timedelta(hours=1)).isoformat(), endTimestamp=now.isoformat()
    )
    assert task["counts"]["gone"] == 3


@pytest.fixture
async def keyed(postgres_url: str) -> Any:  # noqa: ANN401 - a generator of Guarded
    async with guarded(postgres_url) as api:
        for name, owner in (("shop.orders", "A"), (AGAIN, "B")):
            await api.make("/topics", {"name": name, "owner": {"id": owner}})
        yield api


async def test_owners_of_both_topics_ask_and_those_of_the_target_cancel(keyed: Guarded) -> None:
    only_source = await keyed.key("topic:shop.orders", name="source")
    only_target = await keyed.key("owner:B", name="target")
    both = await keyed.key("owner:A", "owner:B", name="both")
    reader = await keyed.key("read", name="reader")
    for key in (only_source, only_target, reader):
        refused = await keyed.http.post(TASKS, json=BODY, headers=key)
        assert (refused.status_code, refused.json()["code"]) == (403, "PERMISSION_DENIED")
    made = await keyed.http.post(TASKS, json=BODY, headers=both)
    assert made.status_code == httpx.codes.CREATED
    task_id = made.json()["taskId"]
    path = f"{TASKS}/{task_id}"
    assert (await keyed.http.get(path, headers=reader)).status_code == httpx.codes.OK
    assert (await keyed.http.delete(path, headers=only_source)).status_code == 403
    assert (await keyed.http.delete(path, headers=only_target)).status_code == 200
    events = await keyed.events(kind="offlineRetransmission")
    assert [(each["action"], each["name"], each["actor"]) for each in events] == [
        ("CANCELLED", task_id, "target"),
        ("REQUESTED", task_id, "both"),
    ]
