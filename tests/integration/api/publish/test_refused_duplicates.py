"""Topics that answer duplicates with an error that names the message that was stored."""

import asyncio
from typing import Any

import httpx
import pytest

from tests.fakes.memory_log import MemoryLog

TOPIC = "shop.once"
PATH = f"/topics/{TOPIC}"
ENVELOPES = f"{PATH}/batch?envelope=true"


async def a_topic(api: httpx.AsyncClient, **rule: object) -> None:
    body = {"name": TOPIC, "partitions": 1, "deduplication": {"onDuplicate": "REFUSE", **rule}}
    (await api.post("/topics", json=body)).raise_for_status()


@pytest.fixture
async def by_id(api: httpx.AsyncClient) -> None:
    await a_topic(api)


@pytest.fixture
async def by_order(api: httpx.AsyncClient) -> None:
    await a_topic(api, expression="body.order")


async def published(api: httpx.AsyncClient, body: object, own_id: str) -> httpx.Response:
    return await api.post(PATH, json=body, headers={"Idempotency-Key": own_id})


def refused(answer: httpx.Response) -> tuple[int, str, str | None]:
    said: dict[str, Any] = answer.json()
    return answer.status_code, said["code"], said.get("duplicateOf")


def bodies(log: MemoryLog) -> list[bytes]:
    return [record.value or b"" for record in log.records(TOPIC)]


@pytest.mark.usefixtures("by_id")
async def test_what_comes_again_under_one_id_is_refused(
    api: httpx.AsyncClient, log: MemoryLog
) -> None:
    first, second = [await published(api, number, "a") for number in (1, 2)]
    assert first.status_code == 201
    assert refused(second) == (409, "DUPLICATE_MESSAGE", "a")
    assert "Angelia-Duplicate" not in second.headers
    assert second.headers["Hermes-Message-Id"] == "a"
    assert (await published(api, 3, "b")).status_code == 201
    assert bodies(log) == [b"1", b"3"]


@pytest.mark.usefixtures("by_order")
async def test_what_is_known_again_by_its_value_is_told_the_id_of_the_first(
    api: httpx.AsyncClient, log: MemoryLog
) -> None:
    first = await api.post(PATH, json={"order": 1})
    again = [await published(api, {"order": 1, "n": n}, f"own-{n}") for n in range(2)]
    stored = first.headers["Hermes-Message-Id"]
    assert [refused(each) for each in again] == [(409, "DUPLICATE_MESSAGE", stored)] * 2
    assert stored in again[0].json()["message"]
    assert bodies(log) == [b'{"order":1}']


@pytest.mark.usefixtures("by_id")
async def test_of_many_at_once_all_but_one_are_refused(
    api: httpx.AsyncClient, log: MemoryLog
) -> None:
    answers = await asyncio.gather(*(published(api, n, "a") for n in range(10)))
    assert sorted(each.status_code for each in answers) == [201] + [409] * 9
    assert len(bodies(log)) == 1


@pytest.mark.usefixtures("by_id")
async def test_who_waits_is_refused_at_once(api: httpx.AsyncClient) -> None:
    await published(api, 1, "a")
    answer = await api.post(f"{PATH}?wait=30s", json=2, headers={"Idempotency-Key": "a"})
    assert refused(answer) == (409, "DUPLICATE_MESSAGE", "a")


@pytest.mark.usefixtures("by_order")
async def test_a_batch_says_of_each_duplicate_which_message_was_stored(
    api: httpx.AsyncClient, log: MemoryLog
) -> None:
    await published(api, {"order": 0}, "first")
    orders = [("x", 0), ("a", 1), ("b", 1), ("c", 2)]
    batch = [{"id": own_id, "message": {"order": order}} for own_id, order in orders]
    answer = await api.post(ENVELOPES, json=batch)
    assert answer.status_code == 207
    assert [(each["status"], each.get("duplicateOf")) for each in answer.json()] == [
        *((409, "first"), (201, None)),
        *((409, "a"), (201, None)),
    ]
    assert len(bodies(log)) == 3


@pytest.mark.usefixtures("by_id")
async def test_a_batch_of_duplicates_alone_is_refused(api: httpx.AsyncClient) -> None:
    batch = [{"id": own_id, "message": 1} for own_id in "ab"]
    assert (await api.post(ENVELOPES, json=batch)).status_code == 201
    answer = await api.post(ENVELOPES, json=batch)
    assert (answer.status_code, answer.json()["code"]) == (409, "DUPLICATE_MESSAGE")
    assert [each["duplicateOf"] for each in answer.json()["results"]] == ["a", "b"]


@pytest.mark.usefixtures("by_id")
async def test_the_rule_can_be_taken_back(api: httpx.AsyncClient) -> None:
    await published(api, 1, "a")
    changed = {"deduplication": {"onDuplicate": "ACCEPT"}}
    (await api.put(PATH, json=changed)).raise_for_status()
    again = await published(api, 2, "a")
    assert (again.status_code, again.headers.get("Angelia-Duplicate")) == (201, "true")


async def test_what_was_stored_before_the_rule_refused_duplicates_is_named_too(
    api: httpx.AsyncClient,
) -> None:
    await a_topic(api, expression="body.order", onDuplicate="ACCEPT")
    first = await api.post(PATH, json={"order": 1})
    (await api.put(PATH, json={"deduplication": {"onDuplicate": "REFUSE"}})).raise_for_status()
    again = await api.post(PATH, json={"order": 1})
    assert refused(again) == (409, "DUPLICATE_MESSAGE", first.headers["Hermes-Message-Id"])
