"""Sends those parts of a page that change to one reader, while the reader has the page open."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Final

import orjson
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from app.api.server.connection import ENDS_AT_SHUTDOWN
from app.console.live import LiveFeed, LiveFeeds, Parts, Renders
from app.console.rendering import TOKEN_MARK

EVENT_STREAM: Final = "text/event-stream"
# How often it is checked whether the reader may still see the page, in seconds. If no part has
# changed, a comment is sent at each check, because proxies close idle connections.
BEAT_S: Final = 10.0

_BEAT: Final = b": still here\n\n"
# This event tells the page that the reader may not see it any more. The page then asks the reader
# to sign in.
_OVER: Final = b"event: over\ndata: {}\n\n"
_RETRY: Final = b"retry: 3000\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePage:
    """A page that a reader has open, and whose parts change while it is open.

    Attributes:
        feeds: The feeds of all pages of this kind in this process.
        key: Identifies the feed. Pages with the same key share one feed.
        render: A function that renders the parts that change.
        may_look: A function that returns whether the reader may still see the page.
        token: The token for the forms of this reader.
    """

    feeds: LiveFeeds
    key: Hashable
    render: Renders
    may_look: Callable[[], Awaitable[bool]]
    token: str


class LiveStream(Response):
    """A response that sends each changed part of a page.

    It ends when the reader disconnects or may not see the page any more, when rendering fails, or
    when the process stops.
    """

    def __init__(self, page: LivePage, *, headers: Mapping[str, str]) -> None:
        super().__init__(headers={**headers, "X-Accel-Buffering": "no"}, media_type=EVENT_STREAM)
        del self.headers["content-length"]
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the connection ends."""
        scope[ENDS_AT_SHUTDOWN] = True
        feed = self._page.feeds.join(self._page.key, self._page.render)
        try:
            async with asyncio.TaskGroup() as tasks:
                sending = tasks.create_task(self._send(send, feed))
                watching = tasks.create_task(_gone(receive))
                await asyncio.wait((sending, watching), return_when=asyncio.FIRST_COMPLETED)
                sending.cancel()
                watching.cancel()
        finally:
            self._page.feeds.leave(self._page.key, feed)

    async def _send(self, send: Send, feed: LiveFeed) -> None:
        # `send` waits while the reader is slow. The server closes the connection if the reader
        # reads nothing.
        start = {
            "type": "http.response.start",
            "status": self.status_code,
            "headers": self.raw_headers,
        }
        await send(start)
        await send(_body(_RETRY))
        sent: Parts = {}
        while not feed.over and await self._page.may_look():
            parts = feed.parts
            new = [
                self._event(part, text) for part, text in parts.items() if sent.get(part) != text
            ]
            sent = parts
            await send(_body(b"".join(new) or _BEAT))
            if feed.parts is parts:
                await feed.changed(BEAT_S)
        # The event _OVER is sent only if the reader may not see the page any more. If the feed
        # ended because of an error, the reader connects again.
        await send(_body(b"" if await self._page.may_look() else _OVER, last=True))

    def _event(self, part: str, text: str) -> bytes:
        data = {"id": part, "html": text.replace(TOKEN_MARK, self._page.token)}
        return b"event: part\ndata: " + orjson.dumps(data) + b"\n\n"


def _body(content: bytes, *, last: bool = False) -> Message:
    return {"type": "http.response.body", "body": content, "more_body": not last}


async def _gone(receive: Receive) -> None:
    """Wait until the connection has ended."""
    while (await receive())["type"] != "http.disconnect":
        pass
