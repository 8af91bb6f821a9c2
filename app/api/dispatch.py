"""One path, two ways in: publishing goes its own short way, all else through FastAPI."""

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.publish import published_topic


class Dispatcher:
    """`POST /topics/{topic}` to `publish`, when this process publishes; the rest to `others`."""

    def __init__(self, *, publish: ASGIApp | None, others: ASGIApp) -> None:
        self._publish = publish
        self._others = others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if "\0" in scope["path"]:
            await _not_found(scope, receive, send)
        elif self._publish and scope["method"] == "POST" and published_topic(scope) is not None:
            await self._publish(scope, receive, send)
        elif scope["method"] == "HEAD":
            # The server sends no body, as it knows what was asked for.
            await self._others({**scope, "method": "GET"}, receive, send)
        else:
            await self._others(scope, receive, send)


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    """No name has a zero character, and the database takes none in a question."""
    message = f"Not Found: {scope['method']} {scope['path']}"
    response = JSONResponse({"message": message, "code": "OTHER"}, 404)
    await response(scope, receive, send)
