"""The way of a new user who has only the console, in a real browser."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Page, Route, expect

from tests.e2e.cli import Place, wait_until
from tests.e2e.console.endpoint import Endpoint, an_endpoint
from tests.e2e.console.steps import (
    create_subscription,
    create_topic,
    has_opened,
    open_tab,
    publish,
    send_all_again,
)

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with an_endpoint() as endpoint:
        yield endpoint


@pytest.fixture
def console(page: Page, served_place: Place) -> Page:
    page.goto(f"{served_place.url}/console/")
    return page


def test_from_nothing_to_a_delivered_message_and_a_failing_endpoint_understood(
    console: Page, endpoint: Endpoint
) -> None:
    create_topic(console, "journey.orders")
    create_subscription(console, "billing", endpoint.url)
    expect(console.locator("#state")).to_contain_text("active")

    publish(console, "journey.orders", '{"order": 1}')
    expect(console.locator("#trace")).to_contain_text("delivered billing")
    has_times_of_the_reader(console)
    assert endpoint.bodies == [b'{"order": 1}']

    endpoint.status = 400
    publish(console, "journey.orders", '{"order": 2}')
    expect(console.locator("#trace")).to_contain_text("discarded")
    console.locator("#trace").get_by_role("link", name="billing").first.click()
    expect(console.locator("#errors")).to_contain_text("400")
    console.locator("#errors summary").click()
    expect(console.locator("#errors")).to_contain_text('"order": 2')

    endpoint.status = 200
    send_all_again(console)
    wait_until(lambda: endpoint.bodies.count(b'{"order": 2}') == 2, "it was not sent again")
    expect(console.get_by_role("main")).to_contain_text("sent again")


def test_the_settings_and_the_schema_of_a_topic_are_changed(console: Page) -> None:
    create_topic(console, "changed.orders")
    open_tab(console, "Settings")
    console.locator("[name=propagatedHeaders]").fill("X-Tenant")
    console.get_by_role("button", name="Show what changes").click()
    expect(console.locator(".diff")).to_contain_text("propagatedHeaders")
    console.get_by_role("button", name="Save").click()
    expect(console.get_by_role("status")).to_contain_text("The change is saved")
    expect(console.get_by_role("link", name="Undo")).to_be_visible()
    expect(console).to_have_url(re.compile(r"/console/topics/changed\.orders$"))
    open_tab(console, "Schema")
    console.locator("[name=schema]").fill('{"type": "object", "required": ["order"]}')
    console.get_by_role("button", name="Check it").click()
    console.get_by_role("button", name="Make it version 1").click()
    expect(console.get_by_role("main")).to_contain_text("held against version 1")


def test_a_dangerous_action_asks_first_and_says_what_it_means(
    console: Page, endpoint: Endpoint
) -> None:
    create_topic(console, "confirmed.orders")
    create_subscription(console, "billing", endpoint.url)
    console.get_by_role("button", name="Suspend").click()
    dialog = console.get_by_role("dialog")
    expect(dialog).to_contain_text("Nothing is sent until you resume it")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    console.keyboard.press("Tab")
    expect(dialog.get_by_role("button", name="Suspend")).to_be_focused()
    console.keyboard.press("Tab")
    # Out of the page, and not to a control behind the dialog.
    assert console.evaluate("document.activeElement === document.body")
    console.keyboard.press("Tab")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    console.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(console.get_by_role("button", name="Suspend")).to_be_focused()
    console.get_by_role("button", name="Suspend").click()
    dialog.get_by_role("button", name=re.compile("Do it|Suspend")).click()
    expect(console.get_by_role("status")).to_contain_text("It is suspended")
    expect(console.get_by_role("button", name="Resume")).to_be_visible()


def test_an_action_asks_first_also_before_the_page_is_ready(
    console: Page, served_place: Place
) -> None:
    topic, billing = "topics/early.orders", {"name": "billing", "endpoint": "https://a.test/"}
    console.request.post(f"{served_place.url}/topics", data={"name": "early.orders"})
    console.request.post(f"{served_place.url}/{topic}/subscriptions", data=billing)
    held = list[Route]()

    def hold_first(route: Route) -> None:
        if held:
            route.continue_()
        else:
            held.append(route)

    console.route("**/console.js", hold_first)
    console.goto(f"{served_place.url}/console/{topic}/subscriptions/billing", wait_until="commit")
    console.get_by_role("button", name="Suspend").click()
    dialog = console.get_by_role("dialog")
    expect(dialog).to_contain_text("Nothing is sent until you resume it")
    dialog.get_by_role("button", name="Suspend").click()
    expect(console.get_by_role("status")).to_contain_text("It is suspended")
    assert held


def test_commands_lead_through_a_proxy_with_a_prefix(console: Page, served_place: Place) -> None:
    outside = f"{served_place.url}/eu/"

    def proxied(route: Route) -> None:
        inside = route.request.url.replace(outside, f"{served_place.url}/")
        route.fulfill(response=route.fetch(url=inside))

    console.route(f"{outside}**", proxied)
    console.goto(f"{outside}console/new-topic?name=proxied.orders")
    commands = console.locator(".calls code")
    expect(commands).to_have_count(1)
    expect(commands).to_have_text(re.compile(rf"^curl -X POST {re.escape(outside)}topics "))
    topic, billing = "topics/proxied.orders", {"name": "billing", "endpoint": "https://a.test/"}
    console.request.post(f"{served_place.url}/topics", data={"name": "proxied.orders"})
    console.request.post(f"{served_place.url}/{topic}/subscriptions", data=billing)
    console.goto(f"{outside}console/{topic}/subscriptions/billing/certificates")
    piped = re.compile(rf"^jq .* \| curl -X PUT {re.escape(outside)}{topic}/subscriptions/billing ")
    expect(console.get_by_role("main").locator("code", has_text="jq")).to_have_text(piped)


def has_times_of_the_reader(page: Page) -> None:
    """AssertionError if a time is not of Berlin, or has no UTC beside it."""
    # All at once: the list is a live part, and may grow meanwhile.
    times = page.locator("#trace time").evaluate_all(
        "(all) => all.map((each) => [each.dateTime, each.title, each.textContent])"
    )
    assert times
    for at, title, shown in times:
        moment = datetime.fromisoformat(at)
        assert f"{moment.astimezone(BERLIN):%H:%M}" in shown
        assert title == f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def test_the_keyboard_leads_to_the_content_to_sections_and_to_the_search(console: Page) -> None:
    console.keyboard.press("Tab")
    expect(console.get_by_role("link", name="Skip to the content")).to_be_in_viewport()
    console.keyboard.press("Enter")
    expect(console.get_by_role("main")).to_be_focused()
    # Of "g" and "t", one follows the other soon.
    console.clock.set_fixed_time(datetime.now(UTC))
    console.keyboard.press("g")
    console.keyboard.press("t")
    has_opened(console, "Topics")
    console.keyboard.press("/")
    expect(console.locator("#find")).to_be_focused()
    console.keyboard.type("orders")
    console.keyboard.press("Enter")
    expect(console).to_have_url(re.compile(r"/console/search\?q=orders$"))


def test_a_command_of_a_page_is_copied_as_it_is_shown(console: Page) -> None:
    console.context.grant_permissions(["clipboard-read", "clipboard-write"])
    console.get_by_text("This page by the API").click()
    first = console.get_by_role("contentinfo").get_by_role("listitem").first
    console.clock.install()
    console.clock.pause_at(datetime.now(UTC) + timedelta(hours=1))
    first.get_by_role("button", name="Copy").click()
    expect(first.get_by_role("button")).to_have_text("Copied")
    console.clock.run_for(1_500)
    expect(first.get_by_role("button")).to_have_text("Copy")
    copied = console.evaluate("navigator.clipboard.readText()")
    assert copied == first.locator("code").text_content()
    assert copied.startswith("curl ")
