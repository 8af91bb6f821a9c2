"""How pages are looked at: light, dark, and on a phone; and what axe-core finds in each look."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from tests.e2e.console.steps import PATIENCE_MS
from tests.e2e.console.watched import Watched

SHOTS: Final = Path(__file__).parents[3] / "build" / "console"
LOOKS: Final[Mapping[str, Mapping[str, Any]]] = {
    "light": {"color_scheme": "light", "viewport": {"width": 1200, "height": 900}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1200, "height": 900}},
    "phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 844}},
}
# What axe-core calls severe enough to keep somebody from using a page.
_GRAVE: Final = {"serious", "critical"}


@contextmanager
def looking(browser: Browser, **settings: Any) -> Iterator[Page]:  # noqa: ANN401 - as Playwright has them
    """An empty page in a profile with these settings, for example those of a look.

    AssertionError if it had problems that a person does not see.
    """
    context = browser.new_context(**settings)
    try:
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        watched = Watched(page)
        yield page
    finally:
        context.close()
    assert watched.problems == []


def problems_of(page: Page) -> list[tuple[str, object]]:
    """What axe-core finds that is grave, and whether the page is wider than its window."""
    violations = Axe().run(page).response["violations"]
    grave: list[tuple[str, object]] = [
        (each["id"], [node["html"][:300] for node in each["nodes"]])
        for each in violations
        if each["impact"] in _GRAVE
    ]
    # Nothing but tables and code scrolls sideways, and these in their own boxes.
    wide = page.evaluate(
        "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    )
    return [*grave, ("too wide", page.url)] if wide else grave


def photograph(page: Page, name: str) -> None:
    """Write a screenshot of the whole page into build/."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}.png", full_page=True)
