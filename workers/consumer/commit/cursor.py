"""One subscription in one partition: its position, its open messages, and its commits."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Final, Protocol

import structlog

from app.domain.commit import Progress
from app.domain.delivery import Discarded
from app.domain.message import Message, Partition
from app.domain.runtime.receipt import FinalOutcome
from workers.consumer.commit.failed_commits import FailedCommits
from workers.consumer.commit.offsets import OffsetTracker
from workers.consumer.commit.producer_epoch import ProducerEpoch
from workers.consumer.commit.receipts import Receipts
from workers.consumer.commit.tally import Finished
from workers.reading.catchup import BatchListener
from workers.reading.feed import Batch, Feed, TailReader
from workers.reading.holds import Hold

# The maximum number of messages in a live chunk. If a decoded chunk has more messages, its cursor
# has a backlog, and deliveries of the cursor do not count as live.
LIVE_MESSAGES_MAX: Final = 32

_log = structlog.get_logger()


class CursorOwner(Protocol):
    """The owner of a cursor. It delivers the messages, and has the cursor's position committed."""

    def readable(self, cursor: "Cursor") -> None:
        """Called when the cursor may have a message to take."""

    def moved(self, cursor: "Cursor") -> None:
        """Called when the cursor has a new position to commit."""


class CursorReader(Protocol):
    """Reads the messages of a cursor from the log, if the feed does not have them."""

    def fetch(self, feed: Feed, offset: int, on_batch: BatchListener) -> None:
        """Read old messages from `offset` on. Call `on_batch` with them later."""

    def resume(self, feed: Feed) -> None:
        """Resume the reading of new messages if it is paused and a cursor needs more messages."""

    def leave(self, partition: Partition, reader: TailReader) -> None:
        """Stop reading for `reader`, because `reader` takes no more messages."""


class Cursor:
    """Takes messages in offset order from the partition's feed, or by its own reads if it lags.

    All methods that change the cursor are synchronous, so no other task sees it during a change.
    """

    def __init__(
        self,
        owner: CursorOwner,
        partition: Partition,
        start: Progress,
        *,
        receipts: Receipts | None = None,
    ) -> None:
        self._owner = owner
        self._receipts = receipts
        self.partition = partition
        self._offsets = OffsetTracker(start)
        self._feed: Feed | None = None
        self._reader: CursorReader | None = None
        self._batch: Batch | None = None
        self._index = 0
        self._reading = False
        self._rewinds = 0
        # An event that is set when no request of this cursor is in flight. It is created only when
        # somebody waits for it, because otherwise each of thousands of cursors would have one.
        self._idle: asyncio.Event | None = None
        self.lagging = False
        self.closing = False
        self.queued = False
        self.dirty = False
        self.in_flight = 0
        # Whether messages of this cursor may be traced. If so, the cursor is committed only after
        # the traces are stored.
        self.traced = False
        # Whether this cursor must not commit any more, because another worker owns the partition
        # now.
        self.abandoned = False
        # The fencing token that marks this cursor's discards. It is created before the first
        # discard.
        self._producer_epoch: ProducerEpoch | None = None
        self.committed = start
        # Whether a commit has failed. The log may still apply the failed commit later, even after a
        # newer commit.
        self._in_doubt = False
        # The commits that failed since the last one that did not; None if there are none.
        self.failed_commits: FailedCommits | None = None
        # Whether the committed position must still be stored in the database, so that users see it.
        self.unreported = True

    # ---- reading messages -----------------------------------------------------------------------

    @property
    def position(self) -> int:
        """The offset of the next message to read."""
        return self._offsets.position

    @property
    def subscription_id(self) -> str:
        """The id of the subscription."""
        return self.committed.subscription_id

    @property
    def end(self) -> int:
        """The offset up to which this worker has read the partition."""
        return max(self._feed.end, self.position) if self._feed else self.position

    @property
    def hold(self) -> Hold | None:
        """What the next message or the commits wait for, for some time; None if they do not."""
        if self._feed and (held := self._feed.hold_at(self.position)):
            return held
        return self.failed_commits.hold(self.partition) if self.failed_commits else None

    @property
    def is_full(self) -> bool:
        """Whether no message can be opened until an open message is finished."""
        return not self._offsets.may_open()

    def read_from(self, reader: CursorReader, feed: Feed) -> None:
        """Start to take messages from `feed`."""
        self._reader, self._feed = reader, feed
        self.wake()

    def wake(self) -> None:
        """Tell the owner that there may be a message to take."""
        if not self.closing:
            self._owner.readable(self)

    def rewind(self, position: int) -> None:
        """Set the position back to `position`, because the log was recreated and is shorter now."""
        _log.warning(
            "cursor_rewound",
            subscription_id=self.subscription_id,
            partition=self.partition,
            at=self.position,
            to=position,
        )
        self._offsets.rewind(position)
        self._batch = None
        # Do not wait any more for the requested chunk, because the new log may never have its
        # offset.
        self._reading = False
        self._rewinds += 1
        if self._producer_epoch is not None:
            # End the producer epoch. Its discards are about the old log, and no message of the old
            # log is sent again.
            self._producer_epoch.end()
            self._producer_epoch = None
        self._touch()

    def take(self) -> tuple[Message, int] | None:
        """Open the next message.

        Returns:
            The message, and the time from which its time to live runs (epoch ms). None if there is
                no message now. Then the cursor tells its owner when there is a message.
        """
        offsets = self._offsets
        while not self.closing and (offsets.room > 0 or offsets.may_open()):
            batch = self._batch
            if batch is None or self._index >= len(batch.messages):
                batch = self._next_batch(batch)
                if batch is None:
                    return None
            message = batch.messages[self._index]
            self._index += 1
            if offsets.finished and offsets.is_finished(message.offset):
                self._pass(message.offset + 1)
                continue
            # Open the message before anything can fail. No commit passes an open message.
            return message, offsets.open(message.offset, time.time_ns() // 1_000_000)
        return None

    def _next_batch(self, done: Batch | None) -> Batch | None:
        """Return the decoded chunk that has the next message for this cursor.

        If the chunk is not in memory, request it from the log, and return None. `done` is the chunk
        before it, whose messages have all been taken.
        """
        if done is not None:
            self._pass(done.next_offset)
        self._batch = None
        feed, reader = self._feed, self._reader
        if feed is None or reader is None or self._reading:
            return None
        while (batch := feed.find(self.position)) is not None:
            # If the chunk has many messages, treat them as a backlog, even if only one subscription
            # reads the chunk.
            self.lagging = len(batch.messages) > LIVE_MESSAGES_MAX
            if self._use(batch):
                reader.resume(feed)
                return batch
        self._ask(feed, reader)
        return None

    def _ask(self, feed: Feed, reader: CursorReader) -> None:
        if self.position >= feed.end:
            self.lagging = False
            feed.wait(self)
            reader.resume(feed)
        else:
            self.lagging = self._reading = True
            reader.fetch(feed, self.position, partial(self._on_batch, self._rewinds))

    def _on_batch(self, rewinds: int, batch: Batch, gap: bool) -> None:  # noqa: FBT001 - called by position, as a callback
        if rewinds != self._rewinds:
            return  # ignore a chunk that was requested before a rewind
        self._reading = False
        if gap:
            self._cross_gap(batch.next_offset)
        else:
            self._use(batch)
        self.wake()

    def _use(self, batch: Batch) -> bool:
        """Take the next messages from this decoded chunk.

        Return False if all offsets of the chunk are below the cursor's position.
        """
        self._index = batch.index_of(self.position)
        if self._index < len(batch.messages):
            self._batch = batch
            return True
        self._pass(batch.next_offset)
        return False

    def _pass(self, next_offset: int) -> None:
        if next_offset > self.position:
            self._offsets.pass_over(next_offset)
            self._touch()

    def _cross_gap(self, next_offset: int) -> None:
        if next_offset < self.position:
            self.rewind(next_offset)
            return
        lost = next_offset - self.position
        _log.error(
            "messages_lost_to_retention",
            subscription_id=self.subscription_id,
            partition=self.partition,
            messages=lost,
        )
        self._pass(next_offset)

    # ---- finishing messages ---------------------------------------------------------------------

    def delivered(self, message: Message) -> None:
        """Finish the message as delivered, because the subscriber accepted it."""
        offsets = self._offsets
        offsets.delivered += 1
        offsets.volume += len(message.body or b"")
        self._close(message)
        if message.receipt is not None:
            self._add_receipt(message.receipt, FinalOutcome.DELIVERED)

    def discarded(self, message: Message, why: Discarded | None = None) -> None:
        """Finish the message as discarded, because it is stored as undelivered."""
        self._offsets.discarded += 1
        self._close(message)
        if message.receipt is not None:
            self._add_receipt(message.receipt, FinalOutcome.DISCARDED, why)

    def filtered(self, message: Message) -> None:
        """Finish the message as filtered out, because the filters do not accept it."""
        self._offsets.filtered += 1
        self._close(message)
        if message.receipt is not None:
            self._add_receipt(message.receipt, FinalOutcome.FILTERED)

    def passed_by(self, message: Message) -> None:
        """Finish a message that is for another subscription. Do not count the message."""
        self._close(message)

    def request_ended(self) -> None:
        """Count a request of this cursor as ended, whatever its outcome."""
        self.in_flight -= 1
        if self.in_flight == 0 and self._idle is not None:
            self._idle.set()
            self._idle = None

    def request_started(self) -> None:
        """Count a request of this cursor as in flight, just before it is sent."""
        self.in_flight += 1

    def halt(self) -> None:
        """Open no more messages, and stop reading. Requests in flight continue."""
        self.closing = True
        if self._reader is not None:
            self._reader.leave(self.partition, self)

    async def idle(self) -> None:
        """Wait until no request of this cursor is in flight."""
        if self.in_flight:
            self._idle = self._idle or asyncio.Event()
            await self._idle.wait()

    def _add_receipt(
        self, header: bytes, outcome: FinalOutcome, why: Discarded | None = None
    ) -> None:
        if self._receipts is not None:
            self._receipts.add(header, self.committed.subscription_id, outcome, why=why)

    def _close(self, message: Message) -> None:
        offsets = self._offsets
        blocked = offsets.room <= 0 and not offsets.may_open()
        offsets.close(message.offset)
        if not self.dirty:
            self._touch()
        if blocked:
            self.wake()

    # ---- recording discards ---------------------------------------------------------------------

    @property
    def producer_epoch(self) -> str:
        """The fencing token of recorded discards; "" while discards must not be recorded."""
        epoch = self._producer_epoch
        return epoch.name if epoch is not None and epoch.is_committed else ""

    def begin_epoch(self) -> bool:
        """Create a producer epoch. All further commits contain it.

        Returns:
            False if the cursor already has a producer epoch.
        """
        if self._producer_epoch is not None:
            return False
        self._producer_epoch = ProducerEpoch()
        self._touch()
        return True

    async def epoch_begun(self) -> None:
        """Wait until discards may be recorded, or until the cursor is abandoned."""
        if self._producer_epoch is not None and not self.abandoned:
            await self._producer_epoch.begun()

    def settle(self) -> None:
        """Request a last commit without the producer epoch, if no request is in flight.

        A commit without the producer epoch tells the next owner that this commit covers all
        recorded discards.
        """
        if self._producer_epoch is not None and not self.in_flight:
            self._touch()

    def abandon(self) -> None:
        """Stop committing and recording discards, because another worker owns the partition."""
        self.abandoned = True
        if self._producer_epoch is not None:
            self._producer_epoch.end()

    # ---- times to live --------------------------------------------------------------------------

    @property
    def attempts(self) -> Mapping[int, int]:
        """Return the number of attempts of each unfinished message, by offset.

        Attempts by past owners of the partition are included.
        """
        return self._offsets.attempts

    def tried(self, message: Message, attempts: int) -> None:
        """Store the number of attempts of an unfinished message for the partition's next owner."""
        if self._offsets.tried(message.offset, attempts):
            self._touch()

    def start_ttl(self, message: Message, now_ms: int) -> int | None:
        """Start the time to live of `message` now. See `OffsetTracker.begin`."""
        return self._offsets.begin(message.offset, now_ms)

    def pause_ttls(self) -> None:
        """Pause the times to live of all open messages until `resume_ttls` is called."""
        self._offsets.pause_ttls(time.time_ns() // 1_000_000)
        if self._offsets.has_clock:
            self._touch()  # commit again with the pause, so that the next owner knows about it

    def resume_ttls(self) -> None:
        """Let the times to live of all open messages run again."""
        self._offsets.resume_ttls(time.time_ns() // 1_000_000)
        if self._offsets.has_clock:
            self._touch()

    def is_open(self, message: Message) -> bool:
        """Whether `message` is opened and not finished."""
        return self._offsets.is_open(message.offset)

    def ran_ms(self, message: Message, now_ms: int) -> int | None:
        """Return for how many milliseconds the time to live of `message` has run.

        Return None if the message is not open.
        """
        return self._offsets.ran_ms(message.offset, now_ms)

    # ---- committing the position ----------------------------------------------------------------

    def renew(self) -> None:
        """Commit the same position again: some logs drop positions that are not renewed."""
        self._touch()

    def finished(self) -> Finished:
        """Return the counts of messages that were finished since this cursor was opened.

        Messages that are not committed yet are included.
        """
        return self._offsets.finished_here()

    def commit_begins(self) -> Progress:
        """Return what is committed now. Later changes belong to the next commit."""
        self.dirty = False
        progress = self._offsets.committable()
        # Leave out the producer epoch in the last commit. This tells the next owner that the commit
        # covers all recorded discards.
        if self._producer_epoch is None or (self.closing and not self.in_flight):
            return progress
        return replace(progress, producer_epoch=self._producer_epoch.name)

    def commit_done(self, progress: Progress) -> None:
        """Called when the log has durably stored the commit `progress`."""
        self.committed = progress
        self.failed_commits = None
        self.unreported = True
        if self._in_doubt:
            self._in_doubt = False
            # Commit again, because the log may still apply a failed commit after this one.
            self._touch()
        elif (
            self._producer_epoch is not None
            and self._producer_epoch.name == progress.producer_epoch
        ):
            self._producer_epoch.committed()

    def commit_failed(self, reason: str) -> None:
        """Called when a commit failed, or its result is unknown. A later round commits again."""
        self._in_doubt = True
        self.failed_commits = self.failed_commits or FailedCommits(datetime.now(UTC))
        self.failed_commits.add(reason)
        self._touch()

    def _touch(self) -> None:
        if not self.dirty:
            self.dirty = True
            self._owner.moved(self)
