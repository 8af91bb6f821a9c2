"""Redirects a path with a missing or an extra slash at its end to the path that is served.

The redirect is a relative URL. FastAPI's own redirects are absolute, and contain the host that the
request names.
"""

from urllib.parse import quote

from fastapi import FastAPI
from starlette.responses import RedirectResponse
from starlette.routing import Match
from starlette.types import Receive, Scope, Send


def redirect_slashes(app: FastAPI) -> None:
    """Let `app` redirect paths with a wrong slash at the end.

    The option `redirect_slashes` of FastAPI must be off.
    """
    not_found = app.router.default

    async def default(scope: Scope, receive: Receive, send: Send) -> None:
        other = _other(scope["path"])
        if other is None or not _is_served(app, scope, other):
            await not_found(scope, receive, send)
            return
        query = scope["query_string"].decode("latin-1")
        location = _reference(scope["path"], other) + (f"?{query}" if query else "")
        await RedirectResponse(location)(scope, receive, send)

    app.router.default = default


def _other(path: str) -> str | None:
    """Return the same path without the slashes at its end; with a slash if it has none."""
    return (path.rstrip("/") or None) if path.endswith("/") else f"{path}/"


def _is_served(app: FastAPI, scope: Scope, path: str) -> bool:
    requested = {**scope, "path": path}
    return any(route.matches(requested)[0] is not Match.NONE for route in app.router.routes)


def _reference(path: str, other: str) -> str:
    """Return the path `other` as a URL that is relative to `path`.

    The result starts with a dot, so that no part of it is read as a host.
    """
    name = quote(other.rstrip("/").rpartition("/")[2], safe="")
    if path.endswith("/"):
        return "../" * (len(path) - len(other)) + name
    return f"./{name}/"
