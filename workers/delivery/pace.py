"""When the next request of a subscription may leave: the hard limit, and what it takes below."""

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
    """A request that is over. `epoch` is what `sent` returned; `full`: no slot was free."""

    epoch: int
    outcome: Outcome
    seconds: float
    retried: bool
    full: bool


class Pacing(Protocol):
    """Decides when requests of a consumer may leave."""

    @property
    def cautious(self) -> bool:
        """Whether the subscriber was down: new messages show more than those that failed."""

    @property
    def reads_ahead(self) -> bool:
        """Whether messages are looked at before they may be sent."""

    def wait(self, now: float) -> float:
        """Seconds until the next request may leave; 0.0 when it may now."""

    def sent(self, now: float) -> int:
        """Count a request that leaves; returns its epoch, for `learn`."""

    def learn(self, ended: EndedRequest, now: float) -> bool:
        """Learn from a request that is over; whether it was decided anew on the next ones."""

    def output(self, now: float) -> Output:
        """What leaves at most, and why."""


class Pace:
    """Never above the share of the hard limit that was set last; below it, what is taken well.

    Nothing leaves before the first share is known, nor while the `watchdog` holds it. `wall` is the
    clock that all workers share.
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
        # What the share comes to now, in requests per second, and when that changes.
        self._rate = 0.0
        self._changes_at = inf
        # From what it was raised last, and when.
        self._before, self._raised_at = 0.0, -inf
        self._time_slots: TimeSlots | None = None
        # The slots, while turns are taken.
        self._slots_in_use: TimeSlots | None = None
        self._held_until = now
        self._since = now
        self._limiter = RateLimiter(self._limit)
        self._adaptive: AdaptiveRate | None = None
        # Whether it learns from answers.
        self.adapts = False
        self.configure(policy, now)

    @property
    def reads_ahead(self) -> bool:
        """Always: what is read waits for nothing but its turn."""
        return True

    @property
    def rate(self) -> float:
        """Requests per second, at most, as they leave now."""
        return self._limiter.rate

    @property
    def cautious(self) -> bool:
        """Whether the subscriber was down: new messages show more than those that failed."""
        return self._adaptive is not None and self._adaptive.mode is not RateMode.NORMAL

    def configure(self, policy: DeliveryPolicy, now: float) -> None:
        """Adapt, or not, by the settings of `policy`."""
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
        """From now on this worker has that part of the hard limit."""
        before, self._share = self._share, share
        if share == before:
            return
        if before is None or share[:2] != before[:2]:
            self._time_slots = TimeSlots(share.limit, ticket_count(share.partitions))
            if share.is_small or (before is not None and before.is_small):
                # Another worker may have used up the second that has just been: ours begin after.
                self._held_until = now + WINDOW_S
        self._refresh(share, now)

    def forget_share(self) -> None:
        """Send nothing before the next share is known."""
        self._share = None
        self._rate, self._changes_at = 0.0, inf

    def used(self, now: float) -> int:
        """How many requests left in the last second."""
        return self._limiter.used(now)

    def part(self, now: float) -> float:
        """This worker's part of the hard limit, in requests per second."""
        if self._share is not None and now >= self._changes_at:
            self._refresh(self._share, now)
        return self._rate

    def lowest_part(self, now: float) -> float:
        """The least that it was in the last second."""
        part = self.part(now)
        return min(part, self._before) if now < self._raised_at + WINDOW_S else part

    def wait(self, now: float, *, trial: bool = False) -> float:
        """Seconds until the next request may leave; 0.0 when it may now.

        A `trial` does not wait for the gaps that are left to a subscriber that is down.
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
            # Asked for the time after all other reasons: a slot that begins before it is lost.
            wait += self._slots_in_use.wait(self._wall() + wait)
        # More may be allowed when the share changes.
        return min(wait, self._changes_at - now) if wait else 0.0

    def sent(self, now: float) -> int:
        """Count a request that leaves; returns its epoch, for `learn`."""
        self._limiter.sent(now)
        if self._slots_in_use is not None:
            self._slots_in_use.sent(self._wall())
        return self._adaptive.sent(now) if self._adaptive else 0

    def learn(self, ended: EndedRequest, now: float) -> bool:
        """Learn from a request that is over; whether it was decided anew on the next ones."""
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
        """What leaves at most, and why."""
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
            return  # the limiter has no such rate, and is not used
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
    """When it was `instant` by the clock that shows `now`, to the second: as often as reported."""
    return (datetime.now(UTC) - timedelta(seconds=now - instant)).replace(microsecond=0)
