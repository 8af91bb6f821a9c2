"""The pages: what they show and do, without scripts and without access control."""

import re
from pathlib import Path
from urllib.parse import urlencode, urljoin

import httpx
import pytest

from tests.cases import for_each
from tests.fakes.authority import Authority
from tests.integration.api.console.browser import HTML, Browser, Seen, event_of, seen
from tests.integration.api.console.commands import commands_of, form_curls_of

PAGE_BYTES_MAX = 60 * 1024
SUBSCRIPTION = "/topics/shop.orders/subscriptions/billing"
PAGES = (
    "/",
    "/topics",
    "/topics?q=orders",
    "/search?q=bill",
    "/new-topic",
    "/topics/shop.orders",
    "/topics/shop.orders/edit",
    "/topics/shop.orders/schema",
    "/topics/shop.orders/delete",
    "/topics/shop.orders/partitions",
    "/topics/shop.orders/newest",
    "/topics/shop.orders/publish",
    "/topics/shop.orders/new-subscription",
    SUBSCRIPTION,
    f"{SUBSCRIPTION}/edit",
    "/messages",
    "/messages?topic=shop.orders&text=x",
    "/undelivered",
    "/topics/shop.orders/undelivered?since=-6h",
    f"{SUBSCRIPTION}/undelivered?reason=timeout&status=404",
    f"{SUBSCRIPTION}/undelivered/again",
    f"{SUBSCRIPTION}/delete",
    f"{SUBSCRIPTION}/ledger",
    f"{SUBSCRIPTION}/resend",
    f"{SUBSCRIPTION}/simulate",
    "/analytics",
    "/analytics/counts?topic=shop.orders&by=hour",
    "/analytics/latency",
    "/jobs",
    "/jobs?state=FAILED",
    "/new-job",
    "/operations",
    "/operations/settings",
    "/keys",
    "/new-key",
    "/audit",
    f"{SUBSCRIPTION}/secrets",
    f"{SUBSCRIPTION}/certificates",
    f"{SUBSCRIPTION}/filters",
    f"{SUBSCRIPTION}/move",
)
RULES = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
}


@pytest.mark.usefixtures("subscription")
@for_each("path", PAGES)
async def test_each_page_keeps_the_rules(browser: Browser, path: str) -> None:
    page = await browser.look(path)
    keeps_the_rules(page)
    assert "curl " in page.words or path == "/messages"


def keeps_the_rules(page: Seen) -> None:
    """AssertionError if the page breaks a rule for all pages."""
    assert page.response.status_code == 200
    assert len(page.response.content) <= PAGE_BYTES_MAX
    assert {name: page.response.headers[name] for name in RULES} == RULES
    attributes = {name for _, named in page.tags for name in named}
    assert "style" not in attributes
    assert not any(name.startswith("on") for name in attributes)
    assert all(page.attributes("script", "src"))
    assert page.text.count("<script") == 2
    links = [*page.attributes("a", "href"), *page.attributes("form", "action")]
    assert not [each for each in links if each.startswith(("/", "http"))]
    assert bool(form_curls_of(page.text)) == ("post" in page.attributes("form", "method"))


async def test_a_page_of_certificates_keeps_the_rules(
    browser: Browser, api: httpx.AsyncClient, subscription: str, tmp_path: Path
) -> None:
    joe = Authority(tmp_path).client("joe")
    certificate = {"certificate": joe.chain, "privateKey": joe.private_key}
    for change in ({"endpoint": "https://subscriber.test/"}, {"clientCertificate": certificate}):
        (await api.put(subscription, json=change)).raise_for_status()
        page = await browser.look(f"{SUBSCRIPTION}/certificates")
        assert "post" in page.attributes("form", "method")
        keeps_the_rules(page)


@pytest.mark.usefixtures("subscription")
async def test_each_link_leads_to_a_page(browser: Browser) -> None:
    found_on: dict[str, str] = {}
    for path in PAGES:
        page = await browser.look(path)
        here = str(page.response.url)
        for link in {*page.attributes("a", "href"), *page.attributes("link", "href")}:
            if not link.startswith("#"):
                found_on.setdefault(urljoin(here, link), path)
    answers = {link: await browser.http.get(link, headers=HTML) for link in found_on}
    assert {link: found_on[link] for link in found_on if answers[link].status_code != 200} == {}


async def test_an_empty_install_says_the_next_step(browser: Browser) -> None:
    now = await browser.look("/")
    assert "Nothing is wrong" in now.words
    assert "Create the first topic" in now.words
    assert "No worker runs" in now.words
    topics = await browser.look("/topics")
    assert "There is no topic yet" in topics.words
    assert commands_of(now.text) == ["angelia worker"]
    assert commands_of(topics.text) == ["angelia topic create shop.orders"]


async def test_a_browser_is_sent_from_hermes_console_settings_to_ours(
    api: httpx.AsyncClient,
) -> None:
    sent = await api.get("/console", headers=HTML)
    assert (sent.status_code, sent.headers["location"]) == (307, "console/")
    assert (await api.get("/console")).json()["console"]["title"] == "Angelia"


async def test_a_reader_gets_from_nothing_to_a_message_by_forms_alone(browser: Browser) -> None:
    made = await browser.send("/new-topic", name="shop.orders", partitions="2", ack="ALL")
    assert str(made.response.url.path) == "/console/topics/shop.orders"
    assert "It is created" in made.words
    added = await browser.send(
        "/topics/shop.orders/new-subscription",
        name="billing",
        endpoint="http://subscriber.test/",
        startFrom="earliest",
        ordering="NONE",
        trackingMode="trackingOff",
        **{f"subscriptionPolicy.{name}": value for name, value in POLICY.items()},
    )
    assert added.response.url.path == f"/console{SUBSCRIPTION}", added.words
    sent = await browser.send(
        "/topics/shop.orders/publish", body='{"order": 7}', id="order-7", key="żółw"
    )
    assert sent.response.url.path == "/console/topics/shop.orders/messages/order-7", sent.words
    assert "The message is in the log" in sent.words
    newest = await browser.look("/topics/shop.orders/newest")
    assert "order-7" in newest.words
    assert "key żółw" in (await browser.look("/messages?topic=shop.orders&key=żółw")).words


POLICY = {
    "rate": "40",
    "requestTimeout": "1000",
    "messageTtl": "3600",
    "messageBackoff": "100",
    "backoffMultiplier": "1.5",
    "inflightSize": "10",
}
FORM = {
    "endpoint": "http://user:*****@subscriber.test/",
    "ordering": "NONE",
    "trackingMode": "trackingOff",
    "owner.id": "B",
    "suspendOnGone": "on",
    "subscriptionPolicy.adaptiveRate": "on",
    **{f"subscriptionPolicy.{name}": value for name, value in POLICY.items()},
}


@pytest.mark.usefixtures("topic")
async def test_wrong_fields_have_the_apis_errors_beside_them(browser: Browser) -> None:
    wrong = await browser.send("/new-topic", name="no group", partitions="0", ack="ALL")
    assert wrong.response.status_code == 400
    invalid = [named for _, named in wrong.tags if named.get("aria-invalid")]
    assert {each["name"] for each in invalid} == {"name", "partitions"}
    assert {each["value"] for each in invalid} == {"no group", "0"}
    assert "must be 1 to" in wrong.words
    again = await browser.send("/new-topic", name="shop.orders", ack="ALL")
    assert "already exists" in again.words


async def test_a_change_is_shown_before_it_is_saved(
    browser: Browser, api: httpx.AsyncClient, subscription: str
) -> None:
    shown = await browser.send(f"{SUBSCRIPTION}/edit", **FORM)
    assert "subscriptionPolicy.rate" in shown.words
    before = (await api.get(subscription)).json()
    assert before["subscriptionPolicy"]["rate"] != 40
    saved = await browser.confirm(shown)
    assert "The change is saved" in saved.words
    after = (await api.get(subscription)).json()
    assert after["subscriptionPolicy"]["rate"] == 40
    assert after["endpoint"] == before["endpoint"]
    # It was for the state that was shown: sent once more, it is refused.
    again = await browser.confirm(shown)
    assert again.response.status_code == 412
    assert "changed meanwhile" in again.words


async def test_a_saved_change_is_taken_back_by_the_form(
    browser: Browser, api: httpx.AsyncClient, subscription: str
) -> None:
    before = (await api.get(subscription)).json()
    rate = {"subscriptionPolicy.rate": "7", "subscriptionPolicy.maxRetries": "5"}
    form = await browser.look(f"{SUBSCRIPTION}/edit")
    saved = await browser.confirm(await browser.confirm(form, **rate, ordering="KEY"))
    assert (await api.get(subscription)).json()["ordering"] == "KEY"
    back = await browser.follow(saved, "Undo")
    assert "values from before the change" in back.words
    assert "Suggested: NONE. Now: KEY." in back.words
    shown = await browser.confirm(back)
    # Somebody else was faster.
    await api.put(subscription, json={"description": "theirs"})
    assert (await browser.confirm(shown)).response.status_code == 412
    again = await browser.follow(saved, "Undo")
    redo = await browser.confirm(await browser.confirm(again))
    now = (await api.get(subscription)).json()
    besides = {name: now[name] for name in ("modifiedAt", "state")}
    assert now == {**before, **besides, "description": "theirs"}
    assert "Suggested: KEY. Now: NONE." in (await browser.follow(redo, "Undo")).words


async def test_a_moved_endpoint_is_in_no_link(
    browser: Browser, api: httpx.AsyncClient, subscription: str
) -> None:
    moved = {"endpoint": "http://elsewhere.test/?key=s3cret", "subscriptionPolicy.rate": "7"}
    form = await browser.look(f"{SUBSCRIPTION}/edit")
    saved = await browser.confirm(await browser.confirm(form, **moved))
    assert "The change is saved" in saved.words
    assert "Undo" not in saved.words
    assert saved.response.url.query == b"done=saved"
    assert (await api.get(subscription)).json()["endpoint"] == moved["endpoint"]


@pytest.mark.usefixtures("subscription")
async def test_a_link_fills_in_a_form_as_little_as_a_reader_could(browser: Browser) -> None:
    hostile = urlencode(
        {"endpoint": "http://evil.test/", "subscriptionPolicy.rate": '"><script>alert(1)\u202e'}
    )
    form = await browser.look(f"{SUBSCRIPTION}/edit?{urlencode({'fill': hostile, 'why': 'x<'})}")
    assert "The link to this page has filled in the marked fields" in form.words
    assert "evil.test" not in form.text
    assert "<script>alert" not in form.text
    assert [named["name"] for _, named in form.tags if named.get("aria-invalid")] == []
    wrong = await browser.confirm(form)
    assert wrong.response.status_code == 400
    invalid = [named["name"] for _, named in wrong.tags if named.get("aria-invalid")]
    assert invalid == ["subscriptionPolicy.rate"]


@pytest.mark.usefixtures("subscription")
async def test_a_wrong_change_is_refused_at_its_field(browser: Browser) -> None:
    wrong = await browser.send(
        f"{SUBSCRIPTION}/edit", **{**FORM, "subscriptionPolicy.rate": "fast", "filters": "[1"}
    )
    assert wrong.response.status_code == 400
    invalid = [named["name"] for _, named in wrong.tags if named.get("aria-invalid")]
    assert invalid == ["subscriptionPolicy.rate", "filters"]


async def undone(browser: Browser, shown: Seen) -> Seen:
    """Press the button *Undo* of the message that is shown."""
    flash = re.search(r'<div class="flash">.*?</div>', shown.text, re.DOTALL)
    assert flash is not None
    pressed = re.search(r'action="([^"]+)".*value="(\w+)">Undo</button>', flash[0], re.DOTALL)
    assert pressed is not None, flash[0]
    url = urljoin(str(shown.response.url), pressed[1])
    sent = {"form_token": shown.token, "do": pressed[2]}
    return seen(await browser.http.post(url, data=sent, headers=HTML, follow_redirects=True))


async def test_a_subscription_is_suspended_resumed_and_deleted(
    browser: Browser, api: httpx.AsyncClient, subscription: str
) -> None:
    suspended = await browser.send(SUBSCRIPTION, "billing/state", do="suspend")
    assert "It is suspended" in suspended.words
    assert (await api.get(f"{subscription}/state")).json() == "SUSPENDED"
    resumed = await undone(browser, suspended)
    assert "It is resumed" in resumed.words
    late = await browser.look(f"{SUBSCRIPTION}?done=suspended")
    assert "Undo" not in late.words
    assert "It is suspended" in (await undone(browser, resumed)).words
    await browser.send(SUBSCRIPTION, "billing/state", do="resume")
    kept = await browser.send(f"{SUBSCRIPTION}/delete", confirmed="other")
    assert "Enter billing to delete it" in kept.words
    gone = await browser.send(f"{SUBSCRIPTION}/delete", confirmed="billing")
    assert gone.response.url.path == "/console/topics/shop.orders"
    assert (await api.get(subscription)).status_code == 400


async def test_a_page_follows_by_itself(
    browser: Browser, api: httpx.AsyncClient, subscription: str
) -> None:
    del subscription
    path = f"/console{SUBSCRIPTION}"
    first = await event_of(api, path, "event: part")
    assert first == "event: part"
    await browser.send(SUBSCRIPTION, "billing/state", do="suspend")
    assert "Suspended: nothing is sent" in await event_of(api, path, "Suspended: nothing is sent")


@for_each(
    ("path", "status"),
    [("/nothing", 404), ("/topics/no.such", 404), ("/static/x/console.css", 404)],
)
async def test_what_is_not_there_is_said(browser: Browser, path: str, status: int) -> None:
    page = await browser.look(path)
    assert page.response.status_code == status


async def test_static_files_are_kept_for_ever_under_their_digest(browser: Browser) -> None:
    page = await browser.look("/topics")
    [style] = [each for each in page.attributes("link", "href") if each.endswith(".css")]
    file = await browser.http.get(urljoin(str(page.response.url), style))
    assert file.headers["content-type"] == "text/css; charset=utf-8"
    assert "immutable" in file.headers["cache-control"]
    assert file.headers["x-content-type-options"] == "nosniff"


@pytest.mark.usefixtures("topic")
async def test_what_others_publish_does_no_harm(browser: Browser, api: httpx.AsyncClient) -> None:
    hostile = '{"a": "<script>alert(1)</script>", "b": "\u202egnp.exe"}'
    headers = {"Idempotency-Key": "<script>alert(2)</script>"}
    sent = await api.post("/topics/shop.orders", content=hostile.encode(), headers=headers)
    assert sent.status_code == 201
    page = await browser.look("/topics/shop.orders/newest")
    assert "gnp.exe" in page.text
    assert page.text.count("<script") == 2
    assert "\u202e" not in page.text
    found = await browser.look("/topics?q=%3Cscript%3Ealert(3)")
    assert "<script>alert" not in found.text
    missing = await browser.look("/topics/%3Cscript%3Ealert(4)%3C")
    assert "<script>alert" not in missing.text
