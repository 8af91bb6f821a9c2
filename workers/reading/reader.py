"""All reading of a worker: new messages, and older ones for cursors that lag."""

import asyncio
from collections.abc import Iterable
from datetime import timedelta
from functools import partial
from typing import Final

import structlog

from app.domain.errors import AngeliaError
from app.domain.message import Partition
from app.log.interface import Chunk, MessageLog, Tail
from app.schemas.formats import TopicFormats
from workers.reading.catchup import RETRY_PAUSE, BatchListener, CatchUp
from workers.reading.codecs_ready import CodecsReady
from workers.reading.decoder import Decoder
from workers.reading.feed import Feed, TailReader
from workers.reading.holds import Holds, decodable
from workers.reading.known_changes import KnownChanges
from workers.reading.look_pauses import LOOK_AGAIN, LookPauses
from workers.reading.registered_schemas import RegisteredSchemas, RegistryLookup
from workers.reading.schema_versions import VersionWait

# When cursors open a feed together, it starts at the lowest position that is at most this many
# offsets below the highest one. Cursors at lower positions read older messages from the log
# themselves.
TOGETHER_OFFSETS: Final = 2_000

_log = structlog.get_logger()


class Reader:
    """The feeds of partitions, each with its cursors. A partition without cursors is not read."""

    def __init__(
        self,
        log: MessageLog,
        tail: Tail,
        *,
        look_again: timedelta = LOOK_AGAIN,
        registry: RegistryLookup | None = None,
        holds: Holds | None = None,
    ) -> None:
        """Create a reader. Unknown schemas are looked up in `registry`, if there is one."""
        self._log = log
        self._tail = tail
        # Partitions with a reader that is ahead of its feed.
        self._ahead: asyncio.Queue[Partition] = asyncio.Queue()
        self._feeds: dict[Partition, Feed] = {}
        # The content types and schemas of topics. The task that applies changes updates them.
        self.formats = TopicFormats()
        self._registered = RegisteredSchemas(registry, self.formats)
        # The time up to which changes are in effect. The task that applies changes updates it.
        self.known = KnownChanges()
        self._versions = VersionWait(registered=self._registered, known=self.known)
        codecs, self._holds = CodecsReady(), holds or Holds()
        self._decoder = Decoder(self.formats, self._versions, codecs)
        # The partitions that must be read again a little later, because schemas are not ready.
        self._waiting: set[Partition] = set()
        self._pauses = LookPauses(look_again)
        self._catch_up = CatchUp(
            log, self.formats, self._versions, codecs=codecs, holds=self._holds
        )

    async def run(self) -> None:
        """Read until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._catch_up.run())
            tasks.create_task(self._registered.run())
            tasks.create_task(self._read_tail())
            tasks.create_task(self._check_ends())

    def join(self, partition: Partition, readers: Iterable[TailReader]) -> Feed:
        """Let `readers` take messages from the partition's feed, each from its own position."""
        joined = list(readers)
        head = max(reader.position for reader in joined)
        feed = self._feeds.get(partition)
        if feed is None:
            feed = self._feeds[partition] = Feed(partition, _common_start(joined), self._holds)
            self._tail.follow(partition, feed.end)
        elif head > feed.end + TOGETHER_OFFSETS:
            # The new readers are far ahead of the feed, so restart the feed at the highest position
            # among them. The readers that are behind it read older messages from the log
            # themselves.
            self._tail.follow(partition, head)
            self._holds.forget(partition)
            feed.restart(head)
        feed.readers.update(joined)
        if head > feed.end:
            self._ahead.put_nowait(partition)
        return feed

    def leave(self, partition: Partition, reader: TailReader) -> None:
        """Remove `reader`, which takes no more messages."""
        feed = self._feeds.get(partition)
        if feed is None:
            return
        feed.leave(reader)
        if not feed.readers:
            del self._feeds[partition]
            self._pauses.end(partition)
            self._holds.forget(partition)
            self._tail.unfollow(partition)
            self._catch_up.forget(partition)

    def fetch(
        self, feed: Feed, offset: int, on_batch: BatchListener, *, pause: timedelta = RETRY_PAUSE
    ) -> None:
        """Read messages from `offset` on, which are older than the messages in the feed.

        If the read fails, read again after `pause`.
        """
        self._catch_up.fetch(feed.partition, offset, on_batch, pause=pause)

    def resume(self, feed: Feed) -> None:
        """Resume the paused reading of new messages, if the fastest reader needs more of them."""
        if feed.may_resume():
            feed.held = False
            self._tail.follow(feed.partition, feed.end)

    async def _check_ends(self) -> None:
        """Check whether readers that are ahead of their feed are beyond the end of the log.

        They wait for the feed, which never asks the log for their position. If the log ends before
        it, because the topic was recreated for example, they would wait for ever, or miss messages.
        """
        while True:
            partition = await self._ahead.get()
            try:
                found = await self._log.bounds([partition])
            except AngeliaError as exc:
                _log.warning("log_end_unknown", partition=partition, error=exc.message)
                again = partial(self._ahead.put_nowait, partition)
                asyncio.get_running_loop().call_later(RETRY_PAUSE.total_seconds(), again)
            else:
                feed, bounds = self._feeds.get(partition), found.get(partition)
                if feed is not None and bounds is not None:
                    self._ask_beyond(feed, bounds.end)

    def _ask_beyond(self, feed: Feed, end: int) -> None:
        """Read at the position of a reader that is beyond the end of the log, if there is one.

        The log then reports a gap.
        """
        head = max((reader.position for reader in feed.readers), default=end)
        if head > end:
            self._tail.follow(feed.partition, head)
            feed.restart(head)

    async def _read_tail(self) -> None:
        while True:
            for chunk in await self._tail.chunks():
                self._take(chunk)

    def _take(self, chunk: Chunk) -> None:
        feed = self._feeds.get(chunk.partition)
        if feed is None or chunk.partition in self._waiting:
            return
        if chunk.offset > feed.end:
            # The chunk does not follow the feed's end, because the position of the tail was changed
            # during the read. Let the tail read again from the feed's end.
            self._tail.follow(feed.partition, feed.end)
        elif chunk.gap:
            if chunk.offset == feed.end:  # otherwise the chunk is from before a restart
                self._cross_gap(feed, chunk)
        elif chunk.corrupt:
            self._hold_corrupt(feed, chunk)
        elif chunk.next_offset > feed.end:
            self._put(feed, chunk)

    def _hold_corrupt(self, feed: Feed, chunk: Chunk) -> None:
        if chunk.offset == feed.end:
            awaited = decodable(chunk.offset, chunk.corrupt)
            self._holds.begin(feed.partition, feed.end, awaited)

    def _put(self, feed: Feed, chunk: Chunk) -> None:
        batch = self._decoder.batch(chunk, since=feed.end)
        if batch is None:
            self._follow_later(feed)
            return
        self._pauses.end(feed.partition)
        self._holds.end(feed.partition, feed.end)
        feed.put(batch)
        if feed.held:
            self._tail.unfollow(feed.partition)

    def _follow_later(self, feed: Feed) -> None:
        """Pause the reading of the partition, because a chunk's schemas are not ready yet.

        After a pause, reading continues at the end of the feed.
        """
        partition, waits_for = feed.partition, self._decoder.awaited
        self._holds.begin(partition, feed.end, waits_for)
        if partition not in self._pauses:
            _log.warning("schema_awaited", partition=partition, at=feed.end, waits_for=waits_for)
        self._waiting.add(partition)
        self._tail.unfollow(partition)
        pause = self._pauses.next(partition).total_seconds()
        asyncio.get_running_loop().call_later(pause, self._follow_again, partition)

    def _follow_again(self, partition: Partition) -> None:
        self._waiting.discard(partition)
        feed = self._feeds.get(partition)
        if feed is not None and not feed.held:
            self._tail.follow(partition, feed.end)

    def _cross_gap(self, feed: Feed, chunk: Chunk) -> None:
        """Continue after a gap in the log. Each reader counts the messages that it has missed."""
        _log.warning(
            "log_gap", partition=chunk.partition, at=feed.end, goes_on_at=chunk.next_offset
        )
        self._holds.end(feed.partition, feed.end)
        position = chunk.next_offset
        if position < chunk.offset:
            end = position if chunk.log_end is None else chunk.log_end
            self._catch_up.rewind(chunk.partition, end)
            position = _set_back(feed, start=position, end=end)
        # Follow the partition again, because it may have been paused before the gap was found.
        self._tail.follow(feed.partition, position)
        feed.restart(position)
        for reader in list(feed.readers):
            reader.wake()


def _set_back(feed: Feed, *, start: int, end: int) -> int:
    """Set back the readers that are beyond the end of the log to its start.

    Return where the feed continues: at the highest position of a reader. The other readers read
    older messages from the log themselves.
    """
    for reader in feed.readers:
        if reader.position > end:
            reader.rewind(start)
    return max((reader.position for reader in feed.readers), default=start)


def _common_start(readers: list[TailReader]) -> int:
    head = max(reader.position for reader in readers)
    return min(r.position for r in readers if r.position >= head - TOGETHER_OFFSETS)
