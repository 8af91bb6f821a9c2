"""Sends each request to its handler.

Publishing has a fast handler of its own. FastAPI handles all other requests.
"""

from urllib.parse import parse_qsl

from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.errors import error_response
from app.api.publish.route import published_topic
from app.domain.errors import ValidationFailedError


class Dispatcher:
    """Sends `POST /topics/{topic}` to `publish`, and all other requests to `others`.

    If `publish` is None, all requests go to `others`.
    """

    def __init__(self, *, publish: ASGIApp | None, others: ASGIApp) -> None:
        self._publish = publish
        self._others = others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:
            await error_response(_zero_in(scope))(scope, receive, send)
        elif self._publish and scope["method"] == "POST" and published_topic(scope) is not None:
            await self._publish(scope, receive, send)
        elif scope["method"] == "HEAD":
            # Handle HEAD as GET. The server knows the original method, and sends no body.
            await self._others({**scope, "method": "GET"}, receive, send)
        else:
            await self._others(scope, receive, send)


def _zero_in(scope: Scope) -> ValidationFailedError:
    """Return the error for a path or query that contains a zero character (NUL).

    No name contains a zero character, and the database refuses queries with one.
    """
    query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    named = (name for name, value in query if "\0" in value and "\0" not in name)
    part = "path" if "\0" in scope["path"] else next(named, "query")
    return ValidationFailedError.of(part, "must be without zero characters (%00)")
