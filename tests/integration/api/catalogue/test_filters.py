import base64
import json
from dataclasses import replace

import httpx
import pytest

from app.domain.catalogue.filters import Filter, FilterType, MatchingStrategy
from app.domain.catalogue.subscription import Ordering
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database
from tests.cases import for_each

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
    tenants_too = {"propagatedHeaders": ["X-Tenant"]}
    (await api.put(f"/topics/{topic}", json=tenants_too)).raise_for_status()
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


async def test_the_debugger_sees_the_defaults_of_an_avro_topic(api: httpx.AsyncClient) -> None:
    fields = [{"name": "state", "type": "string", "default": "NEW"}]
    schema = json.dumps({"type": "record", "name": "R", "fields": fields})
    avro = {"name": "shop.avro", "contentType": "AVRO", "schema": schema}
    (await api.post("/topics", json=avro)).raise_for_status()
    by_state = {"type": "avropath", "path": ".state", "matcher": "NEW"}
    trial = {"filters": [by_state], "message": base64.b64encode(b"{}").decode()}
    assert (await api.post("/filters/shop.avro", json=trial)).json() == {"status": "MATCHED"}
    wrong = trial | {"message": base64.b64encode(b'{"state": 1}').decode()}
    refused = (await api.post("/filters/shop.avro", json=wrong)).json()
    assert (refused["status"], "state must be" in refused["errorMessage"]) == ("ERROR", True)


async def test_an_avropath_is_stored_and_answered_as_it_was_given(
    api: httpx.AsyncClient, topic: str, database: Database
) -> None:
    given = {"type": "avropath", "path": "a.b", "matcher": "null", "matchingStrategy": "all"}
    subscriptions = f"/topics/{topic}/subscriptions"
    (await api.post(subscriptions, json=picky(given))).raise_for_status()
    assert (await api.get(f"{subscriptions}/picky")).json()["filters"] == [given]
    async with database.transaction() as session:
        stored = await SubscriptionRepository(session).get(topic, "picky")
    assert [(each.path, each.avropath) for each in stored.filters] == [("$.a.b", "a.b")]


async def tenants(api: httpx.AsyncClient, *propagated: str) -> str:
    """The path of the subscriptions of a topic that propagates these headers."""
    body = {"name": "shop.tenants", "propagatedHeaders": propagated}
    (await api.post("/topics", json=body)).raise_for_status()
    return "/topics/shop.tenants/subscriptions"


def picky(*filters: object, name: str = "picky") -> dict[str, object]:
    return {"name": name, "endpoint": "http://picky.test/", "filters": filters}


def cel(expression: str) -> dict[str, str]:
    return {"type": "cel", "expression": expression}


BY_TENANT = {"type": "header", "header": "X-Tenant", "matcher": "a"}


@for_each(
    ("wrong", "path", "says"),
    [
        (BY_TENANT, "filters.1.header", "X-Tenant, which propagatedHeaders of the topic"),
        (cel("headers['x-tenant'] == 'a'"), "filters.1.expression", "x-tenant, which prop"),
        (cel("headers.tenant == 'a'"), "filters.1.expression", "the header tenant,"),
        (cel("'x-tenant' in headers"), "filters.1.expression", "x-tenant, which prop"),
        (cel("headers['X-Other'] == 'a'"), "filters.1.expression", "in lower case here, x-other"),
    ],
)
async def test_a_filter_that_names_a_header_which_no_message_has_is_refused(
    api: httpx.AsyncClient, *, wrong: dict[str, str], path: str, says: str
) -> None:
    subscriptions = await tenants(api, "X-Other")
    right = {"type": "header", "header": "x-other", "matcher": "a"}
    refused = await api.post(subscriptions, json=picky(right, wrong))
    assert (refused.status_code, refused.json()["code"]) == (400, "VALIDATION_ERROR")
    (problem,) = refused.json()["details"]
    assert problem["path"] == path
    assert says in problem["message"]
    (await api.post(subscriptions, json=picky(right))).raise_for_status()
    changed = await api.put(f"{subscriptions}/picky", json={"filters": [wrong]})
    assert changed.status_code == 400
    (await api.delete(f"{subscriptions}/picky")).raise_for_status()
    (await api.delete("/topics/shop.tenants")).raise_for_status()


@for_each(
    "right",
    [
        BY_TENANT,
        cel("headers['x-tenant'] == 'a'"),
        cel("headers['traceparent'] != '' && headers['ce-type'] == 't'"),
        {"type": "header", "header": "Ce-Source", "matcher": "a"},
        {"type": "header", "header": "Angelia-Dead-Letter-Reason", "matcher": "a"},
        cel("body.headers.host == 'a' && body.headers['accept'] == 'b'"),
    ],
)
async def test_a_filter_may_name_what_messages_can_have(
    api: httpx.AsyncClient, right: dict[str, str]
) -> None:
    subscriptions = await tenants(api, "x-tenant")
    assert (await api.post(subscriptions, json=picky(right))).status_code == 201
    (await api.delete(f"{subscriptions}/picky")).raise_for_status()
    (await api.delete("/topics/shop.tenants")).raise_for_status()


async def test_a_filter_on_dead_letters_names_what_their_own_topic_propagates(
    api: httpx.AsyncClient,
) -> None:
    sources = await tenants(api, "X-Tenant")
    (await api.post("/topics", json={"name": "shop.letters"})).raise_for_status()
    letters = "/topics/shop.letters/subscriptions"
    source = picky() | {"deadLetter": {"topic": "shop.letters"}}
    (await api.post(sources, json=source)).raise_for_status()
    refused = await api.post(letters, json=picky(BY_TENANT))
    assert refused.status_code == 400
    (problem,) = refused.json()["details"]
    assert problem["path"] == "filters.0.header"
    assert "X-Tenant, which propagatedHeaders of the topic" in problem["message"]
    wanted = {"propagatedHeaders": ["X-Tenant"]}
    (await api.put("/topics/shop.letters", json=wanted)).raise_for_status()
    assert (await api.post(letters, json=picky(BY_TENANT))).status_code == 201
    # Then what becomes of the source does not matter to the filter.
    (await api.put(f"{sources}/picky", json={"deadLetter": None})).raise_for_status()
    nothing: dict[str, object] = {"propagatedHeaders": []}
    (await api.put("/topics/shop.tenants", json=nothing)).raise_for_status()
    assert (await api.put("/topics/shop.letters", json=nothing)).status_code == 400


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("simulate", {"from": "-6h", "filters": [BY_TENANT]}),
        ("retransmission", {"only": "all", "from": "-6h", "filter": BY_TENANT}),
    ],
)
async def test_a_job_with_a_filter_on_a_header_that_no_message_has_is_refused(
    api: httpx.AsyncClient, path: str, *, body: dict[str, object]
) -> None:
    subscriptions = await tenants(api)
    (await api.post(subscriptions, json=picky())).raise_for_status()
    refused = await api.post(f"{subscriptions}/picky/{path}", json=body)
    assert (refused.status_code, refused.json()["code"]) == (400, "VALIDATION_ERROR")
    (problem,) = refused.json()["details"]
    assert problem["path"] == "filters.0.header"
    assert "X-Tenant" in problem["message"]
    wanted = {"propagatedHeaders": ["X-Tenant"]}
    (await api.put("/topics/shop.tenants", json=wanted)).raise_for_status()
    assert (await api.post(f"{subscriptions}/picky/{path}", json=body)).status_code == 202


async def test_a_topic_keeps_the_headers_that_filters_name(api: httpx.AsyncClient) -> None:
    subscriptions = await tenants(api, "X-Tenant", "X-Shop", "X-Other")
    (await api.post(subscriptions, json=picky(BY_TENANT, name="a"))).raise_for_status()
    by_shop = cel("headers['x-shop'] == '1' && body.a == 1")
    (await api.post(subscriptions, json=picky(by_shop, name="b"))).raise_for_status()
    topic = subscriptions.removesuffix("/subscriptions")
    refused = await api.put(topic, json={"propagatedHeaders": ["X-Other"]})
    assert refused.status_code == 400
    (problem,) = refused.json()["details"]
    assert problem["path"] == "propagatedHeaders"
    assert "x-shop, x-tenant" in problem["message"]
    assert "a, b" in problem["message"]
    kept = await api.put(topic, json={"propagatedHeaders": ["x-tenant", "X-SHOP"]})
    assert kept.status_code == 200
    (await api.put(f"{subscriptions}/a", json={"filters": []})).raise_for_status()
    (await api.delete(f"{subscriptions}/b")).raise_for_status()
    assert (await api.put(topic, json={"propagatedHeaders": []})).status_code == 200


async def test_a_subscription_from_before_is_changed_as_long_as_its_filters_stay(
    api: httpx.AsyncClient, database: Database
) -> None:
    subscriptions = await tenants(api)
    (await api.post(subscriptions, json=picky())).raise_for_status()
    async with database.transaction() as session:
        repository = SubscriptionRepository(session)
        stored = await repository.get("shop.tenants", "picky")
        old = Filter(type=FilterType.HEADER, header="X-Tenant", matcher="a")
        await repository.update(replace(stored, filters=(old,)))
    path = f"{subscriptions}/picky"
    assert (await api.put(path, json={"description": "as before"})).status_code == 200
    assert (await api.put(f"{path}/state", json="SUSPENDED")).status_code == 200
    topic = subscriptions.removesuffix("/subscriptions")
    assert (await api.put(topic, json={"description": "as before"})).status_code == 200
    twice = {"filters": [BY_TENANT, BY_TENANT]}
    assert (await api.put(path, json=twice)).status_code == 400
