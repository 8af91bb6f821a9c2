"""Renders those parts of open pages that change while a page is open.

The parts are rendered again and again, and sent as server-sent events. A part is rendered once for
all readers of the same page with the same rights. All rendering together takes at most SHARE_MAX of
one processor: if many different pages are open, each is rendered less often. A page that nobody has
open is not rendered.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextlib import suppress
from typing import Final

import structlog

_log = structlog.get_logger(__name__)

# The shortest time between two renderings of a page, in seconds.
EVERY_S: Final = 2.0
# The fraction of one processor that all renderings together may take.
SHARE_MAX: Final = 0.04

Parts = Mapping[str, str]
Renders = Callable[[], Awaitable[Parts]]


class LiveFeed:
    """The parts of one page that change while it is open, for all readers with the same rights."""

    def __init__(self, render: Renders) -> None:
        self._render = render
        self.readers = 0
        self.parts: Parts = {}
        # True when the feed is not rendered any more. Its readers then connect again.
        self.over = False
        # Set when the parts have changed, and then replaced by a new event.
        self._changed = asyncio.Event()

    async def renew(self) -> None:
        """Render the parts again, and wake the readers if a part has changed."""
        parts = await self._render()
        if parts != self.parts:
            self.parts = parts
            self._wake()

    def end(self) -> None:
        """End the feed, and wake all its readers."""
        self.over = True
        self._wake()

    async def changed(self, within: float) -> None:
        """Wait until the parts change, at most `within` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class LiveFeeds:
    """A feed for each open page of this process that changes. One page after the other is rendered.

    `clock` returns processor time in seconds. `pause` waits for the given number of seconds.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.thread_time,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._clock = clock
        self._pause = pause
        self._feeds: dict[Hashable, LiveFeed] = {}
        self._looked_at = asyncio.Event()

    def __len__(self) -> int:
        return len(self._feeds)

    def join(self, key: Hashable, render: Renders) -> LiveFeed:
        """Return the feed of a page, with one more reader. Create the feed for the first reader."""
        feed = self._feeds.get(key)
        if feed is None:
            feed = self._feeds[key] = LiveFeed(render)
            self._looked_at.set()
        feed.readers += 1
        return feed

    def leave(self, key: Hashable, feed: LiveFeed) -> None:
        """Remove a reader from the feed. Without readers, remove the feed."""
        feed.readers -= 1
        if not feed.readers and self._feeds.get(key) is feed:
            del self._feeds[key]

    async def run(self) -> None:
        """Render the feeds in turn until cancelled. Without feeds, wait for the first."""
        while True:
            self._looked_at.clear()
            for key, feed in [*self._feeds.items()]:
                began = self._clock()
                if feed.readers:
                    await self._renew(key, feed)
                took = max(0.0, self._clock() - began)
                await self._pause(max(EVERY_S / max(1, len(self._feeds)), took / SHARE_MAX))
            if not self._feeds:
                await self._looked_at.wait()

    async def _renew(self, key: Hashable, feed: LiveFeed) -> None:
        try:
            await feed.renew()
        except Exception as error:  # noqa: BLE001 - the page of one reader must not stop all others
            _log.info("live_page_ended", reason=type(error).__name__)
            self._feeds.pop(key, None)
            feed.end()
