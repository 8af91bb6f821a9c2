"""Reads of old messages for the cursors of one subscription that lag.

Only a few reads run at once, even if many partitions lag.
"""

import asyncio
import time
from datetime import timedelta
from typing import Protocol

from app.domain.catalogue.fetch import FETCHES_MAX, FetchPolicy
from app.domain.message import Partition
from workers.reading.catchup import BatchListener
from workers.reading.feed import Batch, Feed, TailReader


class LogReader(Protocol):
    """Reads the log for all subscriptions."""

    def fetch(self, feed: Feed, offset: int, on_batch: BatchListener, *, pause: timedelta) -> None:
        """Read old messages from `offset` on. Call `on_batch` with them later.

        If the read fails, read again after the time `pause`.
        """

    def resume(self, feed: Feed) -> None:
        """Resume the reading of new messages if it is paused and a cursor needs more messages."""

    def leave(self, partition: Partition, reader: TailReader) -> None:
        """Stop reading for `reader`, because `reader` takes no more messages."""


class _Fetch:
    """One read of old messages: the requested position, and the listener for the result."""

    __slots__ = ("began", "feed", "fetches", "offset", "on_batch")

    def __init__(
        self, fetches: "Fetches", feed: Feed, *, offset: int, on_batch: BatchListener
    ) -> None:
        self.fetches = fetches
        self.feed = feed
        self.offset = offset
        self.on_batch = on_batch
        self.began = 0.0

    def __call__(self, batch: Batch, gap: bool, /) -> None:  # noqa: FBT001 - called by position, as a callback
        self.fetches.finished(self)
        self.on_batch(batch, gap)


class Fetches:
    """Limits the reads of old messages for one subscription.

    At most FETCHES_MAX reads run at once, and further reads wait in a queue. So a subscription that
    lags in a thousand partitions does not cause more reads at once than one that lags in three. A
    read that takes longer than `fetch_timeout` no longer counts as running. So a broker that is
    down does not block reads from other brokers.
    """

    def __init__(self, reader: LogReader, fetch: FetchPolicy) -> None:
        self._reader = reader
        self._fetch = fetch
        self._running: dict[Partition, _Fetch] = {}
        # The reads that wait, by partition, in order. A cursor has at most one waiting read.
        self._waiting: dict[Partition, _Fetch] = {}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def busy(self) -> bool:
        """Whether any read is running, so that messages may come soon."""
        return bool(self._running)

    def configure(self, fetch: FetchPolicy) -> None:
        """Use the settings in `fetch` from the next read on."""
        self._fetch = fetch

    def fetch(self, feed: Feed, offset: int, on_batch: BatchListener) -> None:
        """Read old messages from `offset` on, after enough earlier reads have ended.

        Then call `on_batch` with the messages.
        """
        fetch = _Fetch(self, feed, offset=offset, on_batch=on_batch)
        if len(self._running) < FETCHES_MAX:
            self._begin(fetch)
        else:
            self._waiting[feed.partition] = fetch
            self._set_timer()

    def resume(self, feed: Feed) -> None:
        """Resume the reading of new messages if it is paused and a cursor needs more messages."""
        self._reader.resume(feed)

    def leave(self, partition: Partition, reader: TailReader) -> None:
        """Stop reading for `reader`, the subscription's only reader in `partition`."""
        self._reader.leave(partition, reader)
        self._waiting.pop(partition, None)
        if self._running.pop(partition, None) is not None:
            self._begin_waiting()

    def finished(self, fetch: _Fetch) -> None:
        """Called when the read has ended."""
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
        """Set a timer for the oldest running read. After its timeout, another read may start."""
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
