"""One subscription in one partition: where it reads, what it has open, what it may commit."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Protocol

import structlog

from app.domain.commit import Progress
from app.domain.delivery import Discarded
from app.domain.message import Message, Partition
from app.domain.runtime.receipt import FinalOutcome
from workers.consumer.commit.offsets import OffsetTracker
from workers.consumer.commit.producer_epoch import ProducerEpoch
from workers.consumer.commit.receipts import Receipts
from workers.consumer.commit.tally import Finished
from workers.reading.catchup import BatchListener
from workers.reading.feed import Batch, Feed, TailReader

# What arrives together, and is live all the same.
LIVE_MESSAGES_MAX: Final = 32

_log = structlog.get_logger()


class CursorOwner(Protocol):
    """Delivers what a cursor reads, and has it committed."""

    def readable(self, cursor: "Cursor") -> None:
        """The cursor may have a message to take."""

    def moved(self, cursor: "Cursor") -> None:
        """The cursor has something new to commit."""


class CursorReader(Protocol):
    """Reads for a cursor."""

    def fetch(self, feed: Feed, offset: int, on_batch: BatchListener) -> None:
        """Read what lies before the feed."""

    def resume(self, feed: Feed) -> None:
        """Read a held tail on, if its fastest reader needs more."""

    def leave(self, partition: Partition, reader: TailReader) -> None:
        """`reader` takes nothing any more."""


class Cursor:
    """Takes messages in offset order, from the shared feed or, when behind, by catch-up reads.

    Every method is synchronous: a cursor is changed only between two turns of the loop.
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
        self._idle = asyncio.Event()
        self._idle.set()
        self.lagging = False
        self.closing = False
        self.queued = False
        self.dirty = False
        self.in_flight = 0
        # Whether its messages may be traced: nothing is committed before their traces.
        self.traced = False
        # Someone else owns the partition: nothing of this cursor may be committed any more.
        self.abandoned = False
        # Since it was to discard something.
        self._producer_epoch: ProducerEpoch | None = None
        self.committed = start
        # One that failed may be on its way all the same, and come in behind the next one.
        self._in_doubt = False
        # Committed, but not yet in the database for people to see.
        self.unreported = True

    # ---- reading --------------------------------------------------------------------------------

    @property
    def position(self) -> int:
        """The next offset to read."""
        return self._offsets.position

    @property
    def subscription_id(self) -> str:
        """The id of its subscription."""
        return self.committed.subscription_id

    @property
    def end(self) -> int:
        """The partition's end as far as it was read."""
        return max(self._feed.end, self.position) if self._feed else self.position

    @property
    def is_full(self) -> bool:
        """Whether nothing can be opened before something that is open is finished."""
        return not self._offsets.may_open()

    def read_from(self, reader: CursorReader, feed: Feed) -> None:
        """Start taking messages."""
        self._reader, self._feed = reader, feed
        self.wake()

    def wake(self) -> None:
        """There may be something to take."""
        if not self.closing:
            self._owner.readable(self)

    def rewind(self, position: int) -> None:
        """The log was made anew and ends before us."""
        _log.warning(
            "cursor_rewound",
            subscription_id=self.subscription_id,
            partition=self.partition,
            at=self.position,
            to=position,
        )
        self._offsets.rewind(position)
        self._batch = None
        if self._producer_epoch is not None:
            # What it has recorded was of another log, in which nothing is sent again.
            self._producer_epoch.end()
            self._producer_epoch = None
        self._touch()

    def take(self) -> tuple[Message, int] | None:
        """Open the next message; returns it and since when its time to live runs (ms), or None.

        None: nothing can be taken now; the cursor wakes its owner when that changes.
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
            # In flight before anything about it can fail: from here on no commit passes it.
            return message, offsets.open(message.offset, time.time_ns() // 1_000_000)
        return None

    def _next_batch(self, done: Batch | None) -> Batch | None:
        """The next batch that has a message for us, or None after asking for it."""
        if done is not None:
            self._pass(done.next_offset)
        self._batch = None
        feed, reader = self._feed, self._reader
        if feed is None or reader is None or self._reading:
            return None
        while (batch := feed.find(self.position)) is not None:
            # So many at once are a backlog too, if one of all subscriptions.
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
            reader.fetch(feed, self.position, self._on_batch)

    def _on_batch(self, batch: Batch, gap: bool) -> None:  # noqa: FBT001 - the shape of a callback
        self._reading = False
        if batch.offset > self.position:
            pass  # requested before we were rewound
        elif gap:
            self._cross_gap(batch.next_offset)
        else:
            self._use(batch)
        self.wake()

    def _use(self, batch: Batch) -> bool:
        """Take from `batch`; False when it has nothing at or above our position."""
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

    # ---- finishing ------------------------------------------------------------------------------

    def delivered(self, message: Message) -> None:
        """The subscriber has it."""
        offsets = self._offsets
        offsets.delivered += 1
        offsets.volume += len(message.body or b"")
        self._close(message)
        if message.receipt is not None:
            self._add_receipt(message.receipt, FinalOutcome.DELIVERED)

    def discarded(self, message: Message, why: Discarded | None = None) -> None:
        """It is durable among the undelivered."""
        self._offsets.discarded += 1
        self._close(message)
        if message.receipt is not None:
            self._add_receipt(message.receipt, FinalOutcome.DISCARDED, why)

    def filtered(self, message: Message) -> None:
        """The subscription does not want it."""
        self._offsets.filtered += 1
        self._close(message)
        if message.receipt is not None:
            self._add_receipt(message.receipt, FinalOutcome.FILTERED)

    def passed_by(self, message: Message) -> None:
        """It is for another subscription, so it is none of those that are counted here."""
        self._close(message)

    def request_ended(self) -> None:
        """A request of ours is over, whatever came of it."""
        self.in_flight -= 1
        if self.in_flight == 0:
            self._idle.set()

    def request_started(self) -> None:
        """A request of ours is about to leave."""
        if self.in_flight == 0:
            self._idle.clear()
        self.in_flight += 1

    def halt(self) -> None:
        """Open nothing more and leave the feed; what is in flight goes on."""
        self.closing = True
        if self._reader is not None:
            self._reader.leave(self.partition, self)

    async def idle(self) -> None:
        """Wait until no request of ours is in flight."""
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

    # ---- discarding -----------------------------------------------------------------------------

    @property
    def producer_epoch(self) -> str:
        """The name that discards are recorded with; "" while none may be recorded."""
        epoch = self._producer_epoch
        return epoch.name if epoch is not None and epoch.is_committed else ""

    def begin_epoch(self) -> bool:
        """Have the next commit name our epoch; False if that was requested before."""
        if self._producer_epoch is not None:
            return False
        self._producer_epoch = ProducerEpoch()
        self._touch()
        return True

    async def epoch_begun(self) -> None:
        """Wait until discards may be recorded; or are not to be, as we are `abandoned`."""
        if self._producer_epoch is not None and not self.abandoned:
            await self._producer_epoch.begun()

    def settle(self) -> None:
        """Have the last commit end the epoch, if nothing is in flight."""
        if self._producer_epoch is not None and not self.in_flight:
            self._touch()

    def abandon(self) -> None:
        """Commit nothing more, and record nothing more: another has it."""
        self.abandoned = True
        if self._producer_epoch is not None:
            self._producer_epoch.end()

    # ---- times to live --------------------------------------------------------------------------

    @property
    def attempts(self) -> Mapping[int, int]:
        """By offset, how often unfinished messages were tried, also by others before us."""
        return self._offsets.attempts

    def tried(self, message: Message, attempts: int) -> None:
        """It was tried so often, and is not finished: the next owner counts on from there."""
        if self._offsets.tried(message.offset, attempts):
            self._touch()

    def start_ttl(self, message: Message, now_ms: int) -> int | None:
        """Have the time to live of `message` run from now on, as `OffsetTracker.begin`."""
        return self._offsets.begin(message.offset, now_ms)

    def pause_ttls(self) -> None:
        """Pause times to live until `resume_ttls`."""
        self._offsets.pause_ttls(time.time_ns() // 1_000_000)
        if self._offsets.has_clock:
            self._touch()  # the next owner must not count on

    def resume_ttls(self) -> None:
        """Times to live run again."""
        self._offsets.resume_ttls(time.time_ns() // 1_000_000)
        if self._offsets.has_clock:
            self._touch()

    def is_open(self, message: Message) -> bool:
        """Whether `message` was taken and is not finished."""
        return self._offsets.is_open(message.offset)

    def ran_ms(self, message: Message, now_ms: int) -> int | None:
        """For how long the time to live of `message` has run; None if it is not open any more."""
        return self._offsets.ran_ms(message.offset, now_ms)

    # ---- committing -----------------------------------------------------------------------------

    def renew(self) -> None:
        """Commit again although nothing moved: a log may forget positions that are not renewed."""
        self._touch()

    def finished(self) -> Finished:
        """What was finished since it was opened, committed or not."""
        return self._offsets.finished_here()

    def commit_begins(self) -> Progress:
        """What to commit now; what happens from here on is for the next commit."""
        self.dirty = False
        progress = self._offsets.committable()
        # Once all has ended that we shall ever send, what we recorded is in it.
        if self._producer_epoch is None or (self.closing and not self.in_flight):
            return progress
        return replace(progress, producer_epoch=self._producer_epoch.name)

    def commit_done(self, progress: Progress) -> None:
        """`progress` is durable."""
        self.committed = progress
        self.unreported = True
        if self._in_doubt:
            self._in_doubt = False
            self._touch()  # once more, behind the one that failed
        elif (
            self._producer_epoch is not None
            and self._producer_epoch.name == progress.producer_epoch
        ):
            self._producer_epoch.committed()

    def commit_failed(self) -> None:
        """It is not, as far as is known: it goes into the next round."""
        self._in_doubt = True
        self._touch()

    def _touch(self) -> None:
        if not self.dirty:
            self.dirty = True
            self._owner.moved(self)
