"""The messages of a partition that a subscription has finished: pure, without I/O or clock."""

import bisect
from collections import Counter
from typing import Final

from app.domain.commit import (
    FINISHED_BYTES_MAX,
    METADATA_BYTES_MAX,
    RUN_PAIR_BYTES_MAX,
    Attempts,
    Progress,
    Ranges,
    encode_runs,
    fitting,
)
from workers.consumer.commit.tally import Finished

# The number of unfinished messages that always fit into a commit, whatever their offsets are.
_ALWAYS_FITS: Final = FINISHED_BYTES_MAX // RUN_PAIR_BYTES_MAX
# The maximum number of messages whose numbers of attempts fit into the metadata of a commit. Each
# message needs at least two bytes.
_TRIED_MAX: Final = METADATA_BYTES_MAX * 3 // 4 // 2


class OffsetTracker:
    """The opened and finished offsets of one cursor.

    Messages are opened in offset order, and closed in any order. `position` is the next offset to
    read: every message below it is open or finished. `committable()` returns what may be committed:
    the oldest unfinished offset, and the finished offsets above it.
    """

    __slots__ = (
        "_forgotten",
        "_opened",
        "_paused_since",
        "_resumed",
        "_resumed_ms",
        "_start",
        "attempts",
        "delivered",
        "discarded",
        "filtered",
        "finished",
        "position",
        "room",
        "volume",
    )

    def __init__(self, start: Progress) -> None:
        self._start = start
        self._opened: dict[int, int] = {}
        # Finished offsets at or above the position, from before this tracker was created. An offset
        # is removed when the position has passed it.
        self.finished: list[tuple[int, int]] = list(start.finished)
        # The number of attempts of each unfinished message, including attempts before a restart.
        self.attempts: dict[int, int] = dict(start.attempts)
        # The offsets of messages that were opened before a rewind and are still open. New messages
        # may have the same offsets.
        self._forgotten: Counter[int] = Counter()
        # How many more messages may be opened before the free space in a commit must be measured
        # again.
        self.room = _ALWAYS_FITS
        has_clock = start.oldest_opened_ms is not None or start.oldest_elapsed_ms is not None
        # The offset of the one message whose time to live began before the restart. It continues
        # from the committed value.
        self._resumed = start.offset if has_clock else -1
        self._resumed_ms = start.oldest_opened_ms
        self._paused_since: int | None = None
        self.position = start.offset
        self.delivered = start.delivered
        self.discarded = start.discarded
        self.filtered = start.filtered
        self.volume = start.volume

    @property
    def open_count(self) -> int:
        """The number of open messages."""
        return len(self._opened)

    @property
    def has_clock(self) -> bool:
        """Whether the time to live of any message is running or paused."""
        return bool(self._opened) or self.position == self._resumed

    def finished_here(self) -> Finished:
        """Return the counts of messages that were finished since this tracker was created."""
        start = self._start
        return Finished(
            self.delivered - start.delivered,
            self.discarded - start.discarded,
            self.filtered - start.filtered,
            self.volume - start.volume,
        )

    def is_finished(self, offset: int) -> bool:
        """Whether `offset`, at or above the position, was finished before a restart."""
        finished = self.finished
        at = bisect.bisect_right(finished, (offset, 1 << 62)) - 1
        return at >= 0 and finished[at][0] <= offset < finished[at][1]

    def is_open(self, offset: int) -> bool:
        """Whether the message at `offset` is opened and not closed."""
        return offset in self._opened

    def may_open(self) -> bool:
        """Whether one more message may be opened.

        With too many open messages, the finished offsets between them would be too many ranges to
        fit into a commit.
        """
        if self.room > 0:
            return True
        self.room = self._measured_room()
        if not self._opened:
            # If no message is open, finishing messages cannot free any space. So always allow some
            # messages. A commit leaves out the finished offsets that do not fit.
            self.room = max(self.room, _ALWAYS_FITS)
        return self.room > 0

    def open(self, offset: int, now_ms: int) -> int:
        """Open the message at `offset`. Return when its time to live starts (epoch ms)."""
        self._opened[offset] = now_ms
        self.room -= 1
        self.position = offset + 1
        return now_ms if offset != self._resumed else self._resume_clock(offset, now_ms)

    def tried(self, offset: int, attempts: int) -> bool:
        """Store the number of attempts of an open message.

        Return False if the message is not open.
        """
        if offset not in self._opened:
            return False
        self.attempts[offset] = attempts
        return True

    def begin(self, offset: int, now_ms: int) -> int | None:
        """Start the time to live of an open message now.

        Returns:
            The start of the time to live (epoch ms). None if the start is unchanged. This is so if
                the message is not open, or if its time to live already ran with a past owner.
        """
        if offset == self._resumed or offset not in self._opened:
            return None
        self._opened[offset] = now_ms
        return now_ms

    def pause_ttls(self, now_ms: int) -> None:
        """Pause the times to live of all open messages until `resume_ttls` is called."""
        if self._paused_since is None:
            self._paused_since = now_ms

    def resume_ttls(self, now_ms: int) -> None:
        """Let the times to live run again. Each ends later by the length of the pause."""
        since, self._paused_since = self._paused_since, None
        if since is None:
            return
        if self._resumed_ms is not None:
            self._resumed_ms += max(0, now_ms - since)
        opened = self._opened
        # Move the start of each time to live by the length of the pause. For a message that was
        # opened during the pause, the time to live starts now.
        self._opened = {at: ms + max(0, now_ms - max(ms, since)) for at, ms in opened.items()}

    def ran_ms(self, offset: int, now_ms: int) -> int | None:
        """Return for how many milliseconds a message's time to live has run; None if not open."""
        opened_ms, since = self._opened.get(offset), self._paused_since
        if opened_ms is None:
            return None
        return max(0, (now_ms if since is None else since) - opened_ms)

    def pass_over(self, next_offset: int) -> None:
        """Continue reading at `next_offset`: lower offsets are finished or have no message."""
        self.position = next_offset
        finished = self.finished
        while finished and finished[0][1] <= next_offset:
            finished.pop(0)

    def rewind(self, offset: int) -> None:
        """Continue reading at `offset`, because the log was recreated and is shorter now."""
        self._forgotten.update(self._opened.keys())
        self._opened.clear()
        self.attempts.clear()
        self.finished.clear()
        self.position = offset

    def close(self, offset: int) -> None:
        """Finish an opened message. Ignore a message that was opened before a rewind.

        An old message from before the rewind and a new message may have the same offset. Then the
        first close counts for the old message. So no commit passes the new message too early.
        """
        forgotten = self._forgotten
        if offset not in forgotten:
            self._opened.pop(offset, None)
            if self.attempts:
                self.attempts.pop(offset, None)
        elif forgotten[offset] > 1:
            forgotten[offset] -= 1
        else:
            del forgotten[offset]

    def committable(self) -> Progress:
        """Return the progress that may be committed now."""
        offset = min(self._opened, default=self.position)
        opened_ms, elapsed_ms = self._clock_of(offset)
        return Progress(
            subscription_id=self._start.subscription_id,
            offset=offset,
            finished=fitting(offset, self._finished_above()),
            oldest_opened_ms=opened_ms,
            oldest_elapsed_ms=elapsed_ms,
            delivered=self.delivered,
            discarded=self.discarded,
            filtered=self.filtered,
            seek=self._start.seek,
            volume=self.volume,
            attempts=self._tried_from(offset),
        )

    def _tried_from(self, offset: int) -> Attempts:
        tried = sorted(pair for pair in self.attempts.items() if pair[0] >= offset)
        return tuple(tried[:_TRIED_MAX])

    def _clock_of(self, offset: int) -> tuple[int | None, int | None]:
        """Return the times to commit for the oldest unfinished message, which is at `offset`.

        Returns:
            While its time to live runs: when the message was opened (epoch ms), and None. While its
                time to live is paused: None, and for how many milliseconds it has run.
        """
        opened_ms, since = self._opened.get(offset), self._paused_since
        if opened_ms is None and offset == self._resumed:
            # The message was not opened again after the restart, so commit the stored times again.
            elapsed_ms, opened_ms = self._start.oldest_elapsed_ms, self._resumed_ms
            if elapsed_ms is not None:
                return None, elapsed_ms
        if opened_ms is None or since is None:
            return opened_ms, None
        return None, max(0, since - opened_ms)

    def _resume_clock(self, offset: int, now_ms: int) -> int:
        """Continue a message's time to live from the value that a past owner has committed.

        Return when the time to live starts (epoch ms).
        """
        shown_ms = now_ms if self._paused_since is None else self._paused_since
        elapsed_ms = self._start.oldest_elapsed_ms
        if elapsed_ms is None:
            elapsed_ms = max(0, shown_ms - (self._resumed_ms or shown_ms))
        self._opened[offset] = shown_ms - elapsed_ms
        return now_ms - elapsed_ms

    def _finished_above(self) -> Ranges:
        ranges = []
        offsets = iter(sorted(self._opened))
        low = next(offsets, self.position) + 1
        for offset in offsets:
            if low < offset:
                ranges.append((low, offset))
            low = offset + 1
        if low < self.position:
            ranges.append((low, self.position))
        position = self.position
        ranges += ((max(a, position), b) for a, b in self.finished if b > position)
        return tuple(ranges)

    def _measured_room(self) -> int:
        used = len(encode_runs(min(self._opened, default=self.position), self._finished_above()))
        return (FINISHED_BYTES_MAX - used) // RUN_PAIR_BYTES_MAX
