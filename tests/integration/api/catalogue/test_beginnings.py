"""Subscriptions that begin with what the log has, by `startFrom`."""

from datetime import UTC, datetime, timedelta

import httpx
import pytest

from app.domain.message import NewRecord
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database
from tests.cases import for_each
from tests.fakes.memory_log import MemoryLog

STRICT = {"Prefer": "handling=strict"}
TOPIC = "shop.orders"
SUBSCRIPTIONS = f"/topics/{TOPIC}/subscriptions"
BODY = {"name": "billing", "endpoint": "http://h.test/"}


@pytest.fixture
async def filled(topic: str, log: MemoryLog) -> str:
    """The topic, with a message in each partition three hours ago, and two now."""
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    for ago in (timedelta(hours=3), timedelta(), timedelta()):
        moment = now_ms - ago // timedelta(milliseconds=1)
        await log.append(topic, [NewRecord(value=b"x", timestamp_ms=moment)] * 2)
    return topic


async def begins(database: Database) -> dict[int, int]:
    async with database.transaction() as session:
        return dict((await SubscriptionRepository(session).get(TOPIC, "billing")).start)


@for_each(
    ("place", "expected"),
    [(None, 3), ("latest", 3), ("earliest", 0), ("-4h", 0), ("-2h", 1), ("2026-01-01T00:00Z", 0)],
)
async def test_a_subscription_begins_where_it_was_asked_to(
    api: httpx.AsyncClient,
    filled: str,
    log: MemoryLog,
    database: Database,
    *,
    place: str | None,
    expected: int,
) -> None:
    created = await api.post(SUBSCRIPTIONS, json=BODY | {"startFrom": place}, headers=STRICT)
    assert created.status_code == 201, created.text
    assert await begins(database) == {0: expected, 1: expected}
    # Of a group that does not say so Kafka's tools show no lag.
    commits = log.commits.pop(f"{filled}_billing")
    assert {p.index: each.offset for p, each in commits.items()} == {0: expected, 1: expected}
    (await api.delete(f"{SUBSCRIPTIONS}/billing")).raise_for_status()


async def test_what_waits_for_one_that_no_worker_has_taken_up_is_its_lag(
    api: httpx.AsyncClient, filled: str
) -> None:
    body = BODY | {"startFrom": "earliest", "state": "SUSPENDED"}
    created = await api.post(SUBSCRIPTIONS, json=body, headers=STRICT)
    assert created.status_code == 201, created.text
    waiting = (await api.get(f"/topics/{filled}/metrics")).json()["published"]
    assert waiting > 0
    assert (await api.get(f"{SUBSCRIPTIONS}/billing/metrics")).json()["lag"] == waiting
    query = {"query": {"name": "billing", "lag": {"gt": 0}}}
    [found] = (await api.post("/query/subscriptions/metrics", json=query)).json()
    assert found["lag"] == waiting


async def test_the_trail_of_changes_says_that_it_has_history(
    api: httpx.AsyncClient, filled: str
) -> None:
    del filled
    for name, place in (("a", "earliest"), ("b", None)):
        body = BODY | {"name": name, "startFrom": place}
        (await api.post(SUBSCRIPTIONS, json=body)).raise_for_status()
    events = (await api.get("/audit?kind=subscription")).json()
    said = {event["name"]: event["after"].get("startFrom") for event in events}
    assert said == {f"{TOPIC}/a": "earliest", f"{TOPIC}/b": None}


async def test_a_place_that_is_none_creates_nothing(api: httpx.AsyncClient, filled: str) -> None:
    del filled
    for wrong in ("tomorrow", "9999-01-01T00:00:00Z", True, ["earliest"]):
        refused = await api.post(SUBSCRIPTIONS, json=BODY | {"startFrom": wrong})
        assert refused.status_code == 400, refused.text
        assert [each["path"] for each in refused.json()["details"]] == ["startFrom"]
    assert (await api.get(SUBSCRIPTIONS)).json() == []


async def test_one_that_is_there_is_not_moved_by_it(
    api: httpx.AsyncClient, filled: str, database: Database
) -> None:
    del filled
    (await api.post(SUBSCRIPTIONS, json=BODY)).raise_for_status()
    path = f"{SUBSCRIPTIONS}/billing"
    changed = await api.put(path, json={"startFrom": "earliest"})
    assert changed.headers["Angelia-Ignored-Fields"] == "startFrom"
    refused = await api.put(path, json={"startFrom": "earliest"}, headers=STRICT)
    assert refused.status_code == 400
    again = await api.post(SUBSCRIPTIONS, json=BODY | {"startFrom": "earliest"})
    assert again.json()["code"] == "SUBSCRIPTION_ALREADY_EXISTS"
    assert await begins(database) == {0: 3, 1: 3}


async def test_a_log_that_is_down_creates_nothing(
    api: httpx.AsyncClient, filled: str, log: MemoryLog
) -> None:
    del filled
    log.go_down()
    refused = await api.post(SUBSCRIPTIONS, json=BODY | {"startFrom": "earliest"})
    assert refused.status_code == 503
    log.come_back()
    assert (await api.get(SUBSCRIPTIONS)).json() == []
