"""Reads where the next page of a list begins, from the header `Link` of an API answer."""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qs

from app.console.api import ApiAnswer

_NEXT: Final = re.compile(r'<[^>]*\?([^>]*)>; rel="next"')


def next_after(answer: ApiAnswer) -> str | None:
    """Return the parameter `after` of the next page; None if this page is the last."""
    found = next_query(answer)
    return None if found is None else found["after"]


def next_query(answer: ApiAnswer) -> Mapping[str, str] | None:
    """Return all query parameters of the next page; None if this page is the last."""
    found = _NEXT.search(answer.headers.get("link", ""))
    if found is None:
        return None
    return {name: values[0] for name, values in parse_qs(found[1]).items()}
