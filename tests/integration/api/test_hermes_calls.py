"""Requests as Hermes' own integration tests send them, where ours once answered otherwise."""

import base64
from typing import Any

import httpx
import pytest

from tests.integration.api.contract import MINE, TOPIC

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
