"""What may be created by whom, and where messages of others may be sent."""

from collections.abc import Mapping

import pytest

from tests.cases import for_each
from tests.integration.api.guarded import Guarded, guarded

PATH = "/topics/shop.orders/subscriptions"


@pytest.fixture
async def shop(guarded_api: Guarded) -> Guarded:
    """An API with keys for its callers, and with a group."""
    await guarded_api.make("/groups", {"groupName": "shop"})
    return guarded_api


async def created(api: Guarded, scope: str, *, path: str, body: Mapping[str, object]) -> int:
    """The status that the holder of a scope gets; 403 with the right code."""
    answer = await api.http.post(path, json=body, headers=await api.key(scope))
    if answer.status_code == 403:
        assert answer.json()["code"] == "PERMISSION_DENIED"
    return answer.status_code


@for_each(
    ("scope", "name", "owner", "status"),
    [
        ("group:shop", "shop.a", "Anybody", 201),
        ("group:shop", "new.a", "Anybody", 403),
        ("owner:Shop", "shop.a", "Shop", 201),
        ("owner:Shop", "shop.a", "Other", 403),
        # Its group is not there, and would be created.
        ("owner:Shop", "new.a", "Shop", 403),
        ("topic:shop.a", "shop.a", "Anybody", 201),
        ("topic:shop.b", "shop.a", "Anybody", 403),
        ("subscription:shop.a/s", "shop.a", "Anybody", 403),
        ("group:new", "new.a", "Anybody", 201),
    ],
)
async def test_topics_are_created_by_their_owners(
    shop: Guarded, scope: str, name: str, *, owner: str, status: int
) -> None:
    body = {"name": name, "owner": {"id": owner}}
    assert await created(shop, scope, path="/topics", body=body) == status
    assert await shop.delete(f"/topics/{name}") is (status == 201)


@for_each(
    ("scope", "owner", "restricted", "status"),
    [
        ("owner:Billing", "Billing", False, 201),
        ("owner:Billing", "Other", False, 403),
        ("owner:Billing", "Billing", True, 403),
        ("subscription:shop.orders/billing", "Anybody", False, 201),
        ("subscription:shop.orders/billing", "Anybody", True, 403),
        ("subscription:shop.orders/other", "Anybody", False, 403),
        ("owner:Shop", "Anybody", True, 201),
        ("group:shop", "Anybody", True, 201),
        ("admin", "Anybody", True, 201),
    ],
)
async def test_subscriptions_are_created_by_their_owners_where_the_topic_lets_them(
    shop: Guarded, scope: str, owner: str, *, restricted: bool, status: int
) -> None:
    topic = {"name": "shop.orders", "owner": {"id": "Shop"}, "subscribingRestricted": restricted}
    assert (await shop.make("/topics", topic)).json()["subscribingRestricted"] is restricted
    body = {"name": "billing", "endpoint": "http://h.test/", "owner": {"id": owner}}
    assert await created(shop, scope, path=PATH, body=body) == status
    assert await shop.delete(f"{PATH}/billing") is (status == 201)
    assert await shop.delete("/topics/shop.orders")


async def test_messages_are_not_sent_by_detours_where_one_may_not_publish(
    postgres_url: str,
) -> None:
    async with guarded(postgres_url) as api:
        for name in ("shop.orders", "shop.dead", "other.topic"):
            await api.make("/topics", {"name": name})
        shop = await api.key("group:shop", name="shop")

        async def status(method: str, path: str, body: dict[str, object]) -> int:
            answer = await api.http.request(method, path, json=body, headers=shop)
            return answer.status_code

        base: dict[str, object] = {"name": "s", "endpoint": "http://h.test/"}
        assert await status("POST", PATH, base | {"deadLetter": {"topic": "other.topic"}}) == 403
        assert await status("POST", PATH, base | {"deadLetter": {"topic": "shop.dead"}}) == 201
        assert await status("PUT", f"{PATH}/s", {"deadLetter": {"topic": "other.topic"}}) == 403
        assert await status("PUT", "/topics/shop.orders", {"alternateTopic": "other.topic"}) == 403
        assert await status("PUT", "/topics/shop.orders", {"alternateTopic": "shop.dead"}) == 200
        # What an admin has set may be sent back as it is.
        admins = {"json": {"deadLetter": {"topic": "other.topic"}}, "headers": api.admin}
        assert (await api.http.put(f"{PATH}/s", **admins)).status_code == 200  # type: ignore[arg-type]  # as httpx takes it
        again: dict[str, object] = {"deadLetter": {"topic": "other.topic"}, "description": "x"}
        assert await status("PUT", f"{PATH}/s", again) == 200


async def test_jobs_about_one_topic_are_its_owners_to_ask_for(postgres_url: str) -> None:
    async with guarded(postgres_url) as api:
        await api.make("/topics", {"name": "shop.orders"})
        shop = await api.key("topic:shop.orders")
        kind: dict[str, object] = {"kind": "UNDELIVERED_ANALYTICS"}
        about_all = await api.http.post("/jobs", json=kind, headers=shop)
        assert about_all.status_code == 403
        about_one = await api.http.post("/jobs", json=kind | {"topic": "shop.orders"}, headers=shop)
        assert about_one.status_code == 202
        other = await api.key("group:other")
        path = about_one.headers["Location"]
        assert (await api.http.delete(path, headers=other)).status_code == 403
        assert (await api.http.delete(path, headers=shop)).status_code == 200


async def test_publishers_keys_are_not_passed_on(postgres_url: str) -> None:
    async with guarded(postgres_url) as api:
        body = {"name": "shop.orders", "propagatedHeaders": ["X-A", "authorization"]}
        refused = await api.http.post("/topics", json=body, headers=api.admin)
        assert [each["path"] for each in refused.json()["details"]] == ["propagatedHeaders.1"]
