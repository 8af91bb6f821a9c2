"""The curl commands that pages show: they do what the forms of the pages do."""

import json
from pathlib import Path

import httpx

from app.console.rendering import SHOWN_MAX
from tests.fakes.authority import Authority
from tests.integration.api.console.browser import HTML, Browser
from tests.integration.api.console.commands import curls_of, request_of

TOPIC = "/topics/shop.orders"
SUBSCRIPTION = f"{TOPIC}/subscriptions/billing"


async def test_commands_do_what_forms_do(
    browser: Browser, api: httpx.AsyncClient, unused_port: int
) -> None:
    await browser.run("/new-topic?name=shop.orders")
    endpoint = f'"endpoint": "http://joe:secret@127.0.0.1:{unused_port}/"'
    blanks = {'"name": ""': '"name": "billing"', '"endpoint": "http://"': endpoint}
    await browser.run(f"{TOPIC}/new-subscription", blanks)
    for settings in (TOPIC, SUBSCRIPTION):
        before = (await api.get(settings)).json()
        await browser.run(f"{settings}/edit", {"?dryRun=true": ""})
        assert (await api.get(settings)).json() == before
    [published] = await browser.run(f"{TOPIC}/publish")
    assert published.headers["hermes-message-id"]
    await browser.run(f"{TOPIC}/schema", {'"schema": ""': '"schema": "{}"'})
    await browser.run(SUBSCRIPTION)
    assert (await api.get(f"{SUBSCRIPTION}/state")).json() == "SUSPENDED"
    for page in ("move", "filters", "ledger"):
        await browser.run(f"{SUBSCRIPTION}/{page}")
    assert [each["kind"] for each in (await api.get("/jobs")).json()] == ["LEDGER"]
    await browser.run(f"{SUBSCRIPTION}/resend?only=all&from=-1h")
    retransmissions = (await api.get(f"{SUBSCRIPTION}/retransmissions")).json()
    assert sorted(each["dryRun"] for each in retransmissions) == [False, True]
    for page in ("/operations", "/new-job"):
        await browser.run(page)
    [key] = await browser.run("/new-key", {'""': '"shop"', "[]": '["read"]'})
    await browser.run("/keys")
    assert (await api.get("/keys")).json()[0]["id"] == key.json()["id"]
    [simulation] = await browser.run(f"{SUBSCRIPTION}/simulate")
    await browser.run(f"/jobs/{simulation.json()['id']}")
    for page in (SUBSCRIPTION, TOPIC):
        await browser.run(f"{page}/delete")
    assert (await api.get("/topics")).json() == []


async def test_commands_make_and_remove_signing_secrets(
    browser: Browser, api: httpx.AsyncClient, subscription: str
) -> None:
    [first] = await browser.run(f"{subscription}/secrets")
    second = await api.post(f"{subscription}/secrets", json={})
    # Of many secrets, the page shows only how the first one is removed.
    third, _ = await browser.run(f"{subscription}/secrets")
    made = {each.json()["id"] for each in (first, second, third)}
    left = {each["id"] for each in (await api.get(f"{subscription}/secrets")).json()}
    assert left < made
    assert len(left) == 2


async def test_commands_set_and_remove_a_client_certificate(
    browser: Browser, api: httpx.AsyncClient, subscription: str, tmp_path: Path
) -> None:
    (await api.put(subscription, json={"endpoint": "https://subscriber.test/"})).raise_for_status()
    joe = Authority(tmp_path).client("joe")
    page, blanks = (
        f"{subscription}/certificates",
        {
            '"certificate": ""': f'"certificate": {json.dumps(joe.chain)}',
            '"*****"': json.dumps(joe.private_key),
        },
    )
    await browser.run(page, blanks)
    assert (await api.get(subscription)).json()["clientCertificate"]["certificate"] == joe.chain
    replaced, removed, _ = await browser.run(page, blanks)
    assert replaced.json()["clientCertificate"]["certificate"] == joe.chain
    assert "clientCertificate" not in removed.json()


async def test_a_page_says_that_a_long_body_is_in_a_file(browser: Browser, topic: str) -> None:
    schema = json.dumps({"description": "x" * SHOWN_MAX})
    page = await browser.send(f"/topics/{topic}/schema", do="check", schema=schema)
    assert "--data-binary @body.json" in page.words
    assert "The command sends it from the file body.json ." in page.words


async def test_commands_lead_where_the_proxy_is(browser: Browser) -> None:
    outside = {
        **HTML,
        "X-Forwarded-Proto": "https",
        "X-Forwarded-Host": "angelia.example",
        "X-Forwarded-Prefix": "/eu",
    }
    page = await browser.http.get("/console/topics", headers=outside)
    roots = {str(request_of(line).url).partition("?")[0] for line in curls_of(page.text)}
    assert roots == {"https://angelia.example/eu/query/topics/metrics"}
