"""Requests as Hermes' own integration tests send them, where ours once answered otherwise."""

import base64
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from app.config import Settings
from app.log.interface import MessageLog
from app.main import create_app
from tests.cases import for_each
from tests.fakes.keys import KEY
from tests.integration.api.hermes.contract import MINE, TOPIC
from tests.integration.api.server import given, serving
from tests.integration.api.slow_answers import readiness

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


@for_each("datacenter", ["dc", "primary-dc", "primary"])
async def test_readiness_is_text_for_those_that_accept_text(
    api: httpx.AsyncClient, datacenter: str
) -> None:
    path = f"/readiness/datacenters/{datacenter}"
    for ready, status, word in ((False, 503, "NOT_READY"), (True, 200, "READY")):
        assert (await api.post(path, json={"isReady": ready})).status_code == 202
        answer = await readiness(api, is_ready=ready, accept="text/plain")
        assert (answer.status_code, answer.text) == (status, word)
        assert answer.headers["Content-Type"].startswith("text/plain")
        whole = await readiness(api, is_ready=ready, accept="application/json, text/plain")
        assert (whole.status_code, whole.json()["status"]) == (status, word)


@for_each("path", ["/", "/status/ping", "/status/health"])
async def test_load_balancers_find_up_where_hermes_has_it(
    api: httpx.AsyncClient, path: str
) -> None:
    answer = await api.get(path)
    assert (answer.status_code, answer.text) == (200, "UP")


@for_each("path", ["/", "/console"])
async def test_a_browser_is_led_to_the_console(api: httpx.AsyncClient, path: str) -> None:
    answer = await api.get(path, headers={"Accept": "text/html,*/*"})
    assert (answer.status_code, answer.headers["Location"]) == (307, "console/")


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


# ---- searches, owners, statistics ---------------------------------------------------------------


async def found_names(api: httpx.AsyncClient, what: str, query: dict[str, Any]) -> list[str]:
    answer = await api.post(f"/query/{what}", json={"query": query})
    assert answer.status_code == 200, answer.text
    return sorted(each.get("groupName") or each["name"] for each in answer.json())


@pytest.mark.usefixtures("topic")
async def test_groups_and_topics_are_found_by_what_they_are(api: httpx.AsyncClient) -> None:
    owner = {"source": "Plaintext", "id": "Team Alpha"}
    schema = '{"type": "record", "name": "R", "fields": []}'
    avro = {"name": "blog.posts", "contentType": "AVRO", "schema": schema, "owner": owner}
    await api.post("/topics", json=avro | {"trackingEnabled": True})
    assert await found_names(api, "groups", {}) == ["blog", "shop"]
    assert await found_names(api, "groups", {"groupName": "blog"}) == ["blog"]
    assert await found_names(api, "groups", {"groupName": {"like": ".*op"}}) == ["shop"]
    for absent in ("missingField", "missing.nested.field"):
        assert await found_names(api, "groups", {absent: "xxx"}) == []
    for query in (
        {"name": {"like": ".*posts"}},
        {"owner.id": {"like": ".*Alph.*"}},
        {"and": [{"trackingEnabled": "true"}, {"contentType": "AVRO"}]},
        {"or": [{"trackingEnabled": "true"}, {"contentType": "AVRO"}]},
    ):
        assert await found_names(api, "topics", query) == ["blog.posts"]


@pytest.mark.usefixtures("topic")
async def test_subscriptions_are_found_by_what_is_shown_of_them(api: httpx.AsyncClient) -> None:
    for number, host in enumerate(("one.test", "two.test", "login:password@one.test"), 1):
        made = SUBSCRIPTION | {"name": f"subscription{number}", "endpoint": f"http://{host}/"}
        (await api.post(f"{TOPIC}/subscriptions", json=made)).raise_for_status()
    one = {"endpoint": "http://one.test/"}
    for query, numbers in (
        ({}, "123"),
        ({"name": {"like": ".*tion1"}}, "1"),
        ({"name": "subscription1", **one}, "1"),
        ({"or": [{"name": "subscription2"}, one]}, "12"),
        ({"endpoint": {"like": ".*password.*"}}, ""),
    ):
        expected = [f"subscription{number}" for number in numbers]
        assert await found_names(api, "subscriptions", query) == expected


@pytest.mark.usefixtures("topic")
async def test_a_search_finds_topics_and_subscriptions_as_they_are_now(
    api: httpx.AsyncClient,
) -> None:
    (await api.post(f"{TOPIC}/subscriptions", json=SUBSCRIPTION)).raise_for_status()

    async def found(text: str) -> list[tuple[str, str]]:
        answer = (await api.get("/search/query", params={"q": text})).json()
        assert answer["totalCount"] == len(answer["results"])
        return [(each["type"], each["name"]) for each in answer["results"]]

    assert await found("SHOP.orders") == [("TOPIC", "shop.orders")]
    assert await found("billing") == [("SUBSCRIPTION", "billing")]
    assert await found("nowhere") == []
    (await api.put(MINE, json={"endpoint": "http://moved.test/"})).raise_for_status()
    await api.put(TOPIC, json={"owner": {"source": "Plaintext", "id": "5678"}})
    assert await found("moved.test") == [("SUBSCRIPTION", "billing")]
    assert await found("5678") == [("TOPIC", "shop.orders")]
    (await api.delete(MINE)).raise_for_status()
    assert await found("moved.test") == []


async def test_lists_of_an_owner_follow_its_topics(api: httpx.AsyncClient) -> None:
    async def owned_by(team: str) -> list[str]:
        listed = await api.get(f"/topics/owner/Plaintext/{team}")
        return [each["name"] for each in listed.json()]

    team = {"owner": {"source": "Plaintext", "id": "Team A"}}
    (await api.post("/topics", json={"name": "shop.orders", **team})).raise_for_status()
    assert (await owned_by("Team A"), await owned_by("Team B")) == (["shop.orders"], [])
    other = {"owner": {"source": "Plaintext", "id": "Team B"}}
    (await api.put(TOPIC, json=other)).raise_for_status()
    assert (await owned_by("Team A"), await owned_by("Team B")) == ([], ["shop.orders"])
    for name in ("one", "two"):
        await api.post(f"{TOPIC}/subscriptions", json=SUBSCRIPTION | {"name": name})
    assert (await api.get(f"{TOPIC}/clients")).json() == ["B"]
    for name in ("one", "two"):
        await api.delete(f"{TOPIC}/subscriptions/{name}")
    (await api.delete(TOPIC)).raise_for_status()
    assert await owned_by("Team B") == []


@pytest.mark.usefixtures("topic")
async def test_statistics_count_kinds_of_topics_and_subscriptions(api: httpx.AsyncClient) -> None:
    schema = '{"type": "record", "name": "R", "fields": []}'
    traced = {"trackingEnabled": True}
    avro = {"name": "shop.avro", "contentType": "AVRO", "schema": schema} | traced
    for body in (avro, {"name": "shop.fast", "ack": "LEADER"} | traced):
        (await api.post("/topics", json=body)).raise_for_status()
    raw = SUBSCRIPTION | {"name": "raw", "contentType": "AVRO"}
    refused = await api.post(f"{TOPIC}/subscriptions", json=raw)
    assert refused.json()["details"][0]["path"] == "contentType"
    (await api.post("/topics/shop.avro/subscriptions", json=raw)).raise_for_status()
    watched = SUBSCRIPTION | {"trackingMode": "trackingAll"}
    (await api.post(f"{TOPIC}/subscriptions", json=watched)).raise_for_status()
    assert (await api.get("/stats")).json() == {
        "topicStats": {
            "topicCount": 3,
            "ackAllTopicCount": 2,
            "trackingEnabledTopicCount": 2,
            "avroTopicCount": 1,
        },
        "subscriptionStats": {
            "subscriptionCount": 2,
            "trackingEnabledSubscriptionCount": 1,
            "avroSubscriptionCount": 1,
        },
    }


async def test_a_provider_of_oauth_is_made_once_changed_and_removed(
    api: httpx.AsyncClient,
) -> None:
    path = "/oauth/providers/login"
    provider = {
        "name": "login",
        "tokenEndpoint": "http://example.test/token",
        "clientId": "angelia",
        "clientSecret": "x",
        "tokenRequestInitialDelay": 10,
        "tokenRequestMaxDelay": 100,
        "requestTimeout": 1000,
        "socketTimeout": 200,
    }
    made = await api.post("/oauth/providers", json=provider)
    assert (made.status_code, (await api.get(path)).json()["socketTimeout"]) == (201, 200)
    again = await api.post("/oauth/providers", json=provider)
    assert (again.status_code, again.json()["code"]) == (400, "OAUTH_PROVIDER_ALREADY_EXISTS")
    patch = {"tokenEndpoint": "http://other.test/token", "socketTimeout": 100}
    assert (await api.put(path, json=patch | {"clientSecret": "x"})).status_code == 200
    shown = (await api.get(path)).json()
    assert {name: shown[name] for name in patch} == patch
    assert (await api.delete(path)).status_code == 200
    assert (await api.get("/oauth/providers")).json() == []


async def test_what_there_is_not_is_told_apart_from_what_is_wrong(api: httpx.AsyncClient) -> None:
    """Where Hermes answers 204 or 400, or keeps what nobody asks for (docs/api.md)."""
    for made in ("shop.from", "shop.to"):
        (await api.post("/topics", json={"name": made})).raise_for_status()
    times = {"startTimestamp": "2026-01-01T12:00:00Z", "endTimestamp": "2026-01-01T13:00:00Z"}
    task = {"type": "topic", "sourceTopic": "shop.from", "targetTopic": "shop.to"} | times
    tasks = "/offline-retransmission/tasks"
    for field in ("sourceTopic", "targetTopic"):
        missing = await api.post(tasks, json=task | {field: "shop.none"})
        assert (missing.status_code, missing.json()["code"]) == (404, "TOPIC_NOT_EXISTS")
    for wrong in ({"startTimestamp": None}, {"endTimestamp": "2026-01-01T11:00:00Z"}):
        assert (await api.post(tasks, json=task | wrong)).status_code == 400
    assert (await api.delete(f"{tasks}/none")).status_code == 404
    for answer in (
        await api.get("/topics/shop.none/schema"),
        await api.post("/topics/shop.none/schema", json={}),
    ):
        assert (answer.status_code, answer.json()["code"]) == (404, "TOPIC_NOT_EXISTS")
    assert (await api.get("/topics/owner/Nowhere/Team")).json() == []
    assert (await api.get("/owners/sources/Nowhere/Team")).status_code == 404
