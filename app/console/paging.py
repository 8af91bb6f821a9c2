"""Pages of a list: the API's `Link`, as a parameter of our own pages."""

import re
from typing import Final
from urllib.parse import parse_qs

from app.console.api import ApiAnswer

_NEXT: Final = re.compile(r'<[^>]*\?([^>]*)>; rel="next"')


def next_after(answer: ApiAnswer) -> str | None:
    """Return where the next page begins; None if this is the last."""
    found = _NEXT.search(answer.headers.get("link", ""))
    return None if found is None else parse_qs(found[1])["after"][0]
