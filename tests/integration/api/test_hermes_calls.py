"""Requests as Hermes' own integration tests send them, where ours once answered otherwise."""

import base64
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from app.config import Settings
from app.log.interface import MessageLog
from app.main import create_app
from tests.fakes.keys import KEY
from tests.integration.api.contract import MINE, TOPIC
from tests.integration.api.server import given, serving

SUBSCRIPTION = {"name": "billing", "endpoint": "http://s.test/", "supportTeam": "B"}
BOB = b'{"name": "Bob", "age": 50, "favoriteColor": "grey"}'


@pytest.fixture
async def topic(api: httpx.AsyncClient) -> str:
    (await api.post("/topics", json={"name": "shop.orders"})).raise_for_status()
    return "shop.orders"


async def tried(api: httpx.AsyncClient, body: bytes, *paths: str) -> str:
    filters = [{"type": "jsonpath", "path": path, "matcher": "^Bob.*"} for path in paths]
    message = base64.b64encode(body).decode()
    answer = await api.post("/filters/shop.orders", json={"filters": filters, "message": message})
    return str(answer.json()["status"])


@pytest.mark.usefixtures("topic")
async def test_filters_need_no_root_in_their_paths(api: httpx.AsyncClient) -> None:
    named = [{"type": "jsonpath", "path": ".name", "matcher": "^Bob.*"}]
    given = SUBSCRIPTION | {"filters": named}
    made = await api.post(f"{TOPIC}/subscriptions", json=given)
    assert made.status_code == 201, made.text
    assert [each["path"] for each in (await api.get(MINE)).json()["filters"]] == [".name"]
    assert await tried(api, BOB, ".name", "name") == "MATCHED"
    assert await tried(api, BOB.replace(b"Bob", b"Alice"), ".name") == "NOT_MATCHED"
    below = b'{"user": {"name": "Bob"}}'
    assert (await tried(api, below, ".name"), await tried(api, below, "name")) == (
        "MATCHED",
        "NOT_MATCHED",
    )


@pytest.mark.usefixtures("topic")
async def test_an_empty_group_means_all(api: httpx.AsyncClient) -> None:
    await api.post("/topics", json={"name": "other.traced", "trackingEnabled": True})
    assert (await api.get("/topics?groupName=")).json() == ["other.traced", "shop.orders"]
    assert (await api.get("/topics?groupName=&tracked=true")).json() == ["other.traced"]
    query = {"query": {"trackingEnabled": "true", "contentType": "JSON"}}
    found = await api.post("/topics/query?groupName=", json=query)
    assert found.json() == ["other.traced"]


@pytest.mark.parametrize("datacenter", ["dc", "primary-dc", "primary"])
async def test_readiness_is_text_for_those_that_accept_text(
    api: httpx.AsyncClient, datacenter: str
) -> None:
    path, text = f"/readiness/datacenters/{datacenter}", {"Accept": "text/plain"}
    for ready, status, word in ((False, 503, "NOT_READY"), (True, 200, "READY")):
        assert (await api.post(path, json={"isReady": ready})).status_code == 202
        answer = await api.get("/status/ready", headers=text)
        assert (answer.status_code, answer.text) == (status, word)
        assert answer.headers["Content-Type"].startswith("text/plain")
        whole = await api.get("/status/ready", headers={"Accept": "application/json, text/plain"})
        assert (whole.status_code, whole.json()["status"]) == (status, word)


async def test_offline_storage_is_enabled_without_a_duration(
    api: httpx.AsyncClient, topic: str
) -> None:
    answer = await api.put(f"/topics/{topic}", json={"offlineStorage": {"enabled": True}})
    assert answer.status_code == 200, answer.text
    kept = {"duration": 60, "infinite": False}
    assert answer.json()["offlineStorage"] == {"enabled": True, "retentionTime": kept}


@pytest.mark.usefixtures("topic")
async def test_what_is_masked_in_a_copy_is_named_with_what_to_give(api: httpx.AsyncClient) -> None:
    secret: dict[str, Any] = {
        "endpoint": "http://me:pass@s.test/",
        "headers": [{"name": "X-Key", "value": "k"}],
    }
    await api.post(f"{TOPIC}/subscriptions", json=SUBSCRIPTION | secret)
    copy = (await api.get(MINE)).json() | {"name": "copy"}
    refused = await api.post(f"{TOPIC}/subscriptions", json=copy)
    assert {each["path"]: each["message"] for each in refused.json()["details"]} == {
        "endpoint": "has a password that is masked, as answers show it: give the real one",
        "headers.0.value": (
            "is masked, as answers show it: give the real one, or leave the header out"
        ),
    }
    filled = await api.post(f"{TOPIC}/subscriptions", json=copy | secret)
    assert filled.status_code == 201, filled.text


TOPIC_TEXTS = {"rate", "deliveryRate", "throughput"}
ANSWER_TEXTS = {"otherErrors", "codes2xx", "codes4xx", "codes5xx", "retries", "batchRate"}
SUBSCRIPTION_TEXTS = {"timeouts", "lag", "rate", "throughput"}
SUBSCRIPTION_NUMBERS = {"delivered", "discarded", "volume"}
QUERY = {"query": {"delivered": {"lt": "1"}}}


def texts_in(metrics: dict[str, Any]) -> set[str]:
    return {name for name, value in metrics.items() if isinstance(value, str)}


async def metrics_of(api: httpx.AsyncClient, **headers: str) -> list[dict[str, Any]]:
    """Those of the topic and the subscription, then as queries answer both."""
    answers = [
        await api.get(f"{TOPIC}/metrics", headers=headers),
        await api.get(f"{MINE}/metrics", headers=headers),
        await api.post("/query/topics/metrics", json={"query": {}}, headers=headers),
        await api.post("/query/subscriptions/metrics", json=QUERY, headers=headers),
    ]
    bodies = [answer.json() for answer in answers]
    return [body[0] if isinstance(body, list) else body for body in bodies]


async def subscribed(api: httpx.AsyncClient) -> None:
    await api.post("/topics", json={"name": "shop.orders"})
    (await api.post(f"{TOPIC}/subscriptions", json=SUBSCRIPTION)).raise_for_status()


def check_hermes_form(metrics: list[dict[str, Any]]) -> None:
    topic, subscription, named_topic, named_subscription = metrics
    assert topic.keys() == {"published", "volume", "subscriptions", *TOPIC_TEXTS}
    assert texts_in(topic) == TOPIC_TEXTS
    texts = SUBSCRIPTION_TEXTS | ANSWER_TEXTS
    assert subscription.keys() == SUBSCRIPTION_NUMBERS | texts
    assert texts_in(subscription) == texts
    assert named_topic.keys() == topic.keys() | {"name"}
    # The log says the rate of a single topic alone.
    assert (named_topic["rate"], named_topic["deliveryRate"]) == ("unavailable", "0.0")
    names = {"topicName", "name"}
    assert named_subscription.keys() == SUBSCRIPTION_NUMBERS | SUBSCRIPTION_TEXTS | names
    assert (named_subscription["lag"], named_subscription["rate"]) == ("0", "0.0")


async def test_metrics_are_texts_for_requests_that_ask_for_them(api: httpx.AsyncClient) -> None:
    await subscribed(api)
    check_hermes_form(await metrics_of(api, Prefer="figures=texts"))
    assert [texts_in(each) for each in (await metrics_of(api))[:2]] == [set(), set()]


async def test_metrics_are_texts_for_all_where_that_is_set(
    postgres_url: str, log: MessageLog
) -> None:
    settings = Settings(secret_key=SecretStr(KEY), hermes_metrics=True)
    app = create_app(settings, database_url=postgres_url, log=given(log))
    async with serving(app) as api:
        await subscribed(api)
        check_hermes_form(await metrics_of(api))
        numbers = await metrics_of(api, Prefer="figures=numbers")
        assert [texts_in(each) for each in numbers[:2]] == [set(), set()]
        assert {"filtered", "inflight"} <= numbers[1].keys()
