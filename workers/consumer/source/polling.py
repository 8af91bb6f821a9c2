"""Polling mode: takes some messages at a time, at fixed intervals (pure, without a clock)."""

import math
from collections.abc import Hashable

from app.domain.catalogue.fetch import FetchPolicy


class Polling:
    """Decides when the next message may be taken from the log.

    A poll starts every `polling_time`, counted from the first poll that found a message. It takes
    `poll_size` messages, or fewer if there are no more. It ends when each of these messages is
    delivered, discarded, or waits for a retry. The next poll starts at its planned time, or
    immediately if that time has passed. While there are no messages, no timer runs. The times of
    polls that would find nothing are calculated later, and skipped.

    `now` is the time of any monotonic clock, in seconds.
    """

    def __init__(self, fetch: FetchPolicy, now: float) -> None:
        self._fetch = fetch
        self._due = now
        # The number of messages that the current poll may still take.
        self._left = 0
        # When the current poll began to wait until more messages are read from the log.
        self._dry_since: float | None = None
        self._found = False
        # Whether a poll has ended because there were no messages, and the planned times since then
        # are not skipped yet.
        self._ended_empty = False
        self._under_way: set[Hashable] = set()

    def configure(self, fetch: FetchPolicy, now: float) -> None:
        """Use new settings. A shorter interval or a smaller poll takes effect immediately."""
        self._fetch = fetch
        self._left = min(self._left, fetch.poll_size)
        self._due = min(self._due, now + fetch.polling_time.total_seconds())

    def may_take(self, now: float) -> bool:
        """Return whether one more message may be taken. Start the next poll if its time has come.

        Call this method only if there may be a message. Then report what was found by calling
        `took` or `found_nothing`.
        """
        self._give_up_reading(now)
        due = self.next_due(now)
        if due is not None and due <= now:
            self._begin(now)
        return self._left > 0

    def next_due(self, now: float) -> float | None:
        """Return when the next poll starts.

        Return None while a poll takes messages, or has a message in delivery. Call this method only
        if there may be a message.
        """
        if self._ended_empty:
            self._pass_over_empty_polls(now)
        return None if self._left > 0 or self._under_way else self._due

    def took(self) -> None:
        """Called when a message was taken."""
        self._left -= 1
        self._dry_since = None
        self._found = True

    def found_nothing(self, now: float, *, reading: bool, held_up: bool) -> None:
        """Called when there was no message to take.

        The current poll ends, unless `reading` or `held_up` is true. If the log is being read, the
        poll waits for messages, but not longer than `fetch_timeout`.

        Args:
            now: The current time in monotonic seconds.
            reading: Whether the log is being read.
            held_up: Whether the next message waits for a message in delivery.
        """
        if self._left == 0 or (held_up and self._under_way):
            return
        if not reading:
            self._end(now)
        elif self._dry_since is None:
            self._dry_since = now

    def started(self, message: Hashable) -> None:
        """Called at the start of the first attempt of `message`."""
        self._under_way.add(message)

    def ended(self, message: Hashable) -> bool:
        """Called at the end of an attempt. Return whether no other message is in delivery."""
        if message not in self._under_way:
            return False
        self._under_way.remove(message)
        return not self._under_way

    def _begin(self, now: float) -> None:
        period = self._fetch.polling_time.total_seconds()
        # Count from the planned time of this poll, so that a late timer does not shift the next
        # polls.
        self._due += period
        if self._due <= now or not self._found:
            self._due = now + period
        self._left = self._fetch.poll_size

    def _end(self, now: float) -> None:
        self._left = 0
        self._dry_since = None
        if self._found:
            self._ended_empty = True
        else:
            self._due = now

    def _give_up_reading(self, now: float) -> None:
        timeout = self._fetch.fetch_timeout.total_seconds()
        if self._dry_since is not None and now - self._dry_since > timeout:
            self._end(now)
            # Do not skip planned times, because messages were waiting in the log all the time.
            self._ended_empty = False

    def _pass_over_empty_polls(self, now: float) -> None:
        self._ended_empty = False
        if self._due < now and not self._under_way:
            period = self._fetch.polling_time.total_seconds()
            self._due += math.ceil((now - self._due) / period) * period
