"""Signing in, what a key may do, and forms of others."""

import asyncio

import httpx
import pytest

from tests.cases import for_each
from tests.integration.api.console.browser import HTML, PATIENCE_S, Browser, seen
from tests.integration.api.guarded import Guarded, guarded

SUBSCRIPTION = "/topics/shop.orders/subscriptions/billing"
FORM_COOKIE = "angelia_form"
SESSION = "angelia_session"


def key_of(headers: dict[str, str]) -> str:
    return headers["Authorization"].removeprefix("Bearer ")


async def filled(api: Guarded) -> None:
    await api.make("/topics", {"name": "shop.orders", "owner": {"id": "Shop"}})
    body = {"name": "billing", "endpoint": "http://subscriber.test/", "owner": {"id": "Billing"}}
    await api.make("/topics/shop.orders/subscriptions", body)


async def test_a_reader_signs_in_comes_back_and_signs_out(postgres_url: str) -> None:
    async with guarded(postgres_url) as api:
        await filled(api)
        browser = Browser(http=api.http)
        asked = await browser.look("/topics/shop.orders?tab=x")
        assert asked.response.url.path == "/console/sign-in"
        wrong = await browser.sign_in("ang_wrong")
        assert wrong.response.status_code == 401
        back = asked.response.url.params["back"]
        signed = await browser.send("/sign-in", key=key_of(api.admin), back=back)
        assert signed.response.url.path == "/console/topics/shop.orders"
        assert "first" in signed.words
        out = await browser.send("/", "sign-out")
        assert out.response.url.path == "/console/sign-in"
        assert (await browser.look("/")).response.url.path == "/console/sign-in"


async def test_the_session_is_a_cookie_that_only_the_console_gets(postgres_url: str) -> None:
    async with guarded(postgres_url) as api:
        page = await Browser(http=api.http).look("/sign-in")
        sent = {"form_token": page.token, "key": key_of(api.admin)}
        proxied = {**HTML, "X-Forwarded-Proto": "https"}
        signed = await api.http.post("/console/sign-in", data=sent, headers=proxied)
        said = signed.headers["set-cookie"]
        assert said.startswith(f"{SESSION}=v1.")
        assert said.endswith("; HttpOnly; SameSite=Strict; Secure")
        assert key_of(api.admin) not in said
        assert signed.headers["location"] == "./"


@for_each(
    "back",
    ["//evil.test", "https://evil.test", "/\\evil.test", "\\evil", "javascript:alert(1)"],
)
async def test_signing_in_leads_to_no_other_site(guarded_api: Guarded, back: str) -> None:
    page = await Browser(http=guarded_api.http).look("/sign-in")
    sent = {"form_token": page.token, "key": key_of(guarded_api.admin), "back": back}
    signed = await guarded_api.http.post("/console/sign-in", data=sent)
    assert signed.headers["location"] == "./"


async def test_a_revoked_key_ends_its_session_at_once(postgres_url: str) -> None:
    async with guarded(postgres_url) as api:
        made = await api.http.post(
            "/keys", json={"name": "shop", "scopes": ["read"]}, headers=api.admin
        )
        browser = Browser(http=api.http)
        assert (await browser.sign_in(made.json()["key"])).response.url.path == "/console/"
        live = {"Accept": "text/event-stream"}
        async with (
            asyncio.timeout(PATIENCE_S),
            api.http.stream("GET", "/console/", headers=live) as stream,
        ):
            await api.http.delete(f"/keys/{made.json()['id']}", headers=api.admin)
            assert (await browser.look("/")).response.url.path == "/console/sign-in"
            text = "".join([line async for line in stream.aiter_lines()])
        assert "event: over" in text


async def test_what_a_key_may_not_do_is_not_offered_and_refused(postgres_url: str) -> None:
    async with guarded(postgres_url) as api:
        await filled(api)
        reader = await api.key("read")
        browser = Browser(http=api.http)
        await browser.sign_in(key_of(reader))
        shown = await browser.look(SUBSCRIPTION)
        assert "Delivered" in shown.words
        for offered in ("Suspend", "Edit", "Ping", "Delete this subscription"):
            assert offered not in shown.words
        for done in ("resumed", "saved&undo=subscriptionPolicy.rate%3D7"):
            assert "Undo" not in (await browser.look(f"{SUBSCRIPTION}?done={done}")).words
        saved = "/topics/shop.orders?done=saved&undo=throughputQuota%3D7"
        assert "Undo" not in (await browser.look(saved)).words
        secure = {"endpoint": "https://subscriber.test/"}
        changed = await api.http.put(SUBSCRIPTION, json=secure, headers=api.admin)
        certificates = await browser.look(f"{SUBSCRIPTION}/certificates")
        assert changed.is_success
        assert "(mutual TLS) refuses messages. Which endpoints" in certificates.words
        topic = await browser.look("/topics/shop.orders")
        for offered in ("New subscription", "Publish a message", "Delete this topic"):
            assert offered not in topic.words
        assert "New topic" not in (await browser.look("/topics")).words
        for path, fields in (
            (f"{SUBSCRIPTION}/state", {"do": "suspend"}),
            (f"{SUBSCRIPTION}/delete", {"confirmed": "billing"}),
            (f"{SUBSCRIPTION}/ping", {}),
            ("/topics/shop.orders/publish", {"body": "{}", "id": "a"}),
            ("/topics/shop.orders/delete", {"confirmed": "shop.orders"}),
            ("/new-topic", {"name": "shop.more", "ack": "ALL"}),
        ):
            sent = {"form_token": shown.token, **fields}
            sent["form_token"] = (await browser.look("/")).token
            refused = await api.http.post(f"/console{path}", data=sent, headers=HTML)
            assert refused.status_code in {401, 403}, (path, refused.text)


async def test_an_owner_is_offered_what_is_theirs(postgres_url: str) -> None:
    async with guarded(postgres_url) as api:
        await filled(api)
        browser = Browser(http=api.http)
        await browser.sign_in(key_of(await api.key("owner:Billing")))
        assert "Suspend" in (await browser.look(SUBSCRIPTION)).words
        assert "Delete this topic" not in (await browser.look("/topics/shop.orders")).words
        done = await browser.send(SUBSCRIPTION, "billing/state", do="suspend")
        assert "It is suspended" in done.words
        assert "Undo" in done.words
        saved = "?done=saved&undo=subscriptionPolicy.rate%3D7"
        assert "Undo" in (await browser.look(f"{SUBSCRIPTION}{saved}")).words
        [event] = [each for each in await api.events() if each["action"] == "UPDATED"]
        assert event["actor"] == "somebody", event


async def test_read_only_mode_offers_nothing_that_changes(postgres_url: str) -> None:
    async with guarded(postgres_url) as api:
        await filled(api)
        owner = await api.key("owner:Billing", "owner:Shop")
        await api.http.post("/mode", params={"mode": "readOnly"}, headers=api.admin)
        browser = Browser(http=api.http)
        await browser.sign_in(key_of(owner))
        shown = await browser.look(SUBSCRIPTION)
        assert "read-only" in shown.words
        assert "Suspend" not in shown.words
        token = (await browser.look("/")).token
        sent = {"form_token": token, "do": "suspend"}
        refused = await api.http.post(f"/console{SUBSCRIPTION}/state", data=sent, headers=HTML)
        assert refused.status_code == 503
        assert "read-only mode" in seen(refused).words


@pytest.mark.usefixtures("subscription")
async def test_a_form_of_another_page_changes_nothing(
    browser: Browser, api: httpx.AsyncClient
) -> None:
    shown = await browser.look(SUBSCRIPTION)
    url = f"/console{SUBSCRIPTION}/state"
    for token, headers in (
        ("", {}),
        ("0" * 64, {}),
        (shown.token, {"Origin": "http://evil.test"}),
        (shown.token, {"Origin": "null"}),
        (shown.token, {"Sec-Fetch-Site": "cross-site"}),
        (shown.token, {"Sec-Fetch-Site": "same-site"}),
    ):
        sent = {"form_token": token, "do": "suspend"}
        refused = await api.post(url, data=sent, headers={**HTML, **headers})
        assert refused.status_code == 403, headers
    api.cookies.clear()
    refused = await api.post(url, data={"form_token": shown.token, "do": "suspend"}, headers=HTML)
    assert refused.status_code == 403
    state = await api.get("/topics/shop.orders/subscriptions/billing/state")
    assert state.json() != "SUSPENDED"


async def test_a_form_is_bound_to_the_session_that_got_it(postgres_url: str) -> None:
    async with guarded(postgres_url) as api:
        await filled(api)
        browser = Browser(http=api.http)
        await browser.sign_in(key_of(api.admin))
        other = (await browser.look(SUBSCRIPTION)).token
        api.http.cookies.clear()
        await browser.sign_in(key_of(api.admin))
        sent = {"form_token": other, "do": "suspend"}
        refused = await api.http.post(f"/console{SUBSCRIPTION}/state", data=sent, headers=HTML)
        assert refused.status_code == 403
