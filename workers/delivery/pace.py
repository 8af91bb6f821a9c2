"""Decides when a subscription's next request may be sent, by hard limit and adaptive rate."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from math import inf
from typing import NamedTuple, Protocol

from app.domain.catalogue.subscription import DeliveryPolicy
from app.domain.delivery import Outcome
from app.domain.status import Output, RateMode
from workers.delivery.adaptive import AdaptiveRate
from workers.delivery.health import is_healthy
from workers.delivery.rate import WINDOW_S, RateLimiter
from workers.delivery.share import Share
from workers.delivery.stall_watchdog import StallWatchdog
from workers.delivery.tickets import ticket_count
from workers.delivery.time_slots import TimeSlots


class EndedRequest(NamedTuple):
    """A request that has ended.

    Attributes:
        epoch: The value that `sent` returned for this request.
        outcome: The outcome of the attempt.
        seconds: How long the request took.
        retried: Whether the request was a retry.
        full: Whether as many requests were in flight as the subscription allows.
    """

    epoch: int
    outcome: Outcome
    seconds: float
    retried: bool
    full: bool


class Pacing(Protocol):
    """Decides when requests of a consumer may be sent."""

    @property
    def cautious(self) -> bool:
        """Whether the subscriber was down. Then new messages are better probes than failed ones."""

    @property
    def reads_ahead(self) -> bool:
        """Whether messages may be filtered before they may be sent."""

    @property
    def next_probe(self) -> float | None:
        """When the next message may be tried, in monotonic seconds; None if more may be sent."""

    def wait(self, now: float) -> float:
        """Return the seconds until the next request may be sent; 0.0 if one may be sent now."""

    def sent(self, now: float) -> int:
        """Count a request that is sent. Return the number for its `EndedRequest.epoch`."""

    def learn(self, ended: EndedRequest, now: float) -> bool:
        """Learn from an ended request; return whether more or fewer requests may now be sent."""

    def output(self, now: float) -> Output:
        """Return how much may be sent now, and what limits it."""


class Pace:
    """Sends at most the current share of the hard limit.

    Below this limit, the rate adapts to the subscriber.

    Nothing is sent before the first share is known, and nothing is sent while the `watchdog` blocks
    sending. `wall` is the clock whose time all workers share.
    """

    def __init__(
        self,
        policy: DeliveryPolicy,
        now: float,
        *,
        watchdog: StallWatchdog | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._limit = float(policy.rate)
        self._watchdog = watchdog or StallWatchdog()
        self._wall = wall
        self._share: Share | None = None
        # The current rate of this worker's share, in requests per second.
        self._rate = 0.0
        # When the rate of this worker's share will change.
        self._changes_at = inf
        # `_before` is the rate of this worker's share before its last increase. `_raised_at` is the
        # time of that increase.
        self._before, self._raised_at = 0.0, -inf
        # The time slots of this worker. None until they are needed for the first time.
        self._time_slots: TimeSlots | None = None
        # The time slots, if this worker may send only in its time slots now. Otherwise None.
        self._slots_in_use: TimeSlots | None = None
        self._held_until = now
        self._since = now
        self._limiter = RateLimiter(self._limit)
        self._adaptive: AdaptiveRate | None = None
        # Whether the rate adapts to responses.
        self.adapts = False
        self.configure(policy, now)

    @property
    def reads_ahead(self) -> bool:
        """Return True: messages may always be filtered before they may be sent."""
        return True

    @property
    def rate(self) -> float:
        """The current limit in requests per second."""
        return self._limiter.rate

    @property
    def cautious(self) -> bool:
        """Whether the subscriber was down. Then new messages are better probes than failed ones."""
        return self._adaptive is not None and self._adaptive.mode is not RateMode.NORMAL

    @property
    def next_probe(self) -> float | None:
        """When the next message may be tried, if the subscriber is down; otherwise None."""
        return None if self._adaptive is None else self._adaptive.next_probe

    def configure(self, policy: DeliveryPolicy, now: float) -> None:
        """Use the settings of `policy` that say whether and how the rate adapts."""
        heartbeat_max = policy.heartbeat_max.total_seconds()
        if not policy.adaptive_rate:
            self._since = self._since if self._adaptive is None else now
            self._adaptive = None
        elif self._adaptive is None:
            self._adaptive = AdaptiveRate(limit=self._limit, heartbeat_max=heartbeat_max, now=now)
        else:
            self._adaptive.heartbeat_max = heartbeat_max
        self.adapts = policy.adaptive_rate
        self._apply()

    def share(self, share: Share, now: float) -> None:
        """Set this worker's share of the hard limit."""
        before, self._share = self._share, share
        if share == before:
            return
        if before is None or share[:2] != before[:2]:
            self._time_slots = TimeSlots(share.limit, ticket_count(share.partitions))
            if share.is_small or (before is not None and before.is_small):
                # Send nothing for one second, because another worker may have used the whole rate
                # in the last second.
                self._held_until = now + WINDOW_S
        self._refresh(share, now)

    def forget_share(self) -> None:
        """Send nothing until the next share is known."""
        self._share = None
        self._rate, self._changes_at = 0.0, inf

    def used(self, now: float) -> int:
        """The number of requests sent in the last second."""
        return self._limiter.used(now)

    def part(self, now: float) -> float:
        """The requests per second that this worker may send: its part of the hard limit."""
        if self._share is not None and now >= self._changes_at:
            self._refresh(self._share, now)
        return self._rate

    def lowest_part(self, now: float) -> float:
        """The lowest value of `part` in the last second."""
        part = self.part(now)
        return min(part, self._before) if now < self._raised_at + WINDOW_S else part

    def wait(self, now: float, *, trial: bool = False) -> float:
        """Return the seconds until the next request may be sent; 0.0 if one may be sent now.

        A request that is a `trial` need not wait for the gap between two probes of a subscriber
        that is down.
        """
        if now >= self._changes_at and self._share is not None:
            self._refresh(self._share, now)
        if self._rate <= 0:
            return min(WINDOW_S, self._changes_at - now)
        if now >= self._watchdog.safe_until:
            return self._watchdog.wait(now)
        wait = self._limiter.wait(now)
        if now + wait < self._held_until:
            wait = self._held_until - now
        if self._adaptive is not None and not trial:
            wait = max(wait, self._adaptive.wait(now))
        if self._slots_in_use is not None:
            # Find the first time slot that starts after all other limits allow a request, because
            # the request could not use an earlier slot.
            wait += self._slots_in_use.wait(self._wall() + wait)
        # Return at most the time until the share changes, because the new share may allow a request
        # earlier.
        return min(wait, self._changes_at - now) if wait else 0.0

    def sent(self, now: float) -> int:
        """Count a request that is sent. Return the number for its `EndedRequest.epoch`."""
        self._limiter.sent(now)
        if self._slots_in_use is not None:
            self._slots_in_use.sent(self._wall())
        return self._adaptive.sent(now) if self._adaptive else 0

    def moved(self, at: float, now: float, *, out_of_turn: bool) -> bool:
        """Count a request at `now` and no longer at `at`; return whether it may be sent now.

        The gaps between probes of a subscriber that is down are ignored. With `out_of_turn`, time
        slots are ignored, too.
        """
        if now >= self._changes_at and self._share is not None:
            self._refresh(self._share, now)
        if self._rate <= 0 or now < self._held_until or now >= self._watchdog.safe_until:
            return False
        if self._slots_in_use is not None and not out_of_turn:
            wall = self._wall()
            if not self._slots_in_use.is_still(wall - (now - at), wall):
                return False
        return self._limiter.moved(at, now)

    def unsent(self, at: float) -> None:
        """Take back a request that was counted at `at`."""
        self._limiter.unsent(at)

    def learn(self, ended: EndedRequest, now: float) -> bool:
        """Learn from an ended request; return whether more or fewer requests may now be sent."""
        adaptive = self._adaptive
        if adaptive is None:
            return False
        epoch, outcome, seconds, retried, full = ended
        adaptive.took(seconds, full=full)
        healthy = is_healthy(outcome)
        if healthy is None and adaptive.mode is not RateMode.NORMAL:
            healthy = is_healthy(outcome, ill=True)
        if not adaptive.learn(epoch, healthy=healthy, retried=retried, now=now):
            return False
        self._apply()
        return True

    def output(self, now: float) -> Output:
        """Return how much may be sent now, and what limits it."""
        adaptive = self._adaptive
        if adaptive is None:
            return Output(
                rate=self.part(now),
                reason="adaptiveRate is off",
                since=_time_of(self._since, now),
            )
        return Output(
            rate=min(adaptive.effective_rate, self.part(now)),
            mode=adaptive.mode,
            reason=adaptive.reason,
            since=_time_of(adaptive.since, now),
        )

    def _refresh(self, share: Share, now: float) -> None:
        tickets, self._changes_at = share.held(now)
        self._slots_in_use = self._time_slots if share.takes_turns(tickets) else None
        before, self._rate = self._rate, share.rate(tickets)
        if self._rate > before:
            recently = now < self._raised_at + WINDOW_S
            self._before = min(before, self._before) if recently else before
            self._raised_at = now
        if self._time_slots is not None:
            self._time_slots.tickets = tickets
        if self._rate <= 0:
            return  # return: with a rate of zero, the limiter is not used
        counted = tickets.bit_count() > share.tickets_max
        self._limit = share.limit if self._slots_in_use and not counted else self._rate
        if self._adaptive is not None:
            self._adaptive.limit = self._limit
        self._apply()

    def _apply(self) -> None:
        rate = self._adaptive.rate if self._adaptive else self._limit
        if rate != self._limiter.rate:
            self._limiter.set_rate(rate)


def _time_of(instant: float, now: float) -> datetime:
    """Return the wall time of `instant`, rounded to a second.

    `instant` and `now` are times of the same clock.
    """
    return (datetime.now(UTC) - timedelta(seconds=now - instant)).replace(microsecond=0)
