"""Moving a subscription by `PUT …/retransmission`."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from app.domain.catalogue.seek import Seek
from app.domain.message import NewRecord, Partition
from app.log.interface import Committed
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database
from tests.cases import for_each
from tests.fakes.memory_log import MemoryLog

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Clock:
    """Milliseconds that pass as a test says."""

    now = NOON

    def __call__(self) -> int:
        return int(self.now.timestamp() * 1000)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def log(clock: Clock) -> MemoryLog:
    return MemoryLog(clock)


@pytest.fixture
async def path(subscription: str, clock: Clock, log: MemoryLog) -> str:
    """The path of a subscription to two partitions with three messages each, an hour apart."""
    for hour in range(3):
        clock.now = NOON + timedelta(hours=hour)
        await log.append("shop.orders", [NewRecord(value=b"%d" % hour)] * 2)
    return f"{subscription}/retransmission"


async def seek_of(database: Database) -> Seek | None:
    async with database.transaction() as session:
        return (await SubscriptionRepository(session).get("shop.orders", "billing")).seek


def a_date(text: str | int) -> dict[str, str | int]:
    return {"retransmissionDate": text}


def offsets(answer: httpx.Response) -> list[int]:
    assert answer.status_code == 200, answer.text
    answered: dict[str, list[dict[str, Any]]] = answer.json()
    assert answered.keys() == {"primary"}
    listed = answered["primary"]
    assert [each["partition"] for each in listed] == [0, 1]
    assert {each["topic"]["value"] for each in listed} == {"shop.orders"}
    return [each["offset"] for each in listed]


@for_each(
    ("text", "expected"),
    [
        ("2026-01-01T12:00:00Z", [0, 0]),
        ("2026-01-01T12:00:00.001", [1, 1]),
        ("2026-01-01T15:00:00+02:00", [1, 1]),
        ("2026-01-01T14:00Z", [2, 2]),
        ("2026-01-01T14:00:00.001Z", [3, 3]),
        ("9999-12-31T23:59:59Z", [3, 3]),
        ("1970-01-01T00:00:00Z", [0, 0]),
        ("0001-01-01T00:00:00+14:00", [0, 0]),
        ("-30m", [3, 3]),
        ("-999999d", [0, 0]),
        ("1767272400000", [1, 1]),
        (1767272400000, [1, 1]),
    ],
)
async def test_a_subscription_is_moved_to_the_first_messages_at_or_after_a_time(
    api: httpx.AsyncClient,
    path: str,
    database: Database,
    *,
    text: str | int,
    expected: list[int],
) -> None:
    answer = await api.put(path, json=a_date(text))
    assert offsets(answer) == expected
    seek = await seek_of(database)
    assert seek is not None
    assert (seek.offsets, seek.replaced) == (tuple(expected), (None, None))


async def test_hours_back_count_from_now(
    api: httpx.AsyncClient, path: str, log: MemoryLog, clock: Clock
) -> None:
    clock.now = datetime.now(UTC) - timedelta(hours=5)
    await log.append("shop.orders", [NewRecord(value=b"x")] * 2)
    assert offsets(await api.put(path, json=a_date("-6h"))) == [3, 3]
    assert offsets(await api.put(path, json=a_date("-4h"))) == [4, 4]


async def test_readings_of_a_suspended_subscription_say_where_it_was_moved(
    api: httpx.AsyncClient, path: str, subscription: str
) -> None:
    (await api.put(f"{subscription}/state", json="SUSPENDED")).raise_for_status()
    for date, lag, offset in (("9999-12-31T23:59:59Z", 0, 3), ("2026-01-01T13:00:00Z", 4, 1)):
        assert offsets(await api.put(path, json=a_date(date))) == [offset, offset]
        assert (await api.get(f"{subscription}/metrics")).json()["lag"] == lag
        [group] = (await api.get(f"{subscription}/consumer-groups")).json()
        assert [each["currentOffset"] for each in group["partitions"]] == [offset, offset]
        totals = await api.post("/query/subscriptions/metrics", json={"query": {"lag": lag}})
        assert [each["name"] for each in totals.json()] == ["billing"]


TEXT = {"Content-Type": "text/plain"}
JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@for_each(
    ("content", "headers"),
    [
        (b"2026-01-01T13:00:00.000", TEXT),
        (b"2026-01-01T13:00:00.000\n", FORM),
        (b"2026-01-01T13:00:00.000", {}),
        (b"2026-01-01T15:00:00.000+02:00", JSON),
        (b'"2026-01-01T13:00:00.000"', JSON),
        (b'"2026-01-01T13:00:00.000"', TEXT),
        (b'{"retransmissionDate": "2026-01-01T13:00:00.000"}', JSON),
    ],
)
async def test_a_time_is_taken_in_each_of_the_documents_forms(
    api: httpx.AsyncClient,
    path: str,
    database: Database,
    *,
    content: bytes,
    headers: dict[str, str],
) -> None:
    before = await seek_of(database)
    answer = await api.post(path, content=content, headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.json() == [
        {"topic": {"value": "shop.orders"}, "partition": partition, "offset": 1}
        for partition in (0, 1)
    ]
    moved = await seek_of(database)
    assert moved is not None
    assert moved != before
    assert moved.offsets == (1, 1)


@pytest.mark.parametrize("content", [b"-6h", b'"-6h"'])
async def test_hours_back_are_text_or_a_json_string_too(
    api: httpx.AsyncClient, path: str, content: bytes
) -> None:
    for headers in (TEXT, JSON):
        answer = await api.post(f"{path}?dryRun=true", content=content, headers=headers)
        assert [each["offset"] for each in answer.json()] == [3, 3]


@for_each(
    ("content", "headers", "status", "code"),
    [
        (b"yesterday", TEXT, 400, "VALIDATION_ERROR"),
        (b"yesterday", JSON, 400, "FORMAT_ERROR"),
        (b"2026-99-01T00:00", TEXT, 400, "VALIDATION_ERROR"),
        (b"", TEXT, 400, "VALIDATION_ERROR"),
        (b"5", JSON, 400, "FORMAT_ERROR"),
        (b"<date/>", {"Content-Type": "text/xml"}, 415, "VALIDATION_ERROR"),
    ],
)
async def test_a_text_that_is_no_time_is_refused(
    api: httpx.AsyncClient,
    path: str,
    database: Database,
    *,
    content: bytes,
    headers: dict[str, str],
    status: int,
    code: str,
) -> None:
    refused = await api.post(path, content=content, headers=headers)
    assert (refused.status_code, refused.json()["code"]) == (status, code), refused.text
    assert await seek_of(database) is None


async def test_a_dry_run_says_where_and_moves_nothing(
    api: httpx.AsyncClient, path: str, database: Database
) -> None:
    answer = await api.put(f"{path}?dryRun=true", json=a_date("2026-01-01T13:00:00Z"))
    assert offsets(answer) == [1, 1]
    assert "Angelia-Applied" not in answer.headers
    assert await seek_of(database) is None


async def test_moves_are_numbered_and_other_changes_leave_them_alone(
    api: httpx.AsyncClient, path: str, subscription: str, database: Database
) -> None:
    (await api.put(path, json=a_date("2026-01-01T12:00:00Z"))).raise_for_status()
    first = await seek_of(database)
    assert first is not None
    assert (await api.put(path, json=a_date("-1m"))).headers["Angelia-Applied"] == "false"
    (await api.put(subscription, json={"description": "x"})).raise_for_status()
    (await api.put(f"{subscription}/state", json="SUSPENDED")).raise_for_status()
    moved = await seek_of(database)
    assert moved is not None
    assert moved.number > first.number > 1_760_000_000_000
    assert moved.offsets == (3, 3)
    assert "seek" not in (await api.get(subscription)).json()


async def test_what_a_tool_committed_before_is_known_as_such(
    api: httpx.AsyncClient, path: str, log: MemoryLog, database: Database
) -> None:
    by_tool = {Partition("shop.orders", 1): Committed(2)}
    await log.commit({"shop.orders_billing": by_tool})
    (await api.put(path, json=a_date("2026-01-01T12:00:00Z"))).raise_for_status()
    moved = await seek_of(database)
    assert moved is not None
    assert moved.replaced == (None, 2)


@for_each(
    ("body", "field"),
    [
        ({}, "retransmissionDate"),
        (a_date(""), "retransmissionDate"),
        (a_date("yesterday"), "retransmissionDate"),
        (a_date("-6"), "retransmissionDate"),
        (a_date("6h"), "retransmissionDate"),
        ({"retransmissionDate": -5}, "retransmissionDate"),
        ({"retransmissionDate": None}, "retransmissionDate"),
    ],
)
async def test_what_is_no_time_is_refused(
    api: httpx.AsyncClient, path: str, database: Database, *, body: dict[str, Any], field: str
) -> None:
    refused = await api.put(path, json=body)
    assert refused.status_code == 400
    assert [each["path"] for each in refused.json()["details"]] == [field]
    assert await seek_of(database) is None


async def test_fields_without_effect_are_named_or_strictly_refused(
    api: httpx.AsyncClient, path: str
) -> None:
    body = a_date("2026-01-01T12:00:00Z") | {"colour": 1}
    assert (await api.put(path, json=body)).headers["Angelia-Ignored-Fields"] == "colour"
    refused = await api.put(path, json=body, headers={"Prefer": "handling=strict"})
    assert refused.status_code == 400


async def test_only_what_exists_is_moved(api: httpx.AsyncClient, path: str) -> None:
    assert path
    for wrong, status, code in (
        ("/topics/shop.orders/subscriptions/none", 400, "SUBSCRIPTION_NOT_EXISTS"),
        ("/topics/no.such/subscriptions/none", 404, "TOPIC_NOT_EXISTS"),
    ):
        refused = await api.put(f"{wrong}/retransmission", json=a_date("-6h"))
        assert (refused.status_code, refused.json()["code"]) == (status, code)


async def test_a_log_that_is_down_moves_nothing(
    api: httpx.AsyncClient, path: str, log: MemoryLog, database: Database
) -> None:
    log.go_down()
    refused = await api.put(path, json=a_date("-6h"))
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
    assert await seek_of(database) is None
