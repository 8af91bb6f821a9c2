"""Live pages: parts that are rendered again while somebody looks, and sent by server-sent events.

A part is rendered once for all readers with the same page and the same rights. All rendering
together takes at most a small share of one processor: with many different pages open, each is
renewed less often. A page that nobody looks at costs nothing.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextlib import suppress
from typing import Final

import structlog

_log = structlog.get_logger(__name__)

# The shortest time between two renderings of a page.
EVERY_S: Final = 2.0
# The share of one processor that all renderings together may take.
SHARE_MAX: Final = 0.04

Parts = Mapping[str, str]
Renders = Callable[[], Awaitable[Parts]]


class LiveFeed:
    """The parts of one page, for all readers that may see the same of it."""

    def __init__(self, render: Renders) -> None:
        self._render = render
        self.readers = 0
        self.parts: Parts = {}
        # Whether it is not rendered any more: its readers come again, each in their own name.
        self.over = False
        # Set, and replaced, when there are other parts.
        self._changed = asyncio.Event()

    async def renew(self) -> None:
        """Render again, and wake the readers if anything is different."""
        parts = await self._render()
        if parts != self.parts:
            self.parts = parts
            self._wake()

    def end(self) -> None:
        """Send all readers away."""
        self.over = True
        self._wake()

    async def changed(self, within: float) -> None:
        """Wait for other parts, at most so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class LiveFeeds:
    """All live pages of this process, renewed one after the other while somebody looks.

    `clock` has seconds of processor time, and `pause` waits for so many seconds.
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
        """Return the feed of a page, with one reader more."""
        feed = self._feeds.get(key)
        if feed is None:
            feed = self._feeds[key] = LiveFeed(render)
            self._looked_at.set()
        feed.readers += 1
        return feed

    def leave(self, key: Hashable, feed: LiveFeed) -> None:
        """Take a reader from the feed; without readers it ends."""
        feed.readers -= 1
        if not feed.readers and self._feeds.get(key) is feed:
            del self._feeds[key]

    async def run(self) -> None:
        """Renew the feeds for ever; without feeds, wait for one."""
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
