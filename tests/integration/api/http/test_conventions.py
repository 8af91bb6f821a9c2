"""What all management routes share: ETags, idempotency keys, pages, modes, origins."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from pydantic import SecretStr

from app.config import Settings
from app.main import create_app
from tests.cases import for_each
from tests.fakes.keys import KEY
from tests.fakes.memory_log import MemoryLog
from tests.integration.api.guarded import bearer, guarded
from tests.integration.api.server import given, serving

JOB = {"kind": "UNDELIVERED_ANALYTICS"}
NEW = {"name": "billing", "endpoint": "http://h.test/"}


@pytest.fixture
async def pages(postgres_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """An API that pages of one origin may call."""
    settings = Settings(cors_origins=("https://console.test",), secret_key=SecretStr(KEY))
    app = create_app(settings, database_url=postgres_url, log=given(MemoryLog()))
    async with serving(app) as client:
        # Pages of others are refused before any route, so in no route's document.
        client.event_hooks = {}
        yield client


async def test_of_two_writers_who_read_the_same_one_is_told(
    api: httpx.AsyncClient, subscription: str, topic: str
) -> None:
    for path in (subscription, f"/topics/{topic}"):
        tag = {"If-Match": (await api.get(path)).headers["ETag"]}
        answers = await asyncio.gather(
            *(api.put(path, json={"description": each}, headers=tag) for each in "ab")
        )
        assert sorted(each.status_code for each in answers) == [200, 412]
        [won] = [each for each in answers if each.status_code == 200]
        [lost] = [each for each in answers if each.status_code == 412]
        assert lost.json()["code"] == "PRECONDITION_FAILED"
        now = await api.get(path)
        assert (now.headers["ETag"], now.json()) == (won.headers["ETag"], won.json())


async def test_what_has_changed_is_neither_suspended_nor_deleted(
    api: httpx.AsyncClient, subscription: str, topic: str
) -> None:
    old = {"If-Match": '"0", W/"1"'}
    for answer in (
        await api.put(f"{subscription}/state", json="SUSPENDED", headers=old),
        await api.delete(subscription, headers=old),
        await api.delete(f"/topics/{topic}", headers=old),
    ):
        assert answer.status_code == 412
    found = await api.get(subscription)
    assert found.json()["state"] != "SUSPENDED"
    for headers in ({"If-Match": found.headers["ETag"]}, {"If-Match": "*"}):
        suspended = await api.put(f"{subscription}/state", json="SUSPENDED", headers=headers)
        assert suspended.status_code == 200
    current = {"If-Match": suspended.headers["ETag"]}
    assert (await api.delete(subscription, headers=current)).status_code == 200


async def test_what_is_created_anew_under_an_old_name_has_another_tag(
    api: httpx.AsyncClient, subscription: str, topic: str
) -> None:
    old = {"If-Match": (await api.get(subscription)).headers["ETag"]}
    await api.delete(subscription)
    await api.post(f"/topics/{topic}/subscriptions", json=NEW)
    assert (await api.delete(subscription, headers=old)).status_code == 412


async def test_a_creation_that_is_sent_again_is_answered_again(
    api: httpx.AsyncClient, topic: str
) -> None:
    path, key = f"/topics/{topic}/subscriptions", {"Idempotency-Key": "k-1"}
    first = await api.post(path, json=NEW, headers=key)
    again = await api.post(path, json=NEW, headers=key)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.content == first.content
    for name in ("Location", "ETag", "Content-Type", "Angelia-Applied"):
        assert again.headers[name] == first.headers[name]
    assert again.headers["Angelia-Repeated"] == "true"
    assert "Angelia-Repeated" not in first.headers
    # Without the key, or with another, it is a request of its own.
    assert (await api.post(path, json=NEW)).status_code == 400


async def test_a_key_is_for_one_request(api: httpx.AsyncClient) -> None:
    key = {"Idempotency-Key": "k-2"}
    await api.post("/groups", json={"groupName": "a"}, headers=key)
    other = await api.post("/groups", json={"groupName": "b"}, headers=key)
    assert (other.status_code, other.json()["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")
    assert (await api.get("/groups")).json() == ["a"]


async def test_requests_at_once_under_one_key_create_once(api: httpx.AsyncClient) -> None:
    key = {"Idempotency-Key": "k-3"}
    answers = await asyncio.gather(
        *(api.post("/groups", json={"groupName": "a"}, headers=key) for _ in range(8))
    )
    assert {each.status_code for each in answers} <= {201, 409}
    under_way = {each.json()["code"] for each in answers if each.status_code == 409}
    assert under_way <= {"IDEMPOTENT_REQUEST_UNDER_WAY"}
    again = await api.post("/groups", json={"groupName": "a"}, headers=key)
    assert again.status_code == 201


async def test_what_was_refused_may_be_sent_again_corrected(api: httpx.AsyncClient) -> None:
    key = {"Idempotency-Key": "k-4"}
    assert (await api.post("/groups", json={"x": 1}, headers=key)).status_code == 400
    assert (await api.post("/groups", json={"groupName": "a"}, headers=key)).status_code == 201


@for_each("key", ["", "a b", "x" * 129, "ż"])
async def test_an_idempotency_key_that_cannot_be_is_named(api: httpx.AsyncClient, key: str) -> None:
    headers = [(b"Idempotency-Key", key.encode())]
    refused = await api.post("/groups", json={"groupName": "a"}, headers=headers)
    assert refused.status_code == 400
    assert refused.json()["details"][0]["path"] == "Idempotency-Key"


async def test_keys_of_one_caller_are_not_those_of_another(postgres_url: str) -> None:
    async with guarded(postgres_url) as api:
        key = {"Idempotency-Key": "k"}
        for scope in ("group:a", "group:b"):
            caller = await api.key(scope)
            body = {"groupName": scope[-1]}
            made = await api.http.post("/groups", json=body, headers={**caller, **key})
            assert made.status_code == 201


async def test_without_a_key_nobody_is_told_what_was_answered_before_there_were_keys(
    api: httpx.AsyncClient, postgres_url: str
) -> None:
    key, group = {"Idempotency-Key": "k"}, {"groupName": "a"}
    assert (await api.post("/groups", json=group, headers=key)).status_code == 201
    async with guarded(postgres_url) as later:
        for body in (group, {"groupName": "b"}):
            refused = await later.http.post("/groups", json=body, headers=key)
            assert (refused.status_code, refused.json()["code"]) == (401, "TOKEN_NOT_PROVIDED")


async def test_lists_of_names_come_in_pages(api: httpx.AsyncClient, topic: str) -> None:
    for name in "abcde":
        await api.post("/topics", json={"name": f"{name}.t"})
        body = {"name": name, "endpoint": "http://h.test/"}
        await api.post(f"/topics/{topic}/subscriptions", json=body)
    for path in ("/groups", "/topics", f"/topics/{topic}/subscriptions"):
        everything = (await api.get(path)).json()
        found, address = [], f"{path}?limit=2"
        while address:
            page = await api.get(address)
            assert len(page.json()) <= 2
            found += page.json()
            address = page.links.get("next", {}).get("url", "")
        assert found == everything == sorted(everything)


async def test_jobs_come_in_pages_the_newest_first(api: httpx.AsyncClient) -> None:
    made = [(await api.post("/jobs", json=JOB)).json()["id"] for _ in range(5)]
    found, address = [], "/jobs?limit=2"
    while address:
        page = await api.get(address)
        found += [job["id"] for job in page.json()]
        address = page.links.get("next", {}).get("url", "")
    assert found == made[::-1]
    refused = await api.get("/jobs", params={"after": "none"})
    assert [each["path"] for each in refused.json()["details"]] == ["after"]


async def test_a_page_that_cannot_be_is_named(api: httpx.AsyncClient) -> None:
    refused = await api.get("/topics", params={"limit": "0"})
    assert [each["path"] for each in refused.json()["details"]] == ["limit"]


async def test_in_read_only_modes_only_admins_change_anything(postgres_url: str) -> None:
    async with guarded(postgres_url) as api:
        owner = await api.key("group:shop")
        for mode in ("readOnly", "readOnlyAdmin"):
            refused = await api.http.post("/mode", params={"mode": mode}, headers=owner)
            assert refused.status_code == 403
            await api.http.post("/mode", params={"mode": mode}, headers=api.admin)
            assert (await api.http.get("/mode")).text == mode
            body = {"groupName": "shop"}
            frozen = await api.http.post("/groups", json=body, headers=owner)
            assert (frozen.status_code, frozen.json()) == (
                503,
                {"message": "Action forbidden due to read-only mode", "code": "OTHER"},
            )
            assert (await api.http.get("/groups", headers=owner)).status_code == 200
            await api.make("/groups", body)
            await api.http.delete("/groups/shop", headers=api.admin)
        await api.http.post("/mode", params={"mode": "readWrite"}, headers=api.admin)
        made = await api.http.post("/groups", json={"groupName": "shop"}, headers=owner)
        assert made.status_code == 201


async def test_without_access_control_a_read_only_mode_holds_for_everybody(
    api: httpx.AsyncClient, topic: str
) -> None:
    assert (await api.post("/mode", params={"mode": "closed"})).status_code == 400
    await api.post("/mode", params={"mode": "readOnly"})
    assert (await api.post("/groups", json={"groupName": "a"})).status_code == 503
    trial = {"filters": [], "message": ""}
    assert (await api.post(f"/filters/{topic}", json=trial)).status_code == 200
    assert (await api.post(f"/topics/{topic}", content=b"1")).status_code == 201
    await api.post("/mode", params={"mode": "readWrite"})
    assert (await api.post("/groups", json={"groupName": "a"})).status_code == 201


async def test_pages_of_a_listed_origin_may_call(pages: httpx.AsyncClient) -> None:
    asked = {"Origin": "https://console.test", "Access-Control-Request-Method": "PUT"}
    allowed = await pages.options("/topics", headers=asked)
    assert allowed.status_code == 200
    assert allowed.headers["Access-Control-Allow-Origin"] == "https://console.test"
    got = await pages.get("/topics", headers={"Origin": "https://console.test"})
    assert "ETag" in got.headers["Access-Control-Expose-Headers"]
    published = await pages.post("/topics/no.such", headers={"Origin": "https://console.test"})
    assert published.headers["Access-Control-Allow-Origin"] == "https://console.test"
    other = await pages.get("/topics", headers={"Origin": "https://elsewhere.test"})
    assert "Access-Control-Allow-Origin" not in other.headers


async def test_pages_may_read_every_header_that_answers_are_said_to_have(
    pages: httpx.AsyncClient,
) -> None:
    described = (await pages.get("/openapi.json")).json()
    said = {
        name.lower()
        for operations in described["paths"].values()
        for operation in operations.values()
        for answer in operation["responses"].values()
        for name in answer.get("headers", {})
    }
    got = await pages.get("/topics", headers={"Origin": "https://console.test"})
    assert said <= set(got.headers["Access-Control-Expose-Headers"].lower().split(", "))


async def test_no_origin_is_listed_by_default(api: httpx.AsyncClient) -> None:
    api.event_hooks = {}
    got = await api.get("/topics", headers={"Origin": "https://console.test"})
    assert got.status_code == 403
    assert not [name for name in got.headers if name.startswith("access-control")]


async def test_owners_are_any_text_in_one_register(api: httpx.AsyncClient) -> None:
    sources = await api.get("/owners/sources")
    plain = {"name": "Plaintext", "autocomplete": False, "deprecated": False}
    assert sources.json() == [plain]
    assert (await api.get("/owners/sources/Plaintext/Shop")).json() == {
        "id": "Shop",
        "name": "Shop",
    }
    for path, status, code in (
        ("Plaintext?search=S", 400, "OWNER_SOURCE_DOESNT_SUPPORT_AUTOCOMPLETE"),
        ("Other?search=S", 404, "OWNER_SOURCE_NOT_FOUND"),
        ("Other/Shop", 404, "OWNER_SOURCE_NOT_FOUND"),
    ):
        refused = await api.get(f"/owners/sources/{path}")
        assert (refused.status_code, refused.json()["code"]) == (status, code)


async def test_the_console_is_told_what_it_asks_first(api: httpx.AsyncClient) -> None:
    told = (await api.get("/console")).json()
    assert {"console", "auth", "owner", "topic", "subscription", "group"} <= set(told)
    kinds = [{"value": kind, "label": kind} for kind in ("JSON", "AVRO")]
    assert told["topic"]["contentTypes"] == kinds
    assert told["group"]["nonAdminCreationEnabled"] is True
    defaults = told["subscription"]["defaults"]["subscriptionPolicy"]
    assert defaults == {"messageTtl": 3600, "requestTimeout": 1000}


async def test_roles_are_those_of_the_caller(postgres_url: str) -> None:
    async with guarded(postgres_url) as api:
        await api.make("/topics", {"name": "shop.orders", "owner": {"id": "Shop"}})
        subscription = {**NEW, "owner": {"id": "Billing"}}
        await api.make("/topics/shop.orders/subscriptions", subscription)
        topic, below = "/roles/topics/shop.orders", "/roles/topics/shop.orders/subscriptions"
        shop, billing = await api.key("owner:Shop"), await api.key("owner:Billing")
        for path, headers, roles in (
            (topic, shop, ["any", "topicOwner"]),
            (topic, billing, ["any"]),
            (f"{below}/billing", shop, ["any", "topicOwner", "subscriptionOwner"]),
            (f"{below}/billing", billing, ["any", "subscriptionOwner"]),
            (f"{below}/none", billing, ["any"]),
            (topic, {}, []),
            (topic, api.admin, ["any", "admin", "topicOwner"]),
        ):
            assert (await api.http.get(path, headers=headers)).json() == roles, path
        assert (await api.http.get("/roles", headers=bearer("x"))).status_code == 401
