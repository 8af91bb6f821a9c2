"""Every page in a browser, with data: it has no unseen problems, and it is accessible."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import httpx
import pytest
from playwright.sync_api import Browser, Page

from tests.e2e.cli import Place, wait_until
from tests.e2e.console.endpoint import Endpoint, an_endpoint
from tests.e2e.console.looks import LOOKS, looking, photograph, problems_of
from tests.e2e.console.spark_results import do_jobs
from tests.e2e.console.tabbing import STANDS_STILL, backwards, controls, tabbed

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
    "counted": f"{SUBSCRIPTION}/resend?only=all&from=-6h&looked={{counted}}",
    "move": f"{SUBSCRIPTION}/move",
    "filters": f"{SUBSCRIPTION}/filters",
    "secrets": f"{SUBSCRIPTION}/secrets",
    "certificates": f"{SUBSCRIPTION}/certificates",
    "simulate": f"{SUBSCRIPTION}/simulate",
    "simulation": f"{SUBSCRIPTION}/simulate?id={{simulation}}",
    "failures": "analytics",
    "counts": "analytics/counts",
    "latency": "analytics/latency",
    "jobs": "jobs",
    "job": "jobs/{job}",
    "new-job": "new-job",
    "operations": "operations",
    "settings": "operations/settings",
    "keys": "keys",
    "new-key": "new-key",
    "changes": "audit",
}
# The pages that `make test` checks. `make test-long` checks all pages.
MOST_USED: Final = {"now", "topic", "publish", "subscription", "edit", "undelivered", "jobs"}
# The pages on which somebody works most. `make test-long` walks over each by Tab alone.
WALKED: Final = (*sorted(MOST_USED), "topics", "message", "resend", "undelivered-of-subscription")


@dataclass(frozen=True, slots=True)
class Filled:
    """The console of a service that has a bit of everything."""

    url: str
    ids: Mapping[str, str]

    def at(self, name: str) -> str:
        """The URL of a page."""
        return f"{self.url}{PAGES[name].format_map(self.ids)}"


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
        api.post(f"/{SUBSCRIPTION}/secrets", json={}).raise_for_status()
        retried(api, endpoint)
        endpoint.status = 400
        hostile = '{"order": "<script>alert(1)</script>\u202e", "line": "%s"}' % ("x" * 9_000)
        sent = {"Idempotency-Key": "order-1", "Content-Type": "application/json"}
        api.post(f"/{TOPIC}", content=hostile.encode(), headers=sent).raise_for_status()
        yield Filled(f"{served_place.url}/console/", analysed(api, served_place))


def analysed(api: httpx.Client, place: Place) -> Mapping[str, str]:
    """Request a job of each kind that has a page, and let them end; the ids that pages show."""
    requested = {"job": "/jobs", "simulation": f"/{SUBSCRIPTION}/simulate"}
    bodies = {"job": {"kind": "UNDELIVERED_ANALYTICS"}, "simulation": {"rate": 20}}
    ids = {
        name: api.post(path, json=bodies[name]).raise_for_status().json()["id"]
        for name, path in requested.items()
    }
    dry_run = {"only": "all", "from": "-6h", "dryRun": True}
    counted = api.post(f"/{SUBSCRIPTION}/retransmission", json=dry_run).raise_for_status()
    latency = {"kind": "LATENCY_ANALYTICS", "sloSeconds": 5}
    api.post("/jobs", json=latency).raise_for_status()
    api.post(f"/{SUBSCRIPTION}/ledger").raise_for_status()
    do_jobs(place, 5)
    api.post("/jobs", json={"kind": "UNDELIVERED_ANALYTICS"}).raise_for_status()
    return {**ids, "counted": counted.headers["location"].rpartition("/")[2]}


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


@pytest.mark.parametrize("name", sorted(MOST_USED))
def test_a_page_is_accessible(page: Page, filled: Filled, name: str) -> None:
    page.goto(filled.at(name))
    page.get_by_role("heading", level=1).wait_for()
    assert problems_of(page) == []


@pytest.mark.long
@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("name", PAGES)
def test_each_page_is_accessible_in_each_look(
    browser: Browser, filled: Filled, name: str, look: str
) -> None:
    with looking(browser, **LOOKS[look]) as page:
        page.goto(filled.at(name))
        page.get_by_role("heading", level=1).wait_for()
        photograph(page, f"{name}-{look}")
        assert problems_of(page) == []


@pytest.mark.long
@pytest.mark.parametrize("name", WALKED)
def test_tab_alone_leads_to_each_control_in_the_order_in_which_it_is_read(
    page: Page, filled: Filled, name: str
) -> None:
    page.add_init_script(STANDS_STILL)
    page.goto(filled.at(name))
    page.get_by_role("heading", level=1).wait_for()
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    reached = tabbed(page)
    assert [each.name for each in reached] == controls(page)
    assert [each.name for each in reached if not each.is_marked] == []
    assert backwards(reached) == []
