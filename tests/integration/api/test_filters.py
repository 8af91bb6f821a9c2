import base64

import httpx

from app.domain.filters import Filter, FilterType, MatchingStrategy
from app.domain.subscription import Ordering
from app.storage.database import Database
from app.storage.subscriptions import SubscriptionRepository

FILTERS = [
    {
        "type": "jsonpath",
        "path": "$.lines[*].sku",
        "matcher": "a|b",
        "matchingStrategy": "any",
    },
    {"type": "header", "header": "X-Tenant", "matcher": "acme.*"},
    {"type": "cel", "expression": "size(body.lines) < 3 && headers['x-tenant'] != 'acme-9'"},
]


async def test_filters_and_ordering_are_stored_and_answered(
    api: httpx.AsyncClient, topic: str, database: Database
) -> None:
    endpoint = "http://picky.test/{customer.id}"
    body = {"name": "picky", "endpoint": endpoint, "filters": FILTERS, "ordering": "KEY"}
    created = await api.post(f"/topics/{topic}/subscriptions", json=body)
    assert created.status_code == 201
    read = (await api.get(f"/topics/{topic}/subscriptions/picky")).json()
    assert (read["filters"], read["ordering"], read["endpoint"]) == (FILTERS, "KEY", endpoint)
    async with database.transaction() as session:
        stored = await SubscriptionRepository(session).get(topic, "picky")
    assert stored.ordering is Ordering.KEY
    assert stored.filters == (
        Filter(
            type=FilterType.JSONPATH,
            path="$.lines[*].sku",
            matcher="a|b",
            matching_strategy=MatchingStrategy.ANY,
        ),
        Filter(type=FilterType.HEADER, header="X-Tenant", matcher="acme.*"),
        Filter(type=FilterType.CEL, expression=str(FILTERS[2]["expression"])),
    )


async def test_the_debugger_tries_filters_on_a_message(api: httpx.AsyncClient, topic: str) -> None:
    message = base64.b64encode(b'{"lines":[{"sku":"z"},{"sku":"b"}]}').decode()
    trial = {"filters": FILTERS, "message": message, "headers": {"x-tenant": "acme-1"}}
    answered = await api.post(f"/filters/{topic}", json=trial)
    assert (answered.status_code, answered.json()) == (200, {"status": "MATCHED"})
    without = await api.post(f"/filters/{topic}", json=trial | {"headers": {}})
    assert without.json() == {"status": "NOT_MATCHED"}
    other = await api.post(f"/filters/{topic}", json=trial | {"headers": {"X-Tenant": "acme-9"}})
    assert other.json() == {"status": "NOT_MATCHED"}
    broken = await api.post(f"/filters/{topic}", json=trial | {"message": ""})
    assert broken.json()["status"] == "ERROR"
    assert "not JSON" in broken.json()["errorMessage"]
    nothing = await api.post(f"/filters/{topic}", json=trial | {"headers": None, "key": None})
    assert nothing.json() == {"status": "NOT_MATCHED"}
    refused = await api.post(f"/filters/{topic}", json=trial | {"headers": {"x-tenant": None}})
    assert refused.status_code == 400
    assert [each["path"] for each in refused.json()["details"]] == ["headers.x-tenant"]
