"""Subscriptions that begin before their topic's log does: with what is archived of it."""

from datetime import timedelta
from typing import Any

import httpx
import pytest

from app.domain.errors import RetransmissionNotFoundError
from app.domain.job import JobKind, JobScope
from app.domain.message import NewRecord
from app.domain.replay.retransmission import RetransmissionState
from app.postgres.urls import libpq_url
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database
from app.storage.insight.jobs import WAITING_MAX, JobRepository
from app.storage.spark.retransmission_requests import requested_choice
from tests.fakes.memory_log import MemoryLog
from tests.integration.api.replay.test_retransmitting_archived import TOPIC, ago, archive, trimmed
from tests.integration.storage.builders import NOON

SUBSCRIPTIONS = f"/topics/{TOPIC}/subscriptions"
BODY = {"name": "billing", "endpoint": "http://h.test/", "startFrom": "-6h"}
REQUESTED = RetransmissionState.REQUESTED.value


async def created(api: httpx.AsyncClient, **body: str) -> dict[str, Any]:
    answer = await api.post(SUBSCRIPTIONS, json=BODY | body)
    assert answer.status_code == httpx.codes.CREATED, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def begins(database: Database) -> dict[int, int]:
    async with database.transaction() as session:
        return dict((await SubscriptionRepository(session).get(TOPIC, "billing")).start)


async def retransmissions(api: httpx.AsyncClient) -> list[dict[str, Any]]:
    answer = await api.get(f"{SUBSCRIPTIONS}/billing/retransmissions")
    found: list[dict[str, Any]] = answer.raise_for_status().json()
    return found


async def test_what_the_log_has_no_more_is_asked_for_up_to_where_the_log_begins(
    api: httpx.AsyncClient, topic: str, log: MemoryLog, database: Database
) -> None:
    index = await trimmed(log, start=60, end=100)
    await archive(database, {index: (0, 20)}, job="1", times=(ago(9), ago(8)))
    await archive(database, {index: (20, 80)}, job="2", times=(ago(7), ago(1)))
    made = await created(api)
    assert await begins(database) == {index: 60, 1 - index: 0}
    history = made["history"]
    place = {"topic": {"value": topic}, "partition": index, "offset": 20, "toOffset": 60}
    assert (history["offsets"], history["gone"]) == ([place], 0)
    assert "angelia spark" in history["waitingFor"]
    [asked] = await retransmissions(api)
    assert (asked["id"], asked["only"], asked["state"]) == (
        history["retransmission"], "all", REQUESTED,
    )  # fmt: skip
    assert asked["waitingFor"] == history["waitingFor"]
    events = (await api.get("/audit?kind=retransmission")).json()
    assert [each["after"]["id"] for each in events] == [asked["id"]]
    # Only its creation says so.
    assert "history" not in (await api.get(f"{SUBSCRIPTIONS}/billing")).json()


async def test_what_is_in_neither_is_said_and_not_hidden(
    api: httpx.AsyncClient, topic: str, log: MemoryLog, database: Database
) -> None:
    del topic
    index = await trimmed(log, start=60, end=100)
    made = await created(api, name="unarchived")
    assert made["history"] == {"gone": 60}
    assert (await api.get("/jobs")).json() == []
    # The log lost some before they were archived, and has lost some of before that.
    await archive(database, {index: (30, 40)}, job="1", times=(ago(5), ago(4)))
    await archive(database, {index: (45, 50)}, job="2", times=(ago(3), ago(2)))
    history = (await created(api))["history"]
    assert history["gone"] == 30 + 5 + 10
    assert [(each["offset"], each["toOffset"]) for each in history["offsets"]] == [(30, 60)]
    assert await begins(database) == {index: 60, 1 - index: 0}


async def test_a_log_that_reaches_back_so_far_is_all_that_is_read(
    api: httpx.AsyncClient, topic: str, log: MemoryLog, database: Database
) -> None:
    del topic
    [old, *_] = await log.append(
        TOPIC, [NewRecord(value=b"old", key=b"k", timestamp_ms=ago(9)) for _ in range(10)]
    )
    index = old.partition.index
    await log.append(TOPIC, [NewRecord(value=b"new", key=b"k") for _ in range(10)])
    log.trim(old.partition, 5)
    await archive(database, {index: (0, 20)}, times=(ago(12), ago(0)))
    assert "history" not in await created(api)
    assert await begins(database) == {index: 10, 1 - index: 0}
    # Nobody asked for another time than the log's.
    for place in ("earliest", "latest"):
        assert "history" not in await created(api, name=place, startFrom=place)
    assert (await api.get("/jobs")).json() == []


async def test_history_that_nobody_may_wait_for_creates_nothing(
    api: httpx.AsyncClient, topic: str, log: MemoryLog, database: Database
) -> None:
    del topic
    index = await trimmed(log, start=60, end=100)
    await archive(database, {index: (0, 60)}, times=(ago(5), ago(1)))
    scope = JobScope(start=NOON, end=NOON + timedelta(hours=1))
    async with database.transaction() as session:
        for _ in range(WAITING_MAX):
            await JobRepository(session).add(JobKind.ARCHIVE, scope)
    refused = await api.post(SUBSCRIPTIONS, json=BODY)
    assert (refused.status_code, refused.json()["code"]) == (429, "JOB_QUEUE_FULL")
    assert (await api.get(SUBSCRIPTIONS)).json() == []
    assert log.commits.get(f"{TOPIC}_billing", {}) == {}


async def test_one_of_the_same_name_has_nothing_to_do_with_the_history_of_the_one_before(
    api: httpx.AsyncClient, topic: str, log: MemoryLog, database: Database, *, postgres_url: str
) -> None:
    del topic
    index = await trimmed(log, start=60, end=100)
    await archive(database, {index: (0, 60)}, times=(ago(5), ago(1)))
    # For years, too, although no list of jobs goes back so far.
    first = (await created(api, startFrom="2020-01-01T00:00:00Z"))["history"]["retransmission"]
    assert (await api.delete(f"{SUBSCRIPTIONS}/billing")).status_code == httpx.codes.OK
    second = (await created(api, state="SUSPENDED"))["history"]["retransmission"]
    assert [each["id"] for each in await retransmissions(api)] == [second]
    with pytest.raises(RetransmissionNotFoundError, match="deleted"):
        requested_choice(libpq_url(postgres_url), first)
    wanted = requested_choice(libpq_url(postgres_url), second).request
    assert [(each.start, each.end) for each in wanted.spans if each.start < each.end] == [(0, 60)]
    # Of what is older there may be something in the same files.
    assert wanted.times.since_ms is not None
    assert abs(wanted.times.since_ms - ago(6)) < 60_000
