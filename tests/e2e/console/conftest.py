"""A browser, and pages in it that notice what a person would not see."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.e2e.console.watched import Watched
from tests.servers.browser import running_browser


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One browser for all tests of this folder; each test has a profile of its own in it."""
    with running_browser() as browser:
        yield browser


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """An empty page. At the end of the test, nothing may have gone wrong in it unseen."""
    context = browser.new_context(locale="en-GB", timezone_id="Europe/Berlin")
    page = context.new_page()
    watched = Watched(page)
    yield page
    context.close()
    assert watched.problems == []
