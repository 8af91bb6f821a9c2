"""Endpoint templates: `http://host/{a}/{b.c}` with values from the body of each message.

Placeholders are allowed only in the path and in the query, and all special characters in values are
percent-encoded. So no message can choose the host, or change the number of path segments.
"""

import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import SplitResult, quote, urlsplit

TARGET_LENGTH_MAX: Final = 8_000
_TOO_LONG: Final = f"the URL is longer than {TARGET_LENGTH_MAX} characters"

_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")
_NAME: Final = re.compile(r"[A-Za-z0-9_$-]+(?:\.[A-Za-z0-9_$-]+)*")


class TemplateError(ValueError):
    """The template gives no URL for a message. The text of the error says why."""


def template_problem(parts: SplitResult) -> str | None:
    """Return why the placeholders of an endpoint are not valid; None if they are valid."""
    if _has_braces(parts.netloc) or _has_braces(parts.fragment):
        return "may have {placeholders} in its path and its query alone"
    names = _PLACEHOLDER.findall(parts.path + parts.query)
    rest = _PLACEHOLDER.sub("", parts.path) + _PLACEHOLDER.sub("", parts.query)
    if _has_braces(rest) or not all(_NAME.fullmatch(name) for name in names):
        return "must name a field of the body in each placeholder: {field} or {object.field}"
    return None


def is_template(endpoint: str) -> bool:
    """Whether `endpoint` has placeholders."""
    return _PLACEHOLDER.search(endpoint) is not None


class EndpointTemplate:
    """A valid endpoint with placeholders. It gives a URL for each message."""

    __slots__ = ("_keys", "_literals", "sample")

    def __init__(self, endpoint: str) -> None:
        parts = urlsplit(endpoint)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        texts = _PLACEHOLDER.split(target)
        self._literals = texts[::2]
        self._keys = [tuple(name.split(".")) for name in texts[1::2]]
        # The endpoint with sample values in place of the placeholders. It is used where the values
        # do not matter, for example to find the host.
        self.sample = _PLACEHOLDER.sub("x", endpoint)

    @classmethod
    def of(cls, endpoint: str) -> "EndpointTemplate | None":
        """Return the template in `endpoint`; None if the endpoint has no placeholders."""
        return cls(endpoint) if is_template(endpoint) else None

    def target(self, body: object) -> str:
        """Return the path and the query of the URL for a message with the parsed body `body`.

        Raises:
            TemplateError: The body lacks a value of a placeholder, or the result is not usable.
        """
        target = "".join(self._parts(body))
        if len(target) > TARGET_LENGTH_MAX:
            raise TemplateError(_TOO_LONG)
        if any(segment in {".", ".."} for segment in target.partition("?")[0].split("/")):
            raise TemplateError("a segment of the path is only dots")
        return target

    def _parts(self, body: object) -> Iterator[str]:
        yield self._literals[0]
        length = 0
        for keys, literal in zip(self._keys, self._literals[1:], strict=True):
            text = _text(body, keys)
            length += len(text)
            if length > TARGET_LENGTH_MAX:
                # The length of the values is checked before they are encoded, because encoding a
                # long text takes long.
                raise TemplateError(_TOO_LONG)
            yield quote(text, safe="")
            yield literal


def _text(body: Any, keys: tuple[str, ...]) -> str:  # noqa: ANN401 - JSON can have any type
    """Return the value at `keys` as text. As in RFC 6570, null is empty.

    Raises:
        TemplateError: There is no such value, or it is a list or an object.
    """
    value = body
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            raise TemplateError(f"the body has no {'.'.join(keys)}")
        value = value[key]
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case None:
            return ""
        case _:
            found = "a list" if isinstance(value, list) else "an object"
            wanted = "a text, a number, a boolean or null"
            raise TemplateError(f"{'.'.join(keys)} is {found}, and must be {wanted}")


def _has_braces(text: str) -> bool:
    return "{" in text or "}" in text
