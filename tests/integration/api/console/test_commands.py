"""The curl commands that pages show: they do what the forms of the pages do."""

import httpx

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
    for page in ("move", "filters", "secrets", "secrets", "ledger", "resend?only=all&from=-1h"):
        await browser.run(f"{SUBSCRIPTION}/{page}")
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
