"""The cache of one partition's newest chunks. Each is read once for all cursors that keep up."""

import bisect
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final, Protocol

from app.domain.message import Message, Partition
from workers.reading.holds import Hold, Holds

# The maximum size of one partition's cache in bytes. A cursor that needs older messages reads them
# from the log itself.
CACHE_BYTES_MAX: Final = 4 << 20
# The maximum number of bytes in the cache that the fastest cursor has not taken yet. At this limit,
# the reading of new messages pauses.
AHEAD_BYTES_MAX: Final = 2 << 20
# The reading of new messages resumes when the cache has less than this number of bytes that the
# fastest cursor has not taken yet.
AHEAD_BYTES_RESUME: Final = 1 << 20

_offset_of = attrgetter("offset")


@dataclass(frozen=True, slots=True)
class Batch:
    """A decoded chunk: the messages at the offsets from `offset` to before `next_offset`."""

    offset: int
    next_offset: int
    messages: Sequence[Message]
    size: int

    def index_of(self, offset: int) -> int:
        """Return the index of the first message whose offset is at least `offset`."""
        if offset <= self.offset:
            return 0
        return bisect.bisect_left(self.messages, offset, key=_offset_of)


class TailReader(Protocol):
    """A reader of a feed, which waits at the feed's end for new messages."""

    @property
    def position(self) -> int:
        """The offset that the reader reads next."""

    def wake(self) -> None:
        """Called when there may be a message at the reader's position."""

    def rewind(self, position: int) -> None:
        """Continue at `position`: the log was recreated, and ends before the reader's position."""


class Feed:
    """The newest decoded chunks of one partition, limited in bytes.

    The feed has the offsets from `start` to before `end`. A cursor in this range reads from the
    feed. A cursor at `end` or above waits. A cursor below `start` reads from the log itself until
    it has caught up. If `held` is true, the tail does not read this partition: the feed has enough
    messages that even the fastest reader has not taken yet.
    """

    def __init__(self, partition: Partition, position: int, holds: Holds | None = None) -> None:
        self.partition = partition
        self._holds = holds or Holds()
        self.end = position
        self.held = False
        self._batches: deque[Batch] = deque()
        self._bytes = 0
        self._waiting: dict[TailReader, None] = {}
        self.readers: set[TailReader] = set()

    @property
    def start(self) -> int:
        """The first offset in the feed."""
        return self._batches[0].offset if self._batches else self.end

    def hold_at(self, position: int) -> Hold | None:
        """Return why the messages at `position` cannot be read yet; None if nothing delays them."""
        return self._holds.at(self.partition, position)

    def find(self, position: int) -> Batch | None:
        """Return the chunk that has the offset `position`; None if the feed does not have it.

        The newest chunk is checked first, because most readers need it.
        """
        for batch in reversed(self._batches):
            if batch.offset <= position < batch.next_offset:
                return batch
        return None

    def put(self, batch: Batch) -> None:
        """Append a decoded chunk that starts at `end`, and wake the readers that wait for it."""
        self.end = batch.next_offset
        self._append(batch)
        self.trim()
        self.held = self._ahead() > AHEAD_BYTES_MAX
        self._wake()

    def wait(self, reader: TailReader) -> None:
        """Wake `reader` when the next chunk is appended."""
        self._waiting[reader] = None

    def leave(self, reader: TailReader) -> None:
        """Remove `reader`, which takes no more messages."""
        self.readers.discard(reader)
        self._waiting.pop(reader, None)

    def restart(self, position: int) -> None:
        """Continue at another position: drop the cache, and wake the waiting readers."""
        self._batches.clear()
        self._bytes = 0
        self.end = position
        self.held = False
        self._wake()

    def may_resume(self) -> bool:
        """Whether the reading of this partition is paused, and should resume."""
        return self.held and self._ahead() < AHEAD_BYTES_RESUME

    def trim(self) -> None:
        """Drop chunks that all readers of the feed have passed.

        Then drop the oldest chunks until the feed is at most CACHE_BYTES_MAX large.
        """
        start = self.start
        needed = min((r.position for r in self.readers if r.position >= start), default=self.end)
        batches = self._batches
        while batches and (batches[0].next_offset <= needed or self._bytes > CACHE_BYTES_MAX):
            self._bytes -= batches.popleft().size

    def _append(self, batch: Batch) -> None:
        if not batch.messages and self._batches:
            # The new chunk has offsets, but no messages. Add its offsets to the last chunk, so that
            # they need no chunk of their own.
            last = self._batches.pop()
            self._bytes -= last.size
            size = last.size + batch.size
            batch = replace(last, next_offset=batch.next_offset, size=size)
        self._batches.append(batch)
        self._bytes += batch.size

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for reader in waiting:
            reader.wake()

    def _ahead(self) -> int:
        fastest = max((reader.position for reader in self.readers), default=self.end)
        return sum(batch.size for batch in self._batches if batch.offset >= fastest)
