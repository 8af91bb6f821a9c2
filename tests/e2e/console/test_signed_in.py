"""The console where the API asks for keys: signing in, and the pages about keys, in each look."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.cli import Place
from tests.e2e.console.looks import LOOKS, looking, photograph, problems_of
from tests.e2e.console.steps import has_opened

# Many pages, one after the other.
pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

_IS_COPIED = "token => navigator.clipboard.readText().then((text) => text === token)"


@dataclass(frozen=True, slots=True)
class Guarded:
    """A console that asks for keys, and the first key."""

    url: str
    key: str


@pytest.fixture
def guarded(place: Place) -> Iterator[Guarded]:
    asks = replace(place, settings={"ANGELIA_AUTH": "keys"})
    with asks.started("up") as up:
        up.says("Angelia is ready")
        [key] = set(re.findall(r"ang_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", up.output))
        yield Guarded(f"{asks.url}/console/", key)
        assert up.interrupt() == 0, up.output


def test_signing_in_and_the_pages_about_keys_are_accessible_in_each_look(
    browser: Browser, guarded: Guarded
) -> None:
    for look in LOOKS:
        with looking(browser, **LOOKS[look]) as page:
            is_accessible(refused(page, guarded), f"sign-in-refused-{look}")
            page.goto(guarded.url)
            is_accessible(page, f"sign-in-{look}")
            expect(page.locator("#key")).to_be_focused()
            page.keyboard.type(guarded.key)
            page.keyboard.press("Enter")
            page.get_by_role("button", name="Sign out").wait_for()
            is_accessible(page, f"signed-in-{look}")
            makes_a_key(page, guarded, look)
            page.get_by_role("button", name="Sign out").click()
            page.get_by_role("heading", name="Sign in").wait_for()


def makes_a_key(page: Page, guarded: Guarded, look: str) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{guarded.url}new-key")
    page.locator("[name=name]").fill(f"shop-{look}")
    page.locator("[name=scopes]").fill("read publish:shop.*")
    page.get_by_role("button", name="Create the key").click()
    page.get_by_role("button", name="Copy").click()
    is_accessible(page, f"key-made-{look}")
    token = page.get_by_role("main").locator(".copied code").text_content()
    page.wait_for_function(_IS_COPIED, arg=token)
    page.get_by_role("link", name="All keys").click()
    has_opened(page, "API keys")
    page.get_by_role("button", name="Revoke").first.click()
    expect(page.get_by_role("dialog")).to_contain_text("Programs that use it are refused at once")
    is_accessible(page, f"keys-{look}")
    page.keyboard.press("Escape")


def refused(page: Page, guarded: Guarded) -> Page:
    """The answer to a wrong key, in a page of its own: its status is a problem elsewhere."""
    other = page.context.new_page()
    other.goto(guarded.url)
    other.locator("#key").fill("ang_wrong")
    other.get_by_role("button", name="Sign in").click()
    other.get_by_role("alert").wait_for()
    return other


def is_accessible(page: Page, name: str) -> None:
    # The scripts have shown and marked what they do.
    page.wait_for_load_state()
    photograph(page, name)
    assert problems_of(page) == [], name
