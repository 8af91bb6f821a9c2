"""Which headers an expression over a message names, and whether its topic has them."""

import re
from collections.abc import Collection, Iterator
from typing import Final

from app.domain.errors import ValidationFailedError

# Messages have these from their publishers whatever the topic propagates: traces, CloudEvents.
_ALWAYS: Final = frozenset({"traceparent", "tracestate"})
_ALWAYS_PREFIX: Final = "ce-"
_NAMED: Final = re.compile(
    r"""\bheaders\s*\[\s*(?P<a>['"])(?P<index>[^'"]*)(?P=a)\s*\]"""
    r"""|\bheaders\s*\.\s*(?P<member>\w+)"""
    r"""|(?P<b>['"])(?P<key>[^'"]*)(?P=b)\s+in\s+headers\b"""
)


def require_propagated(expression: str, propagated: Collection[str], *, path: str) -> None:
    """Refuse headers that no message of the topic can have; ValidationFailedError for `path`.

    `propagated`: the topic's `propagatedHeaders`.
    """
    known = {name.lower() for name in propagated} | _ALWAYS
    for name in _names(expression):
        if name.lower() not in known and not name.lower().startswith(_ALWAYS_PREFIX):
            message = f"names the header {name}, which propagatedHeaders must have, too"
            raise ValidationFailedError.of(path, message)
        if name != name.lower():
            message = f"names the header {name}: names are in lower case here, {name.lower()}"
            raise ValidationFailedError.of(path, message)


def _names(expression: str) -> Iterator[str]:
    for found in _NAMED.finditer(expression):
        yield found["index"] or found["member"] or found["key"] or ""
