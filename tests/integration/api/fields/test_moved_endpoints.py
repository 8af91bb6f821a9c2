"""An endpoint that moves to another host: what was given for the one before does not go there."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cases import for_each
from tests.fakes.authority import Authority

PATH = "/topics/shop.orders/subscriptions/billing"
HEADERS = [{"name": "X-Api-Key", "value": "k3y"}, {"name": "X-Tenant", "value": "t"}]
MASKED = [{"name": "X-Api-Key", "value": "*****"}, {"name": "X-Tenant", "value": "t2"}]
LOGIN = {
    "name": "login",
    "tokenEndpoint": "https://login.example.com/token",
    "clientId": "angelia",
    "clientSecret": "s3cr3t",
}
BY_USER = {
    "grantType": "password",
    "providerName": "login",
    "username": "me",
    "password": "hunter2",
}
ELSEWHERE = {"endpoint": "https://elsewhere.test/in"}


async def subscribe(api: httpx.AsyncClient, **settings: object) -> None:
    body = {"name": "billing", "endpoint": "https://subscriber.test/in"} | settings
    (await api.post("/topics/shop.orders/subscriptions", json=body)).raise_for_status()


async def refusals(api: httpx.AsyncClient, patch: dict[str, Any], method: str = "PUT") -> list[str]:
    """The fields that a change is refused for, after which all is as it was."""
    before = (await api.get(PATH)).json()
    refused = await api.request(method, PATH, json=patch)
    if refused.status_code == 200:
        return []
    assert refused.status_code == 400, refused.text
    assert (await api.get(PATH)).json() == before
    details = refused.json()["details"]
    assert all("must be given again" in each["message"] for each in details)
    return [each["path"] for each in details]


@pytest.mark.usefixtures("topic")
@for_each(
    ("endpoint", "method"),
    [
        (endpoint, method)
        for endpoint in [
            "https://elsewhere.test/in",
            "http://subscriber.test/in",
            "https://subscriber.test:8443/in",
            "https://subscriber.test.evil.test/in",
            "https://u:p@elsewhere.test/in",
            "https://elsewhere.test/{id}",
        ]
        for method in ["PUT", "PATCH"]
    ],
)
async def test_headers_do_not_follow_an_endpoint_to_another_place(
    api: httpx.AsyncClient, *, endpoint: str, method: str
) -> None:
    await subscribe(api, headers=HEADERS)
    assert await refusals(api, {"endpoint": endpoint}, method) == ["headers"]
    sent_back = {"endpoint": endpoint, "headers": MASKED}
    assert await refusals(api, sent_back, method) == ["headers.0.value"]
    assert await refusals(api, {"endpoint": endpoint, "headers": HEADERS}, method) == []
    (await api.delete(PATH)).raise_for_status()


@pytest.mark.usefixtures("topic")
@for_each(
    "endpoint",
    [
        "https://subscriber.test/other",
        "https://subscriber.test:443/in",
        "HTTPS://Subscriber.TEST/{id}",
        "https://me:secret@subscriber.test/in",
    ],
)
async def test_headers_stay_where_the_endpoint_stays_at_its_host(
    api: httpx.AsyncClient, *, endpoint: str
) -> None:
    await subscribe(api, headers=HEADERS)
    assert await refusals(api, {"endpoint": endpoint, "headers": MASKED}) == []
    (await api.delete(PATH)).raise_for_status()


@pytest.mark.usefixtures("topic")
@for_each("nothing", [None, []])
async def test_headers_that_are_taken_out_are_not_asked_for(
    api: httpx.AsyncClient, *, nothing: list[object] | None
) -> None:
    await subscribe(api, headers=HEADERS)
    assert await refusals(api, ELSEWHERE | {"headers": nothing}) == []
    (await api.delete(PATH)).raise_for_status()


@pytest.mark.usefixtures("topic")
async def test_a_password_does_not_follow_an_endpoint_to_another_place(
    api: httpx.AsyncClient,
) -> None:
    await subscribe(api, endpoint="https://me:secret@subscriber.test/")
    refused = await api.put(PATH, json={"endpoint": "https://me:*****@elsewhere.test/"})
    assert refused.status_code == 400
    assert [each["path"] for each in refused.json()["details"]] == ["endpoint"]


@pytest.mark.usefixtures("topic")
async def test_an_oauth_policy_does_not_follow_an_endpoint_to_another_place(
    api: httpx.AsyncClient,
) -> None:
    (await api.post("/oauth/providers", json=LOGIN)).raise_for_status()
    await subscribe(api, oAuthPolicy=BY_USER)
    kept = ["oAuthPolicy.providerName", "oAuthPolicy.password"]
    assert await refusals(api, ELSEWHERE) == kept
    assert await refusals(api, ELSEWHERE | {"oAuthPolicy": {"username": "you"}}) == kept
    masked = BY_USER | {"password": "******"}
    assert await refusals(api, ELSEWHERE | {"oAuthPolicy": masked}) == kept[1:]
    assert await refusals(api, ELSEWHERE | {"oAuthPolicy": BY_USER}) == []
    assert await refusals(api, {"endpoint": "https://a.test/", "oAuthPolicy": None}) == []


@pytest.mark.usefixtures("topic")
async def test_a_certificate_does_not_follow_an_endpoint_to_another_place(
    api: httpx.AsyncClient, tmp_path: Path
) -> None:
    joe = Authority(tmp_path).client("joe")
    given = {"certificate": joe.chain, "privateKey": joe.private_key}
    await subscribe(api, clientCertificate=given, headers=HEADERS)
    kept = ["headers", "clientCertificate.privateKey"]
    assert await refusals(api, ELSEWHERE) == kept
    masked = given | {"privateKey": "*****"}
    assert await refusals(api, ELSEWHERE | {"clientCertificate": masked}) == kept
    again = ELSEWHERE | {"clientCertificate": given, "headers": HEADERS}
    assert await refusals(api, again) == []


@pytest.mark.usefixtures("topic")
async def test_signing_goes_on_at_the_other_place(api: httpx.AsyncClient) -> None:
    await subscribe(api)
    (await api.post(f"{PATH}/secrets", json={})).raise_for_status()
    before = (await api.get(PATH)).json()["signingSecrets"]
    assert await refusals(api, ELSEWHERE) == []
    assert (await api.get(PATH)).json()["signingSecrets"] == before
