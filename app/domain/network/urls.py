"""Rules for URLs to which the service sends requests."""

from typing import Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class Origin(NamedTuple):
    """The target of a request: scheme, host and port, without the path."""

    scheme: str
    host: str
    port: int


class UrlError(ValueError):
    """A URL is not allowed. The error's text says why.

    The text continues a sentence that begins with the name of the field, such as "is not a URI".
    """


def http_url(text: str) -> SplitResult:
    """Return the parts of `text`, if it is a URL to which requests can be sent.

    Raises:
        UrlError: Requests cannot be sent there; the error says what the text must be.
    """
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        # Raise an error with a text of Angelia, because the text of the library's error may contain
        # a part of a password.
        message = "is not a URI"
        raise UrlError(message) from error
    if problem := _problem(text, parts, port):
        raise UrlError(problem)
    return parts


def _problem(text: str, parts: SplitResult, port: int | None) -> str | None:
    if port == 0 or "%" in (parts.hostname or ""):
        return "must be a URI with a port from 1 to 65535 and a host without % signs"
    if parts.scheme not in {"http", "https"}:
        return "must be an http:// or https:// URI"
    if not parts.hostname or not text.isascii() or not text.isprintable() or " " in text:
        return "must be a URI with a host, in printable ASCII: http://host/path"
    return None


def origin(url: str) -> Origin:
    """Return the origin of a valid URL. Different spellings give the same origin."""
    parts = urlsplit(url)
    port = parts.port or _DEFAULT_PORTS.get(parts.scheme, 0)
    return Origin(parts.scheme, (parts.hostname or "").lower(), port)
