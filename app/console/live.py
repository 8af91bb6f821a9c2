"""Renders the parts of a page that change while a reader has the page open.

The parts are rendered again and again, and sent as server-sent events. If several readers with the
same rights have the same page open, a part is rendered once for all of them. All rendering together
takes at most the fraction SHARE_MAX of one processor. So if many different pages are open, each
page is rendered less often. A page that nobody has open is not rendered.
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
    """The parts of one page that change while the page is open.

    All readers with the same rights share one feed.
    """

    def __init__(self, render: Renders) -> None:
        self._render = render
        self.readers = 0
        self.parts: Parts = {}
        # True when the feed is not rendered any more, because rendering failed. The feed's readers
        # then connect again.
        self.over = False
        # This event is set when the parts of the page have changed. Then a new event replaces it.
        self._changed = asyncio.Event()

    async def renew(self) -> None:
        """Render the parts of the page again. If a part has changed, wake the feed's readers."""
        parts = await self._render()
        if parts != self.parts:
            self.parts = parts
            self._wake()

    def end(self) -> None:
        """End the feed, and wake all its readers."""
        self.over = True
        self._wake()

    async def changed(self, within: float) -> None:
        """Wait until a part changes, but at most `within` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class LiveFeeds:
    """The feeds of all pages that change and that readers have open in this process.

    The pages are rendered one after another. `clock` returns processor time in seconds. `pause`
    waits for the given number of seconds.
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
        """Return the feed of the page `key`, and count one more reader of the feed.

        `render` renders the page. If the page has no feed yet, create one.
        """
        feed = self._feeds.get(key)
        if feed is None:
            feed = self._feeds[key] = LiveFeed(render)
            self._looked_at.set()
        feed.readers += 1
        return feed

    def leave(self, key: Hashable, feed: LiveFeed) -> None:
        """Remove one reader from the feed. If the feed has no reader any more, remove the feed."""
        feed.readers -= 1
        if not feed.readers and self._feeds.get(key) is feed:
            del self._feeds[key]

    async def run(self) -> None:
        """Render the pages of all feeds, one after another, until cancelled.

        While there is no feed, wait for the first one.
        """
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
