"""A browser, and pages whose unseen problems fail the test."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.console.looks import looking
from tests.e2e.console.steps import PATIENCE_MS
from tests.servers.browser import running_browser


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One browser for all tests of this folder; each test has a profile of its own in it."""
    expect.set_options(timeout=PATIENCE_MS)
    with running_browser() as browser:
        yield browser


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """An empty page. The test fails if the page had problems that a person does not see."""
    with looking(browser, locale="en-GB", timezone_id="Europe/Berlin") as page:
        yield page
