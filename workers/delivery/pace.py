"""When the next request of a subscription may leave: the hard limit, and what it takes below."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from app.domain.delivery import Outcome
from app.domain.status import Mode, Output
from app.domain.subscription import DeliveryPolicy
from workers.delivery.adaptive import AdaptiveRate
from workers.delivery.health import is_healthy
from workers.delivery.rate import WINDOW_S, RateLimiter
from workers.delivery.slots import Slots


class Landed(NamedTuple):
    """A request that is over. `epoch` is what `sent` said; `full`: no slot was free meanwhile."""

    epoch: int
    outcome: Outcome
    seconds: float
    retried: bool
    full: bool


class Share(NamedTuple):
    """The hard limit of a subscription over all workers, and the partitions that are this one's.

    A partition has one owner, so the shares of all workers never add up to more than the limit, and
    no worker has to ask another. There is no share without a partition.
    """

    limit: float
    owned: frozenset[int]
    partitions: int

    @property
    def rate(self) -> float:
        """This worker's part of the limit, in requests per second."""
        return self.limit * min(1.0, len(self.owned) / self.partitions)

    @property
    def takes_turns(self) -> bool:
        """Whether the parts are too small to be rates, and there are others."""
        return self.is_small and len(self.owned) < self.partitions

    @property
    def is_small(self) -> bool:
        """Whether a part may be below one a second, which would be rounded up for each."""
        return self.limit < self.partitions


class Pace:
    """Never above the share of the hard limit that was set last; below it, what is taken well.

    Nothing leaves before the first share is known. `wall` is the clock that all workers share.
    """

    def __init__(
        self, policy: DeliveryPolicy, now: float, *, wall: Callable[[], float] = time.time
    ) -> None:
        self._limit = float(policy.rate)
        self._wall = wall
        self._share: Share | None = None
        self._slots: Slots | None = None
        self._held_until = now
        self._since = now
        self._limiter = RateLimiter(self._limit)
        self._adaptive: AdaptiveRate | None = None
        self.configure(policy, now)

    @property
    def cautious(self) -> bool:
        """Whether the subscriber was down: new messages tell more than those that failed."""
        return self._adaptive is not None and self._adaptive.mode is not Mode.NORMAL

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
        self._apply()

    def share(self, share: Share, now: float) -> None:
        """From now on this worker has that part of the hard limit."""
        before, self._share = self._share, share
        if share == before:
            return
        if share.is_small or (before is not None and before.is_small):
            # Another worker may have used up the second that has just been: ours begin after it.
            self._held_until = now + WINDOW_S
        turns = share.takes_turns
        self._slots = Slots(share.limit, share.owned, share.partitions) if turns else None
        self._limit = share.limit if turns else share.rate
        if self._adaptive is not None:
            self._adaptive.limit = self._limit
        self._apply()

    def wait(self, now: float) -> float:
        """Seconds until the next request may leave; 0.0 when it may now."""
        if self._share is None:
            return WINDOW_S
        wait = max(self._limiter.wait(now), self._held_until - now)
        if self._adaptive is not None:
            wait = max(wait, self._adaptive.wait(now))
        if self._slots is not None:
            # Asked for the time after all other reasons: a slot that begins before it is lost.
            wait = max(wait, 0.0)
            wait += self._slots.wait(self._wall() + wait)
        return wait

    def sent(self, now: float) -> int:
        """Count a request that leaves; returns its epoch, for `landed`."""
        self._limiter.sent(now)
        if self._slots is not None:
            self._slots.sent(self._wall())
        return self._adaptive.sent(now) if self._adaptive else 0

    def landed(self, landed: Landed, now: float) -> bool:
        """Learn from a request that is over; whether it was decided anew on the next ones."""
        adaptive = self._adaptive
        if adaptive is None:
            return False
        epoch, outcome, seconds, retried, full = landed
        adaptive.took(seconds, full=full)
        if not adaptive.landed(epoch, healthy=is_healthy(outcome), retried=retried, now=now):
            return False
        self._apply()
        return True

    def output(self, now: float) -> Output:
        """What leaves at most, and why."""
        adaptive = self._adaptive
        if adaptive is None:
            return Output(
                rate=self._own(self._limit),
                reason="adaptiveRate is off",
                since=_time_of(self._since, now),
            )
        return Output(
            rate=self._own(adaptive.effective_rate),
            mode=adaptive.mode,
            reason=adaptive.reason,
            since=_time_of(adaptive.since, now),
        )

    def _own(self, rate: float) -> float:
        return min(rate, self._share.rate) if self._share else 0.0

    def _apply(self) -> None:
        rate = self._adaptive.rate if self._adaptive else self._limit
        if rate != self._limiter.rate:
            self._limiter.set_rate(rate)


def _time_of(instant: float, now: float) -> datetime:
    """When it was `instant` by the clock that says `now`, to the second: it is told each second."""
    return (datetime.now(UTC) - timedelta(seconds=now - instant)).replace(microsecond=0)
