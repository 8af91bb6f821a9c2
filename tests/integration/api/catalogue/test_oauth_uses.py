"""Who may have tokens of an OAuth provider sent, and where to."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import psycopg
import pytest

from tests.cases import for_each
from tests.integration.api.guarded import Guarded, guarded

PROVIDER: dict[str, Any] = {
    "name": "login",
    "tokenEndpoint": "https://login.example.com/token",
    "clientId": "angelia",
    "clientSecret": "s3cr3t",
}
USES: dict[str, Any] = {
    "owners": [{"source": "Plaintext", "id": "Billing"}],
    "endpointHosts": ["api.test", "*.shop.test"],
    "scopes": ["orders.read", "orders.write"],
}
POLICY = {"grantType": "clientCredentials", "providerName": "login", "scope": "orders.write"}
LOGIN = "/oauth/providers/login"
PATH = "/topics/shop.orders/subscriptions"
BILLING = f"{PATH}/billing"


@pytest.fixture
async def shop(postgres_url: str) -> AsyncIterator[Guarded]:
    async with guarded(postgres_url) as api:
        await api.make("/topics", {"name": "shop.orders"})
        yield api


@pytest.fixture
async def login(shop: Guarded) -> None:
    """A provider that says what it is for."""
    await shop.make("/oauth/providers", PROVIDER | USES)


async def subscribed(
    api: Guarded, key: Mapping[str, str], policy: Mapping[str, object] | None, **settings: object
) -> tuple[int, str]:
    """The status of a creation, and what it is refused for."""
    body: dict[str, Any] = {
        "name": "billing",
        "endpoint": "https://api.test/in",
        "owner": {"id": "Billing"},
    }
    body |= settings | ({} if policy is None else {"oAuthPolicy": policy})
    answer = await api.http.post(PATH, json=body, headers=key)
    return answer.status_code, answer.json().get("message", "")


async def changed(
    api: Guarded, key: Mapping[str, str], patch: Mapping[str, object]
) -> tuple[int, str]:
    answer = await api.http.put(BILLING, json=patch, headers=key)
    return answer.status_code, answer.json().get("message", "")


async def test_a_provider_says_what_it_is_for(shop: Guarded) -> None:
    made = (await shop.make("/oauth/providers", PROVIDER | USES)).json()
    assert {name: made[name] for name in USES} == USES
    assert "warning" not in made
    patch = {"scopes": ["all"], "owners": None}
    read = (await shop.http.put(LOGIN, json=patch, headers=shop.admin)).json()
    assert (read["owners"], read["scopes"]) == ([], ["all"])
    assert read["endpointHosts"] == USES["endpointHosts"]


@pytest.mark.parametrize("lacking", [["owners", "endpointHosts", "scopes"], ["endpointHosts"]])
async def test_a_provider_that_says_not_whose_it_is_is_the_admins(
    shop: Guarded, *, lacking: list[str]
) -> None:
    uses = {name: value for name, value in USES.items() if name not in lacking}
    await shop.make("/oauth/providers", PROVIDER | uses)
    key = await shop.key("owner:Billing")
    status, message = await subscribed(shop, key, POLICY)
    assert status == 403
    assert "for admins alone: an admin may set its owners and endpointHosts" in message
    assert (await subscribed(shop, key, None))[0] == 201
    assert (await changed(shop, key, {"oAuthPolicy": POLICY}))[0] == 403
    assert (await changed(shop, shop.admin, {"oAuthPolicy": POLICY}))[0] == 200
    # It is an admin's now: who owns it changes what does not move its tokens.
    assert (await changed(shop, key, {"subscriptionPolicy": {"rate": 5}}))[0] == 200
    moved = {"endpoint": "https://api.test/other"}
    assert (await changed(shop, key, moved))[0] == 403
    assert (await changed(shop, key, {"oAuthPolicy": {"scope": "orders.read"}}))[0] == 403
    assert (await changed(shop, key, {"oAuthPolicy": None}))[0] == 200


@pytest.mark.usefixtures("login")
@for_each(
    ("scope", "status"),
    [
        ("owner:Billing", 201),
        ("owner:Plaintext/Billing", 201),
        ("owner:Crowd/Billing", 403),
        ("topic:shop.orders", 403),
        ("group:shop", 403),
        ("subscription:shop.orders/billing", 403),
        ("admin", 201),
    ],
)
async def test_a_provider_is_used_by_its_owners(shop: Guarded, *, scope: str, status: int) -> None:
    owner = {"source": "Crowd", "id": "Billing"} if "Crowd" in scope else {"id": "Billing"}
    assert (await subscribed(shop, await shop.key(scope), POLICY, owner=owner))[0] == status
    assert await shop.delete(BILLING) is (status == 201)


@pytest.mark.usefixtures("login")
@for_each(
    ("endpoint", "status"),
    [
        ("https://API.test:8443/in", 201),
        ("https://a.shop.test/{id}", 201),
        ("https://a.b.shop.test/", 201),
        ("https://shop.test/", 400),
        ("https://evilshop.test/", 400),
        ("https://api.test.evil.test/", 400),
    ],
)
async def test_tokens_go_to_the_hosts_of_their_provider(
    shop: Guarded, *, endpoint: str, status: int
) -> None:
    got, message = await subscribed(shop, shop.admin, POLICY, endpoint=endpoint)
    assert got == status
    if status == 400:
        assert "login may go to: api.test, *.shop.test" in message
        key = await shop.key("owner:Billing")
        assert (await subscribed(shop, key, POLICY))[0] == 201
        again = {"endpoint": endpoint, "oAuthPolicy": POLICY}
        assert (await changed(shop, key, again))[0] == 400
    assert await shop.delete(BILLING)


@pytest.mark.usefixtures("login")
@for_each(
    ("scope", "status"),
    [
        ("orders.read", 201),
        ("orders.write orders.read", 201),
        ("orders.read admin", 400),
        (None, 400),
    ],
)
async def test_tokens_are_for_the_scopes_of_their_provider(
    shop: Guarded, *, scope: str | None, status: int
) -> None:
    got, message = await subscribed(shop, shop.admin, POLICY | {"scope": scope})
    assert got == status
    if status == 400:
        assert "must be of those of OAuth provider login: orders.read, orders.write" in message
    assert await shop.delete(BILLING) is (status == 201)


async def test_a_provider_from_before_stays_everybodys_until_it_says_whose_it_is(
    shop: Guarded, postgres_url: str
) -> None:
    await shop.make("/oauth/providers", PROVIDER)
    with psycopg.connect(postgres_url) as connection:
        connection.execute("UPDATE oauth_providers SET unrestricted = true")
    key = await shop.key("owner:Billing")
    assert (await subscribed(shop, key, POLICY))[0] == 201
    read = (await shop.http.get(LOGIN, headers=key)).json()
    assert read["warning"].startswith("every owner of a subscription may use it: set owners")
    other = (
        await shop.http.put(LOGIN, json=read | {"requestTimeout": 900}, headers=shop.admin)
    ).json()
    assert other["warning"] == read["warning"]
    uses = {"owners": USES["owners"]}
    read = (await shop.http.put(LOGIN, json=uses, headers=shop.admin)).json()
    assert "warning" not in read
    assert (await changed(shop, key, {"oAuthPolicy": {"scope": "x"}}))[0] == 403
    read = (await shop.http.put(LOGIN, json={"owners": []}, headers=shop.admin)).json()
    assert "warning" not in read
