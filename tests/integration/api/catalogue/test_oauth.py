"""OAuth providers, and the policies of subscriptions, through the API."""

from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from app.config import Settings
from app.main import create_app
from app.storage.database import Database
from tests.cases import for_each
from tests.fakes.memory_log import MemoryLog
from tests.integration.api.server import given, serving
from tests.integration.storage.builders import changes_after

MASK = "******"
PROVIDER: dict[str, Any] = {
    "name": "login",
    "tokenEndpoint": "https://login.example.com/token",
    "clientId": "angelia",
    "clientSecret": "s3cr3t",
    "tokenRequestInitialDelay": 1,
    "tokenRequestMaxDelay": 1000,
    "requestTimeout": 500,
    "socketTimeout": 0,
}
SHOWN = PROVIDER | {
    "clientSecret": MASK,
    "tokenEndpointAuthMethod": "client_secret_post",
    "owners": [],
    "endpointHosts": [],
    "scopes": [],
}
BY_CLIENT = {"grantType": "clientCredentials", "providerName": "login", "scope": "orders.write"}
BY_USER = {
    "grantType": "password",
    "providerName": "login",
    "username": "me",
    "password": "hunter2",
}
PROVIDERS = "/oauth/providers"
LOGIN = f"{PROVIDERS}/login"
BILLING = "/topics/shop.orders/subscriptions/billing"


@pytest.fixture
async def login(api: httpx.AsyncClient) -> None:
    (await api.post(PROVIDERS, json=PROVIDER)).raise_for_status()


async def subscribe(
    api: httpx.AsyncClient, policy: dict[str, Any] | None, **others: object
) -> httpx.Response:
    body = {"name": "billing", "endpoint": "http://h.test/", "oAuthPolicy": policy} | others
    return await api.post("/topics/shop.orders/subscriptions", json=body)


async def secrets_of(database: Database) -> tuple[str, str | None]:
    """The client's secret and the user's password, as those who send get them."""
    [subscription] = (await changes_after(database, 0)).subscriptions
    provider, policy = subscription.oauth_provider, subscription.oauth
    assert provider is not None
    assert policy is not None
    return provider.client_secret, policy.password


def problems(refused: httpx.Response) -> dict[str, str]:
    assert refused.status_code == 400, refused.text
    return {each["path"]: each["message"] for each in refused.json()["details"]}


async def test_a_provider_is_created_and_shown_without_its_secret(api: httpx.AsyncClient) -> None:
    created = await api.post(PROVIDERS, json=PROVIDER)
    assert (created.status_code, created.headers["location"]) == (201, LOGIN)
    assert created.json() == SHOWN
    assert (await api.get(LOGIN)).json() == SHOWN
    assert (await api.get(PROVIDERS)).json() == ["login"]


async def test_a_provider_needs_no_times(api: httpx.AsyncClient) -> None:
    names = ("name", "tokenEndpoint", "clientId", "clientSecret")
    created = await api.post(PROVIDERS, json={name: PROVIDER[name] for name in names})
    read = created.json()
    assert read["tokenRequestInitialDelay"] == 1000
    assert read["tokenRequestMaxDelay"] == 30_000
    assert (read["requestTimeout"], read["socketTimeout"]) == (1000, 0)


@pytest.mark.usefixtures("login")
async def test_a_provider_is_changed_by_a_patch(api: httpx.AsyncClient) -> None:
    changed = await api.put(
        LOGIN, json={"requestTimeout": 900, "tokenEndpointAuthMethod": "client_secret_basic"}
    )
    wanted = SHOWN | {"requestTimeout": 900, "tokenEndpointAuthMethod": "client_secret_basic"}
    assert (changed.status_code, changed.json()) == (200, wanted)
    assert changed.headers["angelia-applied"] == "false"
    assert (await api.get(LOGIN)).json() == wanted


@pytest.mark.usefixtures("login")
@for_each(
    "endpoint",
    [
        "https://elsewhere.test/token",
        "http://login.example.com/token",
        "https://login.example.com:8443/token",
    ],
)
async def test_the_secret_does_not_follow_a_token_endpoint_to_another_place(
    api: httpx.AsyncClient, endpoint: str
) -> None:
    before = (await api.get(LOGIN)).json()
    patch = {"tokenEndpoint": endpoint}
    for kept in ({}, {"clientSecret": MASK}):
        refused = problems(await api.put(LOGIN, json=patch | kept))
        assert refused["clientSecret"].startswith("must be given again: tokenEndpoint has another")
        assert (await api.get(LOGIN)).json() == before
    assert (await api.put(LOGIN, json=patch | {"clientSecret": "s3cr3t"})).status_code == 200
    at_the_host = {"tokenEndpoint": f"{endpoint}s?tenant=1"}
    assert (await api.put(LOGIN, json=at_the_host)).status_code == 200


async def test_a_provider_that_is_not_there_is_not_found(api: httpx.AsyncClient) -> None:
    for answer in (
        await api.get(LOGIN),
        await api.put(LOGIN, json={"requestTimeout": 900}),
        await api.delete(LOGIN),
    ):
        assert answer.status_code == 404
        assert answer.json()["code"] == "OAUTH_PROVIDER_NOT_EXISTS"


@pytest.mark.usefixtures("login")
async def test_there_is_one_provider_of_a_name(api: httpx.AsyncClient) -> None:
    refused = await api.post(PROVIDERS, json=PROVIDER)
    assert (refused.status_code, refused.json()["code"]) == (400, "OAUTH_PROVIDER_ALREADY_EXISTS")


@pytest.mark.usefixtures("login")
async def test_a_provider_may_not_be_at_an_address_that_is_not_dialled(
    api: httpx.AsyncClient,
) -> None:
    private = {"tokenEndpoint": "http://169.254.169.254/token"}
    for refused in (
        await api.post(PROVIDERS, json=PROVIDER | {"name": "another"} | private),
        await api.put(LOGIN, json=private | {"clientSecret": "s3cr3t"}),
    ):
        assert "the local link" in problems(refused)["tokenEndpoint"]
    assert (await api.get(PROVIDERS)).json() == ["login"]
    assert (await api.get(LOGIN)).json() == SHOWN


async def test_the_longest_delay_is_not_the_shorter_one(api: httpx.AsyncClient) -> None:
    refused = await api.post(PROVIDERS, json=PROVIDER | {"tokenRequestMaxDelay": 0})
    assert problems(refused) == {
        "tokenRequestMaxDelay": "must be at least tokenRequestInitialDelay"
    }


@pytest.mark.parametrize("mask", [MASK, "*****"])
@pytest.mark.usefixtures("topic", "login")
async def test_a_masked_secret_sent_back_is_the_one_there_is(
    api: httpx.AsyncClient, *, database: Database, mask: str
) -> None:
    (await subscribe(api, BY_USER)).raise_for_status()
    provider = (await api.get(LOGIN)).json() | {"clientSecret": mask, "clientId": "other"}
    assert (await api.put(LOGIN, json=provider)).json()["clientId"] == "other"
    policy = (await api.get(BILLING)).json()["oAuthPolicy"] | {"password": mask, "scope": "x"}
    assert (await api.put(BILLING, json={"oAuthPolicy": policy})).json()["oAuthPolicy"] == (
        BY_USER | {"password": MASK, "scope": "x"}
    )
    assert await secrets_of(database) == ("s3cr3t", "hunter2")


@pytest.mark.usefixtures("topic", "login")
async def test_another_secret_replaces_the_one_there_is(
    api: httpx.AsyncClient, *, database: Database
) -> None:
    (await subscribe(api, BY_USER)).raise_for_status()
    assert (await api.put(LOGIN, json={"clientSecret": "new"})).json() == SHOWN
    changed = await api.put(BILLING, json={"oAuthPolicy": {"password": "newer"}})
    assert changed.json()["oAuthPolicy"]["password"] == MASK
    assert await secrets_of(database) == ("new", "newer")


@pytest.mark.usefixtures("topic", "login")
async def test_a_mask_is_no_secret_where_there_is_none(api: httpx.AsyncClient) -> None:
    refused = await api.post(PROVIDERS, json=SHOWN | {"name": "copy"})
    assert problems(refused) == {"clientSecret": "is masked, as answers show it: give the real one"}
    refused = await subscribe(api, BY_USER | {"password": MASK})
    assert problems(refused) == {
        "oAuthPolicy.password": "is masked, as answers show it: give the real one"
    }


@pytest.mark.parametrize("policy", [BY_CLIENT, BY_USER], ids=["client", "user"])
@pytest.mark.usefixtures("topic", "login")
async def test_a_subscription_is_shown_with_its_policy(
    api: httpx.AsyncClient, *, policy: dict[str, Any]
) -> None:
    created = await subscribe(api, policy)
    assert created.status_code == 201, created.text
    shown = policy | ({"password": MASK} if "password" in policy else {})
    assert created.json()["oAuthPolicy"] == shown
    assert (await api.get(BILLING)).json()["oAuthPolicy"] == shown


@pytest.mark.usefixtures("topic", "login")
async def test_a_grant_has_two_names(api: httpx.AsyncClient) -> None:
    created = await subscribe(api, BY_USER | {"grantType": "usernamePassword"})
    assert created.json()["oAuthPolicy"]["grantType"] == "password"


@pytest.mark.usefixtures("topic", "login")
async def test_a_policy_is_taken_back(api: httpx.AsyncClient) -> None:
    await subscribe(api, BY_CLIENT)
    assert "oAuthPolicy" not in (await api.put(BILLING, json={"oAuthPolicy": None})).json()
    assert (await api.delete(LOGIN)).status_code == 200


@pytest.mark.usefixtures("topic", "login")
async def test_a_provider_that_is_used_is_not_deleted_and_it_is_said_by_whom(
    api: httpx.AsyncClient,
) -> None:
    for number in range(12):
        await subscribe(api, BY_CLIENT, name=f"s{number:02}")
    refused = await api.delete(LOGIN)
    assert (refused.status_code, refused.json()["code"]) == (409, "OAUTH_PROVIDER_IN_USE")
    message = refused.json()["message"]
    assert "shop.orders/s00, shop.orders/s01" in message
    assert message.endswith("shop.orders/s09 and 2 more")
    assert (await api.get(LOGIN)).json() == SHOWN
    for number in range(12):
        await api.delete(f"/topics/shop.orders/subscriptions/s{number:02}")
    assert (await api.delete(LOGIN)).status_code == 200
    assert (await api.get(PROVIDERS)).json() == []


@pytest.mark.usefixtures("topic", "login")
@for_each(
    ("wrong", "path", "says"),
    [
        ({"providerName": "none"}, "oAuthPolicy.providerName", "that exists: none"),
        ({"grantType": "password"}, "oAuthPolicy.username", "1 to 1000"),
        ({"grantType": "password", "username": "me"}, "oAuthPolicy.password", "1 to 4096"),
        ({"username": "me"}, "oAuthPolicy.username", "unless grantType is password"),
        ({"password": "x"}, "oAuthPolicy.password", "unless grantType is password"),
    ],
)
async def test_a_policy_that_cannot_be_is_refused_and_its_field_named(
    api: httpx.AsyncClient,
    *,
    wrong: dict[str, str],
    path: str,
    says: str,
) -> None:
    refused = await subscribe(api, BY_CLIENT | wrong)
    assert says in problems(refused)[path]
    (await subscribe(api, None)).raise_for_status()
    assert says in problems(await api.put(BILLING, json={"oAuthPolicy": BY_CLIENT | wrong}))[path]
    (await api.delete(BILLING)).raise_for_status()


@pytest.mark.parametrize(
    "other",
    [
        {"endpoint": "http://me:secret@h.test/"},
        {"headers": [{"name": "authorization", "value": "Basic eA=="}]},
    ],
    ids=["endpoint", "headers"],
)
@pytest.mark.usefixtures("topic", "login")
async def test_there_is_one_authorization(api: httpx.AsyncClient, *, other: dict[str, Any]) -> None:
    assert (
        "must be absent while" in problems(await subscribe(api, BY_CLIENT, **other))["oAuthPolicy"]
    )


async def test_no_secret_is_stored_without_a_key(postgres_url: str, log: MemoryLog) -> None:
    settings = Settings(database_url=SecretStr(postgres_url), auth="off")
    app = create_app(settings, database_url=postgres_url, log=given(log))
    async with serving(app) as api:
        refused = await api.post(PROVIDERS, json=PROVIDER)
        assert (refused.status_code, refused.json()["code"]) == (503, "SECRET_KEY_MISSING")
        assert "ANGELIA_SECRET_KEY" in refused.json()["message"]
        assert (await api.get(PROVIDERS)).json() == []


async def test_what_is_done_to_providers_is_audited_without_their_secrets(
    api: httpx.AsyncClient,
) -> None:
    (await api.post(PROVIDERS, json=PROVIDER)).raise_for_status()
    (await api.put(LOGIN, json={"clientSecret": "another"})).raise_for_status()
    (await api.put(LOGIN, json={"requestTimeout": 900})).raise_for_status()
    (await api.delete(LOGIN)).raise_for_status()
    audit = await api.get("/audit")
    events = [each for each in audit.json() if each["kind"] == "oauthProvider"]
    assert [each["action"] for each in events] == ["REMOVED", "UPDATED", "UPDATED", "CREATED"]
    assert {each["name"] for each in events} == {"login"}
    assert "s3cr3t" not in audit.text
    assert "another" not in audit.text
