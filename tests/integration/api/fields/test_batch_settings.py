"""Delivery in batches, in and out of the API, and stored."""

from datetime import timedelta
from typing import Any

import httpx
import pytest

from app.domain.catalogue.batching import BatchFormat, Batching
from app.domain.status import AttemptCounts, SubscriptionLoad
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database
from tests.cases import for_each
from tests.integration.storage.builders import report

STRICT = {"Prefer": "handling=strict"}
BATCHES: dict[str, Any] = {
    "name": "billing",
    "endpoint": "http://subscriber.test/",
    "deliveryType": "BATCH",
}


async def created(api: httpx.AsyncClient, topic: str, **settings: object) -> httpx.Response:
    body = BATCHES | settings
    return await api.post(f"/topics/{topic}/subscriptions", json=body, headers=STRICT)


async def test_batches_are_as_hermes_makes_them_unless_told_otherwise(
    api: httpx.AsyncClient, topic: str, database: Database
) -> None:
    answer = (await created(api, topic)).json()
    assert (answer["deliveryType"], answer["batchFormat"]) == ("BATCH", "WRAPPED")
    policy = answer["subscriptionPolicy"]
    assert (policy["batchSize"], policy["batchVolume"], policy["batchTime"]) == (100, 64000, 30000)
    assert (policy["requestTimeout"], policy["messageBackoff"]) == (30000, 500)
    assert policy["messageTtl"] == 60
    async with database.transaction() as session:
        stored = await SubscriptionRepository(session).get(topic, "billing")
    assert stored.batching == Batching(
        size=100, volume=64_000, time=timedelta(seconds=30), format=BatchFormat.WRAPPED
    )


async def test_settings_of_batches_are_taken_kept_changed_and_reset(
    api: httpx.AsyncClient, topic: str
) -> None:
    policy = {
        "batchSize": 1,
        "batchVolume": 8388608,
        "batchTime": 2147483647,
        "requestTimeout": 2000,
    }
    given = await created(api, topic, batchFormat="NDJSON", subscriptionPolicy=policy)
    assert given.status_code == 201
    url = f"/topics/{topic}/subscriptions/billing"
    read = (await api.get(url)).json()
    assert read["batchFormat"] == "NDJSON"
    assert policy.items() <= read["subscriptionPolicy"].items()
    assert read["subscriptionPolicy"]["messageBackoff"] == 500
    assert (await api.put(url, json=read, headers=STRICT)).json() == read
    serial = {"deliveryType": "SERIAL", "batchFormat": None, "subscriptionPolicy": {"batchSize": 7}}
    changed = (await api.put(url, json=serial, headers=STRICT)).json()
    assert (changed["deliveryType"], changed["batchFormat"]) == ("SERIAL", "WRAPPED")
    assert changed["subscriptionPolicy"]["batchSize"] == 7


async def test_who_gets_messages_one_by_one_keeps_its_timeout_when_it_wants_batches(
    api: httpx.AsyncClient, topic: str, subscription: str
) -> None:
    assert subscription.startswith(f"/topics/{topic}")
    changed = (await api.put(subscription, json={"deliveryType": "BATCH"})).json()
    assert changed["deliveryType"] == "BATCH"
    assert changed["subscriptionPolicy"]["requestTimeout"] == 1000


@for_each(
    ("path", "value", "problem"),
    [
        ("batchSize", 0, "must be 1 to 10000"),
        ("batchSize", 10_001, "must be 1 to 10000"),
        ("batchVolume", 0, "must be 1 to 8388608"),
        ("batchVolume", 8_388_609, "must be 1 to 8388608"),
        ("batchTime", 0, "must be 1 to 2147483647"),
        ("batchTime", 2_147_483_648, "must be 1 to 2147483647"),
    ],
)
async def test_a_size_out_of_range_is_refused_with_field_and_range(
    api: httpx.AsyncClient, topic: str, *, path: str, value: int, problem: str
) -> None:
    refused = await created(api, topic, subscriptionPolicy={path: value})
    assert refused.status_code == 400
    details = [{"path": f"subscriptionPolicy.{path}", "message": problem}]
    assert refused.json()["details"] == details


@pytest.mark.parametrize("field", ["deliveryType", "batchFormat"])
async def test_an_unknown_kind_is_refused_and_named(
    api: httpx.AsyncClient, topic: str, field: str
) -> None:
    refused = await created(api, topic, **{field: "batch"})
    assert refused.status_code == 400
    assert [each["path"] for each in refused.json()["details"]] == [field]


async def test_batches_have_one_endpoint_for_all_their_messages(
    api: httpx.AsyncClient, topic: str, subscription: str
) -> None:
    template = "http://subscriber.test/{id}"
    problem = "must be without {placeholders} when deliveryType is BATCH"
    refused = await created(api, topic, name="other", endpoint=template)
    assert refused.json()["details"] == [{"path": "endpoint", "message": problem}]
    assert (await api.put(subscription, json={"endpoint": template})).status_code == 200
    refused = await api.put(subscription, json={"deliveryType": "BATCH"})
    assert (refused.status_code, refused.json()["details"][0]["path"]) == (400, "endpoint")


async def test_metrics_say_how_many_batches_leave(
    api: httpx.AsyncClient, topic: str, database: Database
) -> None:
    assert (await created(api, topic)).status_code == 201
    async with database.transaction() as session:
        stored = await SubscriptionRepository(session).get(topic, "billing")
    load = SubscriptionLoad(
        subscription_id=stored.id,
        worker_id="w",
        window=timedelta(seconds=2),
        in_flight=0,
        waiting_retries=0,
        counts=AttemptCounts(codes_2xx=6),
    )
    await report(database, load)
    metrics = (await api.get(f"/topics/{topic}/subscriptions/billing/metrics")).json()
    assert (metrics["batchRate"], metrics["rate"]) == (3.0, 3.0)


async def test_messages_may_not_get_too_old_while_their_batch_waits_for_more(
    api: httpx.AsyncClient, topic: str
) -> None:
    refused = await created(api, topic, subscriptionPolicy={"publishTtl": 30})
    assert refused.status_code == 400
    problem = "must be longer than batchTime when deliveryType is BATCH"
    assert refused.json()["details"] == [
        {"path": "subscriptionPolicy.publishTtl", "message": problem}
    ]
    assert (await created(api, topic, subscriptionPolicy={"publishTtl": 31})).status_code == 201
