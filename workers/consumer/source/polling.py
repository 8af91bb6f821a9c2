"""POLLING: some messages at a time, at fixed times (pure; the clock is passed in)."""

import math
from collections.abc import Hashable

from app.domain.catalogue.fetch import FetchPolicy


class Polling:
    """When the next message may be taken out of the log.

    Polls are `polling_time` apart, counted from the first that found a message. One takes
    `poll_size` messages at most. It is over when it has them, or when there are no more to take,
    and each that it took is delivered, discarded, or waits for a retry. The next begins at its
    time, or at once if that has passed meanwhile. Nothing runs while there is nothing to take:
    polls that would have found nothing are reckoned, not made.

    `now` is any monotonic clock in seconds.
    """

    def __init__(self, fetch: FetchPolicy, now: float) -> None:
        self._fetch = fetch
        self._due = now
        # What the running poll may still take.
        self._left = 0
        # Since when the running poll waits for what is being read.
        self._dry_since: float | None = None
        self._found = False
        # Not called since there was nothing to take.
        self._unasked = False
        self._under_way: set[Hashable] = set()

    def configure(self, fetch: FetchPolicy, now: float) -> None:
        """Poll by other settings: a shorter time, or a smaller size, counts at once."""
        self._fetch = fetch
        self._left = min(self._left, fetch.poll_size)
        self._due = min(self._due, now + fetch.polling_time.total_seconds())

    def may_take(self, now: float) -> bool:
        """Whether one more message may be taken; begins the next poll when it is time.

        Call it only when there may be a message, and report what comes of it.
        """
        self._give_up_reading(now)
        due = self.next_due(now)
        if due is not None and due <= now:
            self._begin(now)
        return self._left > 0

    def next_due(self, now: float) -> float | None:
        """When the next poll begins; None while one takes messages, or has one under way.

        Call it only when there may be a message.
        """
        if self._unasked:
            self._pass_over_empty_polls(now)
        return None if self._left > 0 or self._under_way else self._due

    def took(self) -> None:
        """A message was taken."""
        self._left -= 1
        self._dry_since = None
        self._found = True

    def found_nothing(self, now: float, *, reading: bool, held_up: bool) -> None:
        """There was no message to take.

        `reading`: the log is being read. `held_up`: what comes next waits for one that is under
        way. The running poll waits for both; for what is read, at most `fetch_timeout`.
        """
        if self._left == 0 or (held_up and self._under_way):
            return
        if not reading:
            self._end(now)
        elif self._dry_since is None:
            self._dry_since = now

    def started(self, message: Hashable) -> None:
        """The first attempt at `message` begins."""
        self._under_way.add(message)

    def ended(self, message: Hashable) -> bool:
        """An attempt at `message` is over; whether nothing taken is under way any more by that."""
        if message not in self._under_way:
            return False
        self._under_way.remove(message)
        return not self._under_way

    def _begin(self, now: float) -> None:
        period = self._fetch.polling_time.total_seconds()
        # A timer that was late does not shift the polls after it.
        self._due += period
        if self._due <= now or not self._found:
            self._due = now + period
        self._left = self._fetch.poll_size

    def _end(self, now: float) -> None:
        self._left = 0
        self._dry_since = None
        if self._found:
            self._unasked = True
        else:
            self._due = now

    def _give_up_reading(self, now: float) -> None:
        timeout = self._fetch.fetch_timeout.total_seconds()
        if self._dry_since is not None and now - self._dry_since > timeout:
            self._end(now)
            # Something was there all the time.
            self._unasked = False

    def _pass_over_empty_polls(self, now: float) -> None:
        self._unasked = False
        if self._due < now and not self._under_way:
            period = self._fetch.polling_time.total_seconds()
            self._due += math.ceil((now - self._due) / period) * period
