"""Every page in a browser, with data: it has no unseen problems, and it is accessible."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from tests.e2e.cli import Place, wait_until
from tests.e2e.console.endpoint import Endpoint, an_endpoint
from tests.e2e.console.spark_results import do_jobs
from tests.e2e.console.watched import Watched

SHOTS: Final = Path(__file__).parents[3] / "build" / "console"
TOPIC: Final = "topics/looked.orders"
SUBSCRIPTION: Final = f"{TOPIC}/subscriptions/billing"
PAGES: Final[Mapping[str, str]] = {
    "now": "",
    "topics": "topics",
    "no-topic": "topics?q=nothing-has-this-name",
    "search": "search?q=orders",
    "new-topic": "new-topic",
    "topic": TOPIC,
    "topic-settings": f"{TOPIC}/edit",
    "schema": f"{TOPIC}/schema?version=1",
    "topic-delete": f"{TOPIC}/delete",
    "partitions": f"{TOPIC}/partitions",
    "newest": f"{TOPIC}/newest",
    "publish": f"{TOPIC}/publish",
    "message": f"{TOPIC}/messages/order-1",
    "delivered-message": f"{TOPIC}/messages/order-2",
    "messages": "messages?topic=looked.orders&text=order&since=-1h",
    "undelivered": "undelivered",
    "undelivered-of-topic": f"{TOPIC}/undelivered",
    "undelivered-of-subscription": f"{SUBSCRIPTION}/undelivered?since=-1d",
    "undelivered-again": f"{SUBSCRIPTION}/undelivered/again",
    "new-subscription": f"{TOPIC}/new-subscription",
    "subscription": SUBSCRIPTION,
    "edit": f"{SUBSCRIPTION}/edit?why=loss&fill=subscriptionPolicy.rate%3D900",
    "delete": f"{SUBSCRIPTION}/delete",
    "ledger": f"{SUBSCRIPTION}/ledger",
    "resend": f"{SUBSCRIPTION}/resend",
    "move": f"{SUBSCRIPTION}/move",
    "filters": f"{SUBSCRIPTION}/filters",
    "secrets": f"{SUBSCRIPTION}/secrets",
    "certificates": f"{SUBSCRIPTION}/certificates",
    "simulate": f"{SUBSCRIPTION}/simulate",
    "simulation": f"{SUBSCRIPTION}/simulate?id=SIMULATION",
    "failures": "analytics",
    "counts": "analytics/counts",
    "latency": "analytics/latency",
    "jobs": "jobs",
    "new-job": "new-job",
    "operations": "operations",
    "settings": "operations/settings",
    "keys": "keys",
    "new-key": "new-key",
    "changes": "audit",
}
# The pages that `make test` checks. `make test-long` checks all pages.
MOST_USED: Final = {"now", "topic", "publish", "subscription", "edit", "undelivered", "jobs"}
LOOKS: Final = {
    "light": {"color_scheme": "light", "viewport": {"width": 1200, "height": 900}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1200, "height": 900}},
    "phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 844}},
}
# What axe-core calls severe enough to keep somebody from using a page.
GRAVE: Final = {"serious", "critical"}


@dataclass(frozen=True, slots=True)
class Filled:
    """The console of a service that has a bit of everything."""

    url: str
    simulation: str

    def at(self, name: str) -> str:
        """The URL of a page."""
        return f"{self.url}{PAGES[name]}".replace("SIMULATION", self.simulation)


@pytest.fixture(scope="package")
def filled(served_place: Place) -> Iterator[Filled]:
    with an_endpoint() as endpoint, httpx.Client(base_url=served_place.url, timeout=60) as api:
        topic = {
            "name": "looked.orders",
            "description": "What customers ordered, as the shop took it.",
            "trackingMode": "trackingAll",
            "schema": '{"type": "object", "required": ["order"]}',
        }
        api.post("/topics", json=topic).raise_for_status()
        subscription = {
            "name": "billing",
            "endpoint": endpoint.url,
            "trackingMode": "trackingAll",
            "subscriptionPolicy": {"messageBackoff": 250},
        }
        api.post(f"/{TOPIC}/subscriptions", json=subscription).raise_for_status()
        retried(api, endpoint)
        endpoint.status = 400
        hostile = '{"order": "<script>alert(1)</script>\u202e", "line": "%s"}' % ("x" * 9_000)
        sent = {"Idempotency-Key": "order-1", "Content-Type": "application/json"}
        api.post(f"/{TOPIC}", content=hostile.encode(), headers=sent).raise_for_status()
        for kind in ("UNDELIVERED_ANALYTICS", "LATENCY_ANALYTICS"):
            slo = {"sloSeconds": 5} if kind == "LATENCY_ANALYTICS" else {}
            api.post("/jobs", json={"kind": kind, **slo}).raise_for_status()
        simulation = api.post(f"/{SUBSCRIPTION}/simulate", json={"rate": 20}).raise_for_status()
        do_jobs(served_place, 3)
        api.post("/jobs", json={"kind": "UNDELIVERED_ANALYTICS"}).raise_for_status()
        yield Filled(f"{served_place.url}/console/", simulation.json()["id"])


def retried(api: httpx.Client, endpoint: Endpoint) -> None:
    """Publish a message that is delivered at its second attempt or later."""
    endpoint.status = 503
    headers = {"Idempotency-Key": "order-2", "Content-Type": "application/json"}
    body = {"order": 2, "item": "coffee", "country": "PL"}
    api.post(f"/{TOPIC}", json=body, headers=headers).raise_for_status()
    wait_until(lambda: bool(endpoint.bodies), "there was no attempt")
    endpoint.status = 200
    metrics = f"/{SUBSCRIPTION}/metrics"
    wait_until(lambda: api.get(metrics).json()["delivered"] > 0, "it was not delivered")
    entries = f"/{TOPIC}/events/order-2/trace"
    wait_until(lambda: '"address"' in api.get(entries).text, "its trace was not stored")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in MOST_USED else pytest.mark.long) for name in PAGES],
)
def test_a_page_is_accessible(page: Page, filled: Filled, name: str) -> None:
    page.goto(filled.at(name))
    page.get_by_role("heading", level=1).wait_for()
    violations = Axe().run(page).response["violations"]
    grave = [(each["id"], each["nodes"]) for each in violations if each["impact"] in GRAVE]
    assert grave == []


@pytest.mark.long
@pytest.mark.parametrize("look", LOOKS)
def test_each_page_fits_in_each_look(browser: Browser, filled: Filled, look: str) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    context = browser.new_context(**LOOKS[look])  # type: ignore[arg-type] # a mapping of its options
    page = context.new_page()
    watched = Watched(page)
    for name in PAGES:
        page.goto(filled.at(name))
        page.get_by_role("heading", level=1).wait_for()
        page.screenshot(path=SHOTS / f"{name}-{look}.png", full_page=True)
        # Nothing but tables and code scrolls sideways, and these in their own boxes.
        assert page.evaluate(
            "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        ), name
    context.close()
    assert watched.problems == []
