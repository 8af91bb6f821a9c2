"""A walk over a page by the Tab key alone."""

from itertools import pairwise
from typing import Final, NamedTuple

from playwright.sync_api import Page

# Before a page is opened: it does not follow by itself, so that its controls stay as they are.
STANDS_STILL: Final = "window.EventSource = class extends EventTarget { close() {} };"
_CONTROLS: Final = """
  const controls = "a[href], button, input, select, textarea, summary,"
    + " [tabindex]:not([tabindex='-1'])";
  const name = (each) => [each.localName, each.id, each.name ?? "", each.value ?? "",
    each.getAttribute("href") ?? "", each.textContent.trim().slice(0, 40)].join("|");
"""
_SHOWN: Final = f"""() => {{ {_CONTROLS}
  return [...document.querySelectorAll(controls)]
    .filter((each) => each.checkVisibility() && !each.disabled && each.type !== "hidden")
    .map(name);
}}"""
_FOCUSED: Final = f"""() => {{ {_CONTROLS}
  const each = document.activeElement;
  if (each === null || each === document.body) return null;
  const box = each.getBoundingClientRect(), style = getComputedStyle(each);
  return {{
    name: name(each),
    is_control: each.matches(controls),
    is_marked: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2
      && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
    left: box.left + scrollX, right: box.right + scrollX,
    top: box.top + scrollY, bottom: box.bottom + scrollY,
  }};
}}"""
_STEPS_MAX: Final = 400


class Step(NamedTuple):
    """What has the focus, whether a reader sees that, and where it is on the page."""

    name: str
    is_control: bool
    is_marked: bool
    left: float
    right: float
    top: float
    bottom: float

    def is_before(self, other: "Step") -> bool:
        """Whether a reader comes to it before the other: it is above that, and not right of it."""
        return self.bottom <= other.top + 1 and self.left < other.right - 1


def controls(page: Page) -> list[str]:
    """All controls that the page shows, in their order in the document."""
    found: list[str] = page.evaluate(_SHOWN)
    return found


def tabbed(page: Page) -> list[Step]:
    """The controls that Tab leads to, one after the other, until it leads out of the page."""
    steps: list[Step] = []
    for _ in range(_STEPS_MAX):
        page.keyboard.press("Tab")
        focused = page.evaluate(_FOCUSED)
        if focused is None:
            return [each for each in steps if each.is_control]
        steps.append(Step(**focused))
    raise AssertionError(f"Tab does not lead out of {page.url}")


def backwards(steps: list[Step]) -> list[tuple[str, str]]:
    """The steps that lead back to what a reader comes to earlier."""
    return [(one.name, next_.name) for one, next_ in pairwise(steps) if next_.is_before(one)]
