"""The whole walk of a new user who has only the console, on an empty install with Spark."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.cli import Place, wait_until
from tests.e2e.console.endpoint import an_endpoint
from tests.e2e.console.steps import (
    create_subscription,
    open_tab,
    publish,
    send_all_again,
)

pytestmark = pytest.mark.long

# A Spark job takes its session's start, too.
JOB_MS = 240_000


@pytest.fixture
def install() -> Iterator[Place]:
    """An install that nobody has used yet, with a Spark runner."""
    with tempfile.TemporaryDirectory(prefix="angelia-test-") as directory:
        place = Place(home=Path(directory) / "home", with_java=True)
        with place.started("up") as up:
            up.says("Angelia is ready")
            yield place
            assert up.interrupt() == 0, up.output
        wait_until(place.is_deserted, "a process was left behind")


def test_from_an_empty_install_to_a_ledger_that_proves_that_nothing_is_missing(
    page: Page, install: Place
) -> None:
    page.goto(f"{install.url}/console/")
    page.get_by_role("link", name="Create the first topic").click()
    page.locator("[name=name]").fill("walk.orders")
    page.get_by_role("button", name="Create the topic").click()
    with an_endpoint() as endpoint:
        create_subscription(page, "billing", endpoint.url)
        publish(page, "walk.orders", '{"order": 1}')
        expect(page.locator("#trace")).to_contain_text("delivered billing")

        endpoint.status = 400
        publish(page, "walk.orders", '{"order": 2}')
        expect(page.locator("#trace")).to_contain_text("discarded")
        page.locator("#trace").get_by_role("link", name="billing").first.click()
        expect(page.locator("#errors")).to_contain_text("400")
        endpoint.status = 200
        send_all_again(page)
        wait_until(lambda: endpoint.bodies.count(b'{"order": 2}') == 2, "it was not sent again")

        open_tab(page, "Ledger")
        page.get_by_role("button", name="Add an entry up to now").click()
        expect(page.locator("#job")).to_contain_text("It has ended", timeout=JOB_MS)
        page.locator("#job").get_by_role("link", name="The ledger").click()
        expect(page.get_by_role("main")).to_contain_text("Nothing is missing")
        expect(page.get_by_role("main")).to_contain_text("No entry was changed or removed")
