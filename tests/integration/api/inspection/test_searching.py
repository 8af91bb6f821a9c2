"""`/topics/{topic}/messages`: finding messages by their key, or by a value in their bodies."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from app.domain.message import NewRecord
from app.services.inspection import search
from tests.cases import for_each
from tests.fakes.memory_log import MemoryLog


def an_order(number: int, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    return {"order": {"id": f"o-{number}", "number": number, **fields}}


async def publish(api: httpx.AsyncClient, topic: str, body: object, *, key: str = "") -> str:
    headers = {"Partition-Key": key} if key else {}
    answer = await api.post(f"/topics/{topic}", json=body, headers=headers)
    return str(answer.raise_for_status().headers["Hermes-Message-Id"])


async def found(api: httpx.AsyncClient, topic: str, **query: str) -> list[str]:
    """The ids of all pages."""
    ids: list[str] = []
    url: str | None = str(httpx.URL(f"/topics/{topic}/messages", params=query))
    while url is not None:
        answer = (await api.get(url)).raise_for_status()
        ids += [each["messageId"] for each in answer.json()]
        url = answer.links.get("next", {}).get("url")
    return ids


async def test_a_message_is_found_by_a_value_in_its_body(
    api: httpx.AsyncClient, topic: str
) -> None:
    ids = [await publish(api, topic, an_order(number, paid=number == 3)) for number in range(6)]
    assert await found(api, topic, path="$.order.id", value="o-4") == [ids[4]]
    assert await found(api, topic, path="$.order.number", value="2") == [ids[2]]
    assert await found(api, topic, path="$.order.paid", value="true") == [ids[3]]
    assert await found(api, topic, path="$.order.none", value="x") == []
    assert sorted(await found(api, topic, path="$.order.id")) == sorted(ids)


async def test_a_message_is_found_by_its_key_and_comes_as_it_is(
    api: httpx.AsyncClient, topic: str
) -> None:
    message_id = await publish(api, topic, an_order(1), key="customer-7")
    await publish(api, topic, an_order(1), key="customer-8")
    (message,) = (await api.get(f"/topics/{topic}/messages?key=customer-7")).json()
    assert message["messageId"] == message_id
    assert json.loads(message["message"]) == an_order(1)
    assert (message["topicName"], message["key"]) == (topic, "customer-7")
    assert {"partition", "offset", "timestamp"} <= message.keys()
    assert await found(api, topic, key="customer-7", path="$.order.number", value="2") == []


async def test_a_message_is_found_by_its_id_and_by_a_part_of_its_body(
    api: httpx.AsyncClient, topic: str
) -> None:
    ids = [await publish(api, topic, an_order(number)) for number in range(3)]
    assert await found(api, topic, messageId=ids[1]) == [ids[1]]
    assert await found(api, topic, messageId="none") == []
    assert await found(api, topic, text='"o-2"') == [ids[2]]
    assert await found(api, topic, text='"O-2"') == []


async def test_what_is_no_json_is_passed_over(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    await log.append(topic, [NewRecord(value=b"\xff{"), NewRecord(value=b'{"a": 1}')])
    assert len(await found(api, topic, path="$.a", value="1")) == 1


async def test_only_a_window_of_time_is_looked_at(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    now = datetime.now(UTC)
    for hours in (5, 3, 1):
        ms = int((now - timedelta(hours=hours)).timestamp() * 1e3)
        await log.append(topic, [NewRecord(value=b'{"a": %d}' % hours, key=b"k", timestamp_ms=ms)])

    async def bodies(since: float, until: float) -> list[str]:
        window = {"since": since, "until": until}
        times = {name: (now - timedelta(hours=h)).isoformat() for name, h in window.items()}
        answer = await api.get(f"/topics/{topic}/messages", params={"key": "k", **times})
        return [each["message"] for each in answer.raise_for_status().json()]

    assert await bodies(4, 2) == ['{"a": 3}']
    assert await bodies(6, 1) == ['{"a": 5}', '{"a": 3}']
    assert await bodies(0.5, 0) == []


@pytest.fixture
async def seven(api: httpx.AsyncClient, topic: str) -> list[str]:
    """The ids of seven messages of the topic."""
    return [await publish(api, topic, an_order(1)) for _ in range(7)]


@for_each("limit", [1, 2, 100])
async def test_pages_lead_to_all_that_is_found(
    api: httpx.AsyncClient, topic: str, seven: list[str], limit: int
) -> None:
    listed = await found(api, topic, path="$.order", limit=str(limit))
    assert sorted(listed) == sorted(seven)


async def test_one_call_reads_no_more_than_it_may_and_says_where_to_go_on(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    await api.put(f"/topics/{topic}", json={"maxMessageSize": 1_048_576})
    large = b'"%b"' % (b"x" * 1_000_000)
    pieces = search.BYTES_MAX // len(large) + 5
    for _ in range(pieces):
        await log.append(topic, [NewRecord(value=large, key=b"a")])
    await log.append(topic, [NewRecord(value=b"{}", key=b"wanted")])
    first = await api.get(f"/topics/{topic}/messages?key=wanted")
    assert "next" in first.links
    assert len(await found(api, topic, key="wanted")) == 1


@for_each(
    ("query", "field"),
    [
        ({}, "key"),
        ({"value": "1"}, "path"),
        ({"path": "$a"}, "path"),
        ({"path": "$["}, "path"),
        ({"key": "k", "since": "yesterday"}, "since"),
        ({"key": "k", "since": "2026-01-02", "until": "2026-01-01"}, "until"),
        ({"key": "k", "limit": "0"}, "limit"),
        ({"key": "k", "after": "x"}, "after"),
        ({"key": "k", "after": "MQ"}, "after"),
    ],
)
async def test_what_cannot_be_looked_for_is_named(
    api: httpx.AsyncClient, topic: str, query: dict[str, str], field: str
) -> None:
    refused = await api.get(f"/topics/{topic}/messages", params=query)
    assert (refused.status_code, refused.json()["code"]) == (400, "VALIDATION_ERROR")
    assert [each["path"] for each in refused.json()["details"]] == [field]


async def test_a_topic_that_is_not_there_has_no_messages(api: httpx.AsyncClient) -> None:
    none = await api.get("/topics/shop.none/messages?key=k")
    assert (none.status_code, none.json()["code"]) == (404, "TOPIC_NOT_EXISTS")
