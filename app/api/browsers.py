"""Protection of an API without keys: no web page may act in the name of a user who reads it.

A browser sends the requests of any web page to any address, also to this machine. If an attacker
lets the name of the page resolve to this machine (DNS rebinding), the page can also read the
responses. So a request must name a known host, and must not come from a page of another origin,
unless `ANGELIA_CORS_ORIGINS` allows that origin. Clients that are not browsers send the name that
they connected to, and no origin.

Sec-Fetch-Site: https://www.w3.org/TR/fetch-metadata/; Origin: RFC 6454.
"""

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final, NamedTuple

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.codes import OTHER
from app.domain.errors import PermissionDeniedError
from app.domain.network.own_hosts import OwnHosts

# The maximum number of cached `Host` values. One allowed host can be written in many ways.
_KNOWN_MAX: Final = 1_000
_HOST: Final = re.compile(rb"(\[[0-9A-Fa-f:.]+\]|[^:\[\]/?#@]*)(?::[0-9]*)?")
_OF_PAGES: Final = frozenset(
    {b"host", b"origin", b"sec-fetch-site", b"sec-fetch-mode", b"sec-fetch-dest"}
)
# The values of `Sec-Fetch-Site` for requests of Angelia's own page, and for requests that come from
# no page (a typed address or a bookmark).
_OWN_SITES: Final = frozenset({b"same-origin", b"none"})
_READING: Final = frozenset({"GET", "HEAD"})


class Refusal(NamedTuple):
    """Why a request is refused, and which setting the operator may change."""

    status: int
    code: str
    message: str


class BrowserGuard:
    """Passes a request on only if its `Host` is one of `hosts`.

    Requests of pages with an origin outside of `origins` are refused.
    """

    def __init__(self, app: ASGIApp, *, hosts: OwnHosts, origins: Sequence[str]) -> None:
        self._app = app
        self._hosts = hosts
        self._any_origin = "*" in origins
        self._origins = frozenset(each.encode() for each in origins)
        self._known: set[bytes] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it with the reason."""
        refusal = self.refusal(scope)
        if refusal is None:
            await self._app(scope, receive, send)
            return
        body = {"message": refusal.message, "code": refusal.code}
        await JSONResponse(body, refusal.status)(scope, receive, send)

    def refusal(self, scope: Scope) -> Refusal | None:
        """Return why this request is refused; None if it is not."""
        headers: dict[bytes, bytes] = {}
        for name, value in scope["headers"]:
            if name in _OF_PAGES:
                if name == b"host" and value not in self._known and not self._is_ours(value):
                    return _misdirected(value)
                headers[name] = value
        if len(headers) > 1 and not self._may_call(headers, scope["method"]):
            return _from_elsewhere(headers)
        return None

    def _is_ours(self, host: bytes) -> bool:
        found = _HOST.fullmatch(host)
        ours = found is not None and self._hosts.include(found[1].decode("latin-1"))
        if ours and len(self._known) < _KNOWN_MAX:
            self._known.add(host)
        return ours

    def _may_call(self, headers: dict[bytes, bytes], method: str) -> bool:
        site, origin = headers.get(b"sec-fetch-site"), headers.get(b"origin")
        if self._any_origin or origin in self._origins:
            return True
        if site is not None and site not in _OWN_SITES:
            # A link on another page may lead to a response of Angelia. After a click, the user sees
            # the response, but the page with the link does not see it.
            return method in _READING and _is_link(headers)
        # The browser's own judgement is trusted. A browser knows whether the page has the same
        # origin, even if a proxy changes `Host`.
        if origin is None or site == b"same-origin":
            return True
        return _host_in(origin) == headers.get(b"host", b"").lower()


def _host_in(origin: bytes) -> bytes:
    return origin.partition(b"://")[2].lower()


def _is_link(headers: dict[bytes, bytes]) -> bool:
    return (
        headers.get(b"sec-fetch-mode") == b"navigate"
        and headers.get(b"sec-fetch-dest") == b"document"
    )


def _misdirected(host: bytes) -> Refusal:
    return Refusal(
        HTTPStatus.MISDIRECTED_REQUEST,
        OTHER,
        f"The host {_shown(host)} is not known as this service's, and callers need no keys here:"
        " if it is, add it to ANGELIA_HOST_NAMES, or set ANGELIA_AUTH=keys",
    )


def _from_elsewhere(headers: dict[bytes, bytes]) -> Refusal:
    return Refusal(
        HTTPStatus.FORBIDDEN,
        PermissionDeniedError.code,
        f"Pages of {_shown(headers.get(b'origin', b'other sites'))} may not call this service,"
        " where callers need no keys: to let them, add their origin to ANGELIA_CORS_ORIGINS",
    )


def _shown(given: bytes) -> str:
    return ascii(given[:200].decode("latin-1"))[1:-1]
