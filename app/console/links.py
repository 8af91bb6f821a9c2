"""Makes the links between pages. Each link is relative to the page that contains it.

A proxy may serve the console below a prefix, which this process does not know. Relative links work
below every prefix.
"""

from typing import Final
from urllib.parse import quote, urlencode

_UNCHANGED: Final = "-._~"


class Links:
    """Makes the links of a page. `path` is its path below `PREFIX`, and begins with a slash."""

    def __init__(self, path: str) -> None:
        # The relative link from this page to the first page of the console: `./`, `../`, `../../`,
        # …
        self.root = "../" * (path.count("/") - 1) or "./"

    def __call__(self, *names: str, **query: str | int | None) -> str:
        """Return the link to a page. Each of `names` is one part of its path."""
        path = "/".join(quote(str(name), safe=_UNCHANGED) for name in names)
        text = urlencode({key: value for key, value in query.items() if value not in {None, ""}})
        return f"{self.root}{path}?{text}" if text else f"{self.root}{path}"

    def topic(self, topic: str, **query: str | int | None) -> str:
        """Return the link to the page of a topic."""
        return self("topics", topic, **query)

    def subscription(self, topic: str, name: str, *more: str, **query: str | int | None) -> str:
        """Return the link to the page of a subscription, or to a page below it."""
        return self("topics", topic, "subscriptions", name, *more, **query)
