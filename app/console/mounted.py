"""Puts the console beside the management API, and loads it with the first request for a page."""

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
_HTML = b"text/html"


class WithConsole:
    """Serves the console's pages below `/console/`, and all else by `others`.

    `api` is the REST API that the pages call. At `/console` itself is what Hermes' console reads at
    its start; a browser that asks for a page there is sent to ours.
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
        elif path == _CONSOLE and _wants_page(scope):
            # Relative, as all links are.
            await RedirectResponse("console/", 307)(scope, receive, send)
        else:
            await self._others(scope, receive, send)

    def _pages(self) -> "Starlette":
        if self._console is None:
            # Templates and pages take time to load, and many processes never show one.
            from app.console.application import ConsoleParts, console_app  # noqa: PLC0415 - as above

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
