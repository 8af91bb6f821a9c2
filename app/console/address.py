"""The URL at which the reader's browser reaches this installation.

A proxy says it in headers. Clients can forge these headers, and readers copy the URL into a shell.
So a value is used only if it has no characters with a meaning for a shell.
"""

import re
from typing import Final

from starlette.requests import Request

_HOST: Final = re.compile(r"([A-Za-z0-9._-]{1,255}|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?")
_PREFIX: Final = re.compile(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+")
_PREFIX_MAX: Final = 500
_DEFAULT_HOST: Final = "127.0.0.1:8090"


def api_root(request: Request) -> str:
    """Return the URL before each path of the API, such as `https://angelia.example/eu`.

    The prefix of paths is known only if the proxy says it in `X-Forwarded-Prefix`. Otherwise, a
    script of the page adds it.
    """
    return f"{scheme_of(request)}://{_host(request)}{_prefix(request)}"


def scheme_of(request: Request) -> str:
    """Return `https` if the reader's browser uses TLS, otherwise `http`.

    The browser's connection may end at a proxy, which says in a header that it has TLS. A client
    that forges this header harms only itself: it gets a cookie that it cannot send without TLS.
    """
    outside = _first(request, "x-forwarded-proto")
    return "https" if "https" in {request.url.scheme, outside} else "http"


def _host(request: Request) -> str:
    given = (_first(request, name) for name in ("x-forwarded-host", "host"))
    return next((each for each in given if _HOST.fullmatch(each)), _DEFAULT_HOST)


def _prefix(request: Request) -> str:
    text = request.headers.get("x-forwarded-prefix", "").rstrip("/")
    return text if len(text) <= _PREFIX_MAX and _PREFIX.fullmatch(text) else ""


def _first(request: Request, header: str) -> str:
    """Return the value of a header by the first proxy, which the browser has reached."""
    return request.headers.get(header, "").partition(",")[0].strip().lower()
