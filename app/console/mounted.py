"""Serves the console beside the management API.

The code of the pages is imported at the first request for a page.
"""

from typing import TYPE_CHECKING

from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from app.console.live import LiveFeeds
from app.console.sessions import Sessions
from app.services.access.authorization import AccessService
from app.vault import Vault

if TYPE_CHECKING:
    from starlette.applications import Starlette

_CONSOLE = "/console"
_PAGES = f"{_CONSOLE}/"
# Routes of the API that lead browsers to the first page of the console.
_ENTRANCES = frozenset({"/", _CONSOLE})
_HTML = b"text/html"


class WithConsole:
    """Serves the console's pages below `/console/`, and passes all other requests to `others`.

    `api` is the REST API that the pages call. The path `/console` is a route of the API, which the
    console of Hermes reads when it starts. Load balancers check `/`. A browser that opens one of
    these is redirected to Angelia's console.
    """

    def __init__(
        self, others: ASGIApp, *, api: ASGIApp, access: AccessService, vault: Vault
    ) -> None:
        self._others = others
        self._api = api
        self._access = access
        self._vault = vault
        self._console: Starlette | None = None
        self.feeds = LiveFeeds()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path = scope["path"]
        if path.startswith(_PAGES):
            await self._pages()(scope, receive, send)
        elif path in _ENTRANCES and _wants_page(scope):
            # The redirect has a relative link, like all links of the console (see
            # `app.console.links`). It leads to the same page from both paths.
            await RedirectResponse("console/", 307)(scope, receive, send)
        else:
            await self._others(scope, receive, send)

    def _pages(self) -> "Starlette":
        if self._console is None:
            # The console's pages are imported only when a page is requested. The import takes time,
            # and many processes never show a page.
            from app.console.application import ConsoleParts, console_app  # noqa: PLC0415 - takes time, and is seldom needed

            parts = ConsoleParts(
                api=self._api,
                access=self._access,
                sessions=Sessions(self._vault),
                feeds=self.feeds,
            )
            self._console = console_app(parts)
        return self._console


def _wants_page(scope: Scope) -> bool:
    accepted = [value for name, value in scope["headers"] if name == b"accept"]
    return scope["method"] == "GET" and _HTML in b",".join(accepted)
