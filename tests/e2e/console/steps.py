"""What a person does in the console, step by step."""

import re
from typing import Final

from playwright.sync_api import Page, expect

# All waits end by what they wait for, as soon as a busy machine lets them.
PATIENCE_MS: Final = 120_000


def has_opened(page: Page, heading: str | re.Pattern[str]) -> None:
    """Wait for the page with this heading, and until its scripts have run.

    Before that keys lead nowhere.
    """
    expect(page.get_by_role("heading", level=1)).to_have_text(heading)
    page.wait_for_load_state()


def create_topic(page: Page, name: str) -> None:
    page.get_by_role("navigation", name="Sections").get_by_role("link", name="Topics").click()
    page.get_by_role("link", name="New topic").click()
    page.locator("[name=name]").fill(name)
    page.get_by_role("button", name="Create the topic").click()
    has_opened(page, name)


def create_subscription(page: Page, name: str, endpoint: str) -> None:
    page.get_by_role("link", name="New subscription").click()
    page.locator("[name=name]").fill(name)
    page.locator("[name=endpoint]").fill(endpoint)
    page.get_by_role("button", name="Create the subscription").click()
    has_opened(page, name)


def publish(page: Page, topic: str, body: str) -> None:
    page.get_by_role("navigation", name="Sections").get_by_role("link", name="Topics").click()
    page.locator("#topics").get_by_role("link", name=topic).click()
    page.get_by_role("link", name="Publish a message").click()
    page.locator("textarea[name=body]").fill(body)
    page.get_by_role("button", name=re.compile("Publish")).click()
    has_opened(page, re.compile("Message"))


def open_tab(page: Page, title: str) -> None:
    page.get_by_role("navigation", name="Pages about it").get_by_role("link", name=title).click()


def send_all_again(page: Page) -> None:
    """Send all undelivered messages of the subscription that is open again."""
    open_tab(page, "Undelivered")
    page.get_by_role("link", name="Send all of these again").click()
    page.get_by_role("button", name="Send them again").click()
    expect(page.get_by_role("status")).to_contain_text("The messages are in the log again")
