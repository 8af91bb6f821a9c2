"""Looking through topics and subscriptions: `/query`, `/search`, `/stats`, lists by owner."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest

from app.domain.catalogue.query import parsed_query
from app.domain.message import NewRecord
from app.domain.status import AttemptCounts, CursorStatus, SubscriptionLoad
from app.filtering.queries import compiled, reader
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database
from tests.fakes.memory_log import MemoryLog
from tests.integration.storage import builders

TOPICS = [
    {"name": "shop.orders", "owner": {"id": "Shop Team"}, "ack": "LEADER", "trackingEnabled": True},
    {"name": "shop.carts", "owner": {"id": "Shop Team"}, "description": "what is in carts"},
    {"name": "bank.payments", "owner": {"id": "Bank"}, "partitions": 3},
]
SUBSCRIPTIONS = [
    (
        "shop.orders",
        {"name": "billing", "endpoint": "http://u:pass@pay.test/", "owner": {"id": "B"}},
    ),
    ("shop.orders", {"name": "audit", "endpoint": "http://audit.test/x", "supportTeam": "A Team"}),
    (
        "bank.payments",
        {"name": "audit", "endpoint": "http://audit.test/y", "supportTeam": "A Team"},
    ),
]


@pytest.fixture
async def shop(api: httpx.AsyncClient) -> httpx.AsyncClient:
    for topic in TOPICS:
        (await api.post("/topics", json=topic)).raise_for_status()
    for topic_name, body in SUBSCRIPTIONS:
        made = await api.post(f"/topics/{topic_name}/subscriptions", json=body)
        made.raise_for_status()
    return api


async def asked(api: httpx.AsyncClient, path: str, query: dict[str, Any]) -> Any:  # noqa: ANN401 - JSON
    answer = await api.post(path, json={"query": query})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def names(api: httpx.AsyncClient, path: str, query: dict[str, Any]) -> list[str]:
    found = await asked(api, path, query)
    return [each if isinstance(each, str) else each["name"] for each in found]


ALL_TOPICS = ["bank.payments", "shop.carts", "shop.orders"]
BY_TOPIC_QUERY: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ALL_TOPICS),
    ({"name": "shop.carts"}, ["shop.carts"]),
    ({"name": {"like": "(?i).*CART.*"}}, ["shop.carts"]),
    ({"owner.id": {"like": ".*Team"}}, ["shop.carts", "shop.orders"]),
    ({"owner.id": "Shop Team", "description": {"ne": ""}}, ["shop.carts"]),
    ({"partitions": {"lt": 8}}, ["bank.payments"]),
    ({"createdAt": {"gt": 1700000000}}, ALL_TOPICS),
    ({"createdAt": {"lt": 1700000000}}, []),
    # Not of a column: the whole topic is looked at.
    ({"ack": "LEADER"}, ["shop.orders"]),
    ({"trackingEnabled": True, "name": {"like": "shop.*"}}, ["shop.orders"]),
    ({"retentionTime.duration": {"gt": 0}}, ALL_TOPICS),
    ({"not": {"name": {"in": ["shop.carts", "shop.orders"]}}}, ["bank.payments"]),
    ({"nothing.at.all": 1}, []),
]


async def test_topics_are_found_by_queries(shop: httpx.AsyncClient) -> None:
    for query, expected in BY_TOPIC_QUERY:
        assert await names(shop, "/topics/query", query) == expected, query
        assert await names(shop, "/query/topics", query) == expected, query
    assert await names(shop, "/topics/query?groupName=shop", {}) == ["shop.carts", "shop.orders"]
    assert await names(shop, "/topics/query?groupName=none", {}) == []
    [found] = await asked(shop, "/query/topics", {"name": "shop.orders"})
    assert found == (await shop.get("/topics/shop.orders")).json()


BY_SUBSCRIPTION_QUERY: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["bank.payments/audit", "shop.orders/audit", "shop.orders/billing"]),
    ({"name": "audit", "topicName": {"like": "shop.*"}}, ["shop.orders/audit"]),
    ({"endpoint": {"like": ".*audit\\.test.*"}}, ["bank.payments/audit", "shop.orders/audit"]),
    ({"endpoint": {"like": ".*pass.*"}}, []),
    ({"supportTeam": "B"}, ["shop.orders/billing"]),
    ({"subscriptionPolicy.rate": {"gt": 100}}, ["shop.orders/billing"]),
    (
        {"or": [{"owner.id": "B"}, {"topicName": "bank.payments"}]},
        ["bank.payments/audit", "shop.orders/billing"],
    ),
]


async def test_subscriptions_are_found_by_queries(shop: httpx.AsyncClient) -> None:
    for query, expected in BY_SUBSCRIPTION_QUERY:
        found = await asked(shop, "/query/subscriptions", query)
        assert [f"{each['topicName']}/{each['name']}" for each in found] == expected, query
    of_topic = "/topics/shop.orders/subscriptions/query"
    assert await names(shop, of_topic, {}) == ["audit", "billing"]
    assert await names(shop, of_topic, {"owner.id": "B"}) == ["billing"]
    [found] = await asked(shop, "/query/subscriptions", {"name": "billing"})
    path = "/topics/shop.orders/subscriptions/billing"
    assert found == (await shop.get(path)).json()


async def test_groups_are_found_by_queries(shop: httpx.AsyncClient) -> None:
    assert await asked(shop, "/query/groups", {"groupName": {"like": "s.*"}}) == [
        {"groupName": "shop"}
    ]
    assert len(await asked(shop, "/query/groups", {})) == 2


async def test_what_was_found_comes_page_by_page(shop: httpx.AsyncClient) -> None:
    for path, total in (("/query/topics", 3), ("/query/subscriptions", 3)):
        found: list[Any] = []
        url: str | None = f"{path}?limit=2"
        while url is not None:
            answer = await shop.post(url, json={"query": {}})
            found += answer.json()
            url = answer.links.get("next", {}).get("url")
        assert found == await asked(shop, path, {})
        assert len(found) == total
        for wrong in ("limit=0", "limit=x", "after=a/b/c"):
            refused = await shop.post(f"{path}?{wrong}", json={"query": {}})
            assert (refused.status_code, refused.json()["code"]) == (400, "VALIDATION_ERROR")


WRONG_QUERIES: list[dict[str, Any]] = [
    {},
    {"query": []},
    {"query": {"name": {"near": 1}}},
    {"query": {"name": {"like": "("}}},
]


async def test_what_is_no_query_is_refused(shop: httpx.AsyncClient) -> None:
    paths = ("/query/groups", "/query/topics", "/query/subscriptions", "/topics/query")
    for path in (*paths, "/topics/shop.orders/subscriptions/query"):
        for body in WRONG_QUERIES:
            refused = await shop.post(path, json=body)
            assert (refused.status_code, refused.json()["code"]) == (400, "INVALID_QUERY"), path
    refused = await shop.post("/topics/no.such/subscriptions/query", json={"query": {}})
    assert (refused.status_code, refused.json()["code"]) == (404, "TOPIC_NOT_EXISTS")


async def test_a_part_of_a_text_finds_topics_and_subscriptions(shop: httpx.AsyncClient) -> None:
    async def found(q: str, **more: Any) -> tuple[list[str], int]:  # noqa: ANN401 - parameters
        answer = (await shop.get("/search/query", params={"q": q, **more})).raise_for_status()
        results = answer.json()["results"]
        return [f"{each['type']} {each['name']}" for each in results], answer.json()["totalCount"]

    assert await found("ORDERS") == (["TOPIC shop.orders"], 1)
    assert await found("a team") == (["SUBSCRIPTION audit", "SUBSCRIPTION audit"], 2)
    assert await found("pay") == (["TOPIC bank.payments", "SUBSCRIPTION billing"], 2)
    assert await found("audit.test/x") == (["SUBSCRIPTION audit"], 1)
    assert await found("pass") == await found("%") == await found("_x") == ([], 0)
    assert await found("") == await found(" ") == ([], 0)
    assert await found("a", limit=1) == (["TOPIC bank.payments"], 6)
    [topic, subscription] = (await shop.get("/search/query?q=pay")).json()["results"]
    assert topic["topic"] == {"groupName": "bank", "owner": {"id": "Bank"}}
    assert subscription["subscription"] == {
        "endpoint": "http://u:*****@pay.test/",
        "topic": {"name": "orders", "qualifiedName": "shop.orders", "groupName": "shop"},
    }


async def test_owners_clients_and_numbers_are_known(shop: httpx.AsyncClient) -> None:
    of_team = (await shop.get("/topics/owner/Plaintext/Shop%20Team")).json()
    assert [each["name"] for each in of_team] == ["shop.carts", "shop.orders"]
    of_team = (await shop.get("/subscriptions/owner/Plaintext/A%20Team")).json()
    assert [each["topicName"] for each in of_team] == ["bank.payments", "shop.orders"]
    assert (await shop.get("/topics/owner/Elsewhere/Bank")).json() == []
    assert (await shop.get("/topics/shop.orders/clients")).json() == ["A Team", "B"]
    assert (await shop.get("/topics/no.such/clients")).status_code == 404
    assert (await shop.get("/stats")).json() == {
        "topicStats": {
            "topicCount": 3,
            "ackAllTopicCount": 2,
            "trackingEnabledTopicCount": 1,
            "avroTopicCount": 0,
        },
        "subscriptionStats": {
            "subscriptionCount": 3,
            "trackingEnabledSubscriptionCount": 0,
            "avroSubscriptionCount": 0,
        },
    }


async def report(database: Database) -> None:
    """What a worker reports of one subscription, and of the other nothing."""
    async with database.transaction() as session:
        billing = await SubscriptionRepository(session).get("shop.orders", "billing")
    cursors = [
        CursorStatus(
            subscription_id=billing.id,
            topic=billing.topic,
            partition=partition,
            worker_id="w1",
            offset=1,
            end=3,
            delivered=1 + partition,
            discarded=0,
            volume=10,
        )
        for partition in (0, 1)
    ]
    counts = AttemptCounts(codes_2xx=20, bytes=200)
    load = SubscriptionLoad(
        subscription_id=billing.id,
        worker_id="w1",
        window=timedelta(seconds=10),
        in_flight=1,
        waiting_retries=0,
        counts=counts,
    )
    await builders.report(database, load, cursors=cursors)


async def test_figures_are_found_by_queries(
    shop: httpx.AsyncClient, log: MemoryLog, database: Database
) -> None:
    await log.append("shop.orders", [NewRecord(value=b"1")] * 3)
    await report(database)
    [topic] = await asked(shop, "/query/topics/metrics", {"deliveryRate": {"gt": "1.5"}})
    alone = (await shop.get("/topics/shop.orders/metrics")).json()
    # For many topics the log is not looked through.
    assert alone.pop("rate") == 3 / 60
    assert topic == {"name": "shop.orders", **alone}
    assert (topic["published"], topic["subscriptions"]) == (3, 2)
    path = "/query/subscriptions/metrics"
    [found] = await asked(shop, path, {"lag": {"gt": 3}})
    assert (found["name"], found["topicName"], found["lag"]) == ("billing", "shop.orders", 4)
    assert (found["delivered"], found["volume"], found["rate"]) == (3, 20, 2.0)
    assert await names(shop, path, {"lag": 0}) == ["audit", "audit"]
    assert await names(shop, path, {"topicName": {"like": "shop.*"}}) == ["audit", "billing"]
    log.go_down()
    [without] = await asked(shop, "/query/topics/metrics", {"name": "shop.orders"})
    assert "published" not in without
    pages = await shop.post(f"{path}?limit=2", json={"query": {}})
    rest = await shop.post(pages.links["next"]["url"], json={"query": {}})
    assert [each["name"] for each in pages.json() + rest.json()] == ["audit", "audit", "billing"]
    assert "next" not in rest.links


async def test_figures_are_found_by_what_is_answered(
    shop: httpx.AsyncClient, log: MemoryLog, database: Database
) -> None:
    """Also where the database looks for them."""
    await log.append("shop.orders", [NewRecord(value=b"1")] * 3)
    await report(database)
    await figures_are_found(shop, "/query/subscriptions/metrics")
    await figures_are_found(shop, "/query/topics/metrics")
    log.go_down()
    # What the log does not say is looked for as what it is: not there.
    await figures_are_found(shop, "/query/topics/metrics")


async def figures_are_found(shop: httpx.AsyncClient, path: str) -> None:
    everything = await asked(shop, path, {})
    for query in figure_queries(everything):
        holds = compiled(parsed_query({"query": query}))
        expected = [each for each in everything if holds(reader(each))]
        assert await asked(shop, path, query) == expected, query


def figure_queries(answered: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for name in sorted(
        {name for each in answered for name in each} | {"batchRate", "published", "no.such"}
    ):
        values = {each.get(name) for each in answered}
        yield {name: {"in": [*values, None, True, "0", 0]}}
        for value in values | {0.5}:
            yield {name: value}
            yield {name: {"not": value}}
            if isinstance(value, int | float):
                yield {name: {"gt": value}, "name": {"like": ".*"}}
                yield {"not": {name: {"lt": value}}}
