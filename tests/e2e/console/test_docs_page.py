"""The page of the REST API in a browser."""

from playwright.sync_api import Page, expect

from tests.e2e.cli import Place


def test_the_page_of_the_api_shows_its_calls_by_capability(page: Page, served_place: Place) -> None:
    page.goto(f"{served_place.url}/docs")
    page.get_by_role("heading", name="operations").get_by_role("button").click()
    expect(page.get_by_text("/consistency", exact=False).first).to_be_visible()
