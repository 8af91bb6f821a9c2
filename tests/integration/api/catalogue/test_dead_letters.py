"""Dead-letter topics: set, shown, and kept from going away or becoming too small."""

import asyncio
from typing import Any

import httpx
import pytest

from tests.cases import for_each

STRICT = {"Prefer": "handling=strict"}
DEAD = "shop.dead"


@pytest.fixture
async def dead(api: httpx.AsyncClient) -> str:
    """A topic that takes what the topic of the fixture `topic` takes (2048 bytes)."""
    body = {"name": DEAD, "partitions": 1, "maxMessageSize": 2048}
    (await api.post("/topics", json=body)).raise_for_status()
    return DEAD


def a_body(dead_topic: object, name: str = "billing") -> dict[str, Any]:
    letter = {"topic": dead_topic}
    return {"name": name, "endpoint": "http://subscriber.test/", "deadLetter": letter}


async def created(api: httpx.AsyncClient, topic: str, dead_topic: str) -> str:
    path = f"/topics/{topic}/subscriptions"
    answer = await api.post(path, json=a_body(dead_topic), headers=STRICT)
    answer.raise_for_status()
    return f"{path}/billing"


def problem(answer: httpx.Response) -> tuple[int, str, str]:
    (detail,) = answer.json()["details"]
    return answer.status_code, detail["path"], detail["message"]


async def test_a_dead_letter_topic_is_taken_kept_changed_and_taken_back(
    api: httpx.AsyncClient, topic: str, dead: str
) -> None:
    url = await created(api, topic, dead)
    read = (await api.get(url)).json()
    assert read["deadLetter"] == {"topic": dead}
    assert (await api.put(url, json=read, headers=STRICT)).json() == read
    reset = (await api.put(url, json={"deadLetter": None})).raise_for_status()
    assert "deadLetter" not in reset.json()
    again = await api.patch(url, json={"deadLetter": {"topic": dead}}, headers=STRICT)
    assert again.json()["deadLetter"] == {"topic": dead}


async def test_a_dead_letter_topic_must_exist_and_be_another(
    api: httpx.AsyncClient, topic: str, subscription: str
) -> None:
    path = f"/topics/{topic}/subscriptions"
    for wrong, message in (
        ("no.such", "must be a topic that exists: no.such"),
        (topic, "must be another topic than its own"),
        ("unqualified", "must be qualified by its group: group.topic"),
    ):
        refused = [
            await api.post(path, json=a_body(wrong, "new")),
            await api.put(subscription, json={"deadLetter": {"topic": wrong}}),
        ]
        assert [problem(each) for each in refused] == [(400, "deadLetter.topic", message)] * 2
    assert (await api.get(path)).json() == ["billing"]
    assert "deadLetter" not in (await api.get(subscription)).json()


@for_each("wrong", [{}, {"topic": 1}, {"topic": None}])
async def test_a_dead_letter_without_a_topic_is_refused(
    api: httpx.AsyncClient, topic: str, wrong: dict[str, Any]
) -> None:
    body = a_body(DEAD) | {"deadLetter": wrong}
    refused = await api.post(f"/topics/{topic}/subscriptions", json=body)
    assert problem(refused)[:2] == (400, "deadLetter.topic")


async def test_a_dead_letter_topic_takes_messages_as_large_as_its_subscribers_topic(
    api: httpx.AsyncClient, topic: str, dead: str
) -> None:
    (await api.put(f"/topics/{dead}", json={"maxMessageSize": 2047})).raise_for_status()
    small = await api.post(f"/topics/{topic}/subscriptions", json=a_body(dead))
    message = "must be a topic whose maxMessageSize is at least 2048"
    assert problem(small) == (400, "deadLetter.topic", message)
    (await api.put(f"/topics/{dead}", json={"maxMessageSize": 2048})).raise_for_status()
    await created(api, topic, dead)
    shrunk = await api.put(f"/topics/{dead}", json={"maxMessageSize": 2047})
    grown = await api.put(f"/topics/{topic}", json={"maxMessageSize": 2049})
    why = "subscription billing of shop.orders has dead letters"
    assert [problem(each) for each in (shrunk, grown)] == [
        (400, "maxMessageSize", f"must be at least 2048, as in shop.orders: {why}"),
        (400, "maxMessageSize", f"must be at most 2048, as in shop.dead: {why}"),
    ]
    (await api.put(f"/topics/{dead}", json={"maxMessageSize": 4096})).raise_for_status()
    (await api.put(f"/topics/{topic}", json={"maxMessageSize": 4096})).raise_for_status()


async def test_a_topic_is_not_deleted_while_it_takes_dead_letters(
    api: httpx.AsyncClient, topic: str, dead: str
) -> None:
    url = await created(api, topic, dead)
    refused = await api.delete(f"/topics/{dead}")
    assert (refused.status_code, refused.json()["code"]) == (403, "TOPIC_NOT_EMPTY")
    assert refused.json()["message"] == (
        "Topic shop.dead takes the dead letters of shop.orders, subscription billing"
    )
    (await api.put(url, json={"deadLetter": None})).raise_for_status()
    (await api.delete(f"/topics/{dead}")).raise_for_status()


async def test_a_topic_goes_with_its_last_subscription_whatever_that_sent_its_letters_to(
    api: httpx.AsyncClient, topic: str, dead: str
) -> None:
    url = await created(api, topic, dead)
    (await api.delete(url)).raise_for_status()
    for name in (topic, dead):
        (await api.delete(f"/topics/{name}")).raise_for_status()


async def test_of_setting_and_deleting_at_once_one_is_refused(
    api: httpx.AsyncClient, topic: str, subscription: str, dead: str
) -> None:
    for _ in range(5):
        answers = await asyncio.gather(
            api.put(subscription, json={"deadLetter": {"topic": dead}}),
            api.delete(f"/topics/{dead}"),
        )
        assert [each.is_success for each in answers].count(True) == 1
        (await api.put(subscription, json={"deadLetter": None})).raise_for_status()
        if answers[1].is_success:
            body = {"name": dead, "partitions": 1, "maxMessageSize": 2048}
            (await api.post("/topics", json=body)).raise_for_status()
    assert topic
