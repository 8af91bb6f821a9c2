"""What one subscription reads behind the tail: few reads at once, whatever it lags in."""

import asyncio
import time
from datetime import timedelta
from typing import Protocol

from app.domain.catalogue.fetch import FETCHES_MAX, FetchPolicy
from app.domain.message import Partition
from workers.reading.catchup import BatchListener
from workers.reading.feed import Batch, Feed, TailReader


class LogReader(Protocol):
    """Reads for all subscriptions."""

    def fetch(self, feed: Feed, offset: int, on_batch: BatchListener, *, pause: timedelta) -> None:
        """Read what lies before the feed; after `pause` again, when it fails."""

    def resume(self, feed: Feed) -> None:
        """Read a held tail on, if its fastest reader needs more."""

    def leave(self, partition: Partition, reader: TailReader) -> None:
        """`reader` takes nothing any more."""


class _Fetch:
    """One read: what is requested, and the listener for it."""

    __slots__ = ("began", "feed", "fetches", "offset", "on_batch")

    def __init__(
        self, fetches: "Fetches", feed: Feed, *, offset: int, on_batch: BatchListener
    ) -> None:
        self.fetches = fetches
        self.feed = feed
        self.offset = offset
        self.on_batch = on_batch
        self.began = 0.0

    def __call__(self, batch: Batch, gap: bool, /) -> None:  # noqa: FBT001 - a callback's shape
        self.fetches.finished(self)
        self.on_batch(batch, gap)


class Fetches:
    """Stands between the cursors of a subscription and the reader: at most FETCHES_MAX at once.

    The others take their turns, so that a subscription that lags in a thousand partitions asks no
    more of the readers than one that lags in three. A read that takes longer than `fetch_timeout`
    does not count any more: the partitions of a broker that is down hold up no other.
    """

    def __init__(self, reader: LogReader, fetch: FetchPolicy) -> None:
        self._reader = reader
        self._fetch = fetch
        self._running: dict[Partition, _Fetch] = {}
        # In their turn; a cursor has one request at most.
        self._waiting: dict[Partition, _Fetch] = {}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def busy(self) -> bool:
        """Whether something is being read that may have messages soon."""
        return bool(self._running)

    def configure(self, fetch: FetchPolicy) -> None:
        """Read by other settings from the next read on."""
        self._fetch = fetch

    def fetch(self, feed: Feed, offset: int, on_batch: BatchListener) -> None:
        """Call `on_batch` with what lies before the feed, when its turn has come."""
        fetch = _Fetch(self, feed, offset=offset, on_batch=on_batch)
        if len(self._running) < FETCHES_MAX:
            self._begin(fetch)
        else:
            self._waiting[feed.partition] = fetch
            self._set_timer()

    def resume(self, feed: Feed) -> None:
        """Read a held tail on, if its fastest reader needs more."""
        self._reader.resume(feed)

    def leave(self, partition: Partition, reader: TailReader) -> None:
        """`reader`, the only one of the subscription in `partition`, takes nothing any more."""
        self._reader.leave(partition, reader)
        self._waiting.pop(partition, None)
        if self._running.pop(partition, None) is not None:
            self._begin_waiting()

    def finished(self, fetch: _Fetch) -> None:
        """It has been read."""
        if self._running.get(fetch.feed.partition) is fetch:
            del self._running[fetch.feed.partition]
            self._begin_waiting()

    def _begin(self, fetch: _Fetch) -> None:
        fetch.began = time.monotonic()
        self._running[fetch.feed.partition] = fetch
        self._reader.fetch(fetch.feed, fetch.offset, fetch, pause=self._fetch.frequency)

    def _begin_waiting(self) -> None:
        while self._waiting and len(self._running) < FETCHES_MAX:
            self._begin(self._waiting.pop(next(iter(self._waiting))))

    def _set_timer(self) -> None:
        """Look again when the first of those that are running has taken too long."""
        if self._timer is None:
            first = min(fetch.began for fetch in self._running.values())
            due = first + self._fetch.fetch_timeout.total_seconds()
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(due - time.monotonic(), 0.0), self._expire_running)

    def _expire_running(self) -> None:
        self._timer = None
        latest = time.monotonic() - self._fetch.fetch_timeout.total_seconds()
        for partition in [p for p, fetch in self._running.items() if fetch.began <= latest]:
            del self._running[partition]
        self._begin_waiting()
        if self._waiting:
            self._set_timer()
