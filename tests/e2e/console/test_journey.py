"""The way of a new user who has only the console, in a real browser."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.cli import Place
from tests.e2e.console.endpoint import Endpoint, an_endpoint

# Pages follow by themselves, as fast as a busy machine lets them.
PATIENCE_MS = 60_000


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with an_endpoint() as endpoint:
        yield endpoint


@pytest.fixture
def console(page: Page, served_place: Place) -> Page:
    page.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    page.goto(f"{served_place.url}/console/")
    return page


def test_from_nothing_to_a_delivered_message_and_a_failing_endpoint_understood(
    console: Page, endpoint: Endpoint
) -> None:
    create_topic(console, "journey.orders")
    create_subscription(console, "billing", endpoint.url)
    expect(console.locator("#state")).to_contain_text("active")

    publish(console, "journey.orders", '{"order": 1}')
    expect(console.locator("#trace")).to_contain_text("success")
    assert endpoint.bodies == [b'{"order": 1}']

    endpoint.status = 400
    publish(console, "journey.orders", '{"order": 2}')
    expect(console.locator("#trace")).to_contain_text("discarded")
    console.locator("#trace").get_by_role("link", name="billing").first.click()
    expect(console.locator("#errors")).to_contain_text("400")
    console.locator("#errors summary").click()
    expect(console.locator("#errors")).to_contain_text('"order": 2')


def test_a_dangerous_action_asks_first_and_says_what_it_means(
    console: Page, endpoint: Endpoint
) -> None:
    create_topic(console, "confirmed.orders")
    create_subscription(console, "billing", endpoint.url)
    console.get_by_role("button", name="Suspend").click()
    dialog = console.get_by_role("dialog")
    expect(dialog).to_contain_text("Nothing is sent until you resume it")
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_be_hidden()
    console.get_by_role("button", name="Suspend").click()
    dialog.get_by_role("button", name=re.compile("Do it|Suspend")).click()
    expect(console.get_by_role("status")).to_contain_text("It is suspended")
    expect(console.get_by_role("button", name="Resume")).to_be_visible()


def test_the_keyboard_leads_to_sections_and_to_the_search(console: Page) -> None:
    console.keyboard.press("g")
    console.keyboard.press("t")
    expect(console.get_by_role("heading", level=1)).to_have_text("Topics")
    console.keyboard.press("/")
    expect(console.locator("#find")).to_be_focused()
    console.keyboard.type("orders")
    console.keyboard.press("Enter")
    expect(console).to_have_url(re.compile(r"/console/search\?q=orders$"))


def create_topic(page: Page, name: str) -> None:
    page.get_by_role("navigation", name="Sections").get_by_role("link", name="Topics").click()
    page.get_by_role("link", name="New topic").click()
    page.locator("[name=name]").fill(name)
    page.get_by_role("button", name="Create the topic").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)


def create_subscription(page: Page, name: str, endpoint: str) -> None:
    page.get_by_role("link", name="New subscription").click()
    page.locator("[name=name]").fill(name)
    page.locator("[name=endpoint]").fill(endpoint)
    page.get_by_role("button", name="Create the subscription").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)


def publish(page: Page, topic: str, body: str) -> None:
    page.get_by_role("navigation", name="Sections").get_by_role("link", name="Topics").click()
    page.locator("#topics").get_by_role("link", name=topic).click()
    page.get_by_role("link", name="Publish a message").click()
    page.locator("textarea[name=body]").fill(body)
    page.get_by_role("button", name=re.compile("Publish")).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Message")
