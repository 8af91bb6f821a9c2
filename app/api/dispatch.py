"""One path, two ways in: publishing goes its own short way, all else through FastAPI."""

from typing import Final

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.publish import published_topic

_ALLOW: Final = {"allow": "POST"}


class Dispatcher:
    """`POST /topics/{topic}` to `publish`, when this process publishes; the rest to `others`."""

    def __init__(self, *, publish: ASGIApp | None, others: ASGIApp, publish_only: bool) -> None:
        self._publish = publish
        self._others = others
        self._publish_only = publish_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await self._application(scope)(scope, receive, send)

    def _application(self, scope: Scope) -> ASGIApp:
        is_topic = scope["type"] == "http" and published_topic(scope) is not None
        if is_topic and self._publish and scope["method"] == "POST":
            return self._publish
        if is_topic and self._publish_only:
            return _not_allowed
        return self._others


async def _not_allowed(scope: Scope, receive: Receive, send: Send) -> None:
    message = f"Method Not Allowed: {scope['method']} {scope['path']}"
    response = JSONResponse({"message": message, "code": "OTHER"}, 405, _ALLOW)
    await response(scope, receive, send)
