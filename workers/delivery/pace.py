"""When the next request of a subscription may leave: the hard limit, and what it takes below."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from app.domain.delivery import Outcome
from app.domain.status import Mode, Output
from app.domain.subscription import DeliveryPolicy
from workers.delivery.adaptive import AdaptiveRate
from workers.delivery.health import is_healthy
from workers.delivery.rate import RateLimiter


class Landed(NamedTuple):
    """A request that is over. `epoch` is what `sent` said; `full`: no slot was free meanwhile."""

    epoch: int
    outcome: Outcome
    seconds: float
    retried: bool
    full: bool


class Pace:
    """Never above the share of the hard limit that was set last; below it, what is taken well."""

    def __init__(self, policy: DeliveryPolicy, now: float) -> None:
        self._limit = float(policy.rate)
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

    def share(self, rate: float) -> None:
        """The hard limit is `rate` a second from now on."""
        self._limit = rate
        if self._adaptive is not None:
            self._adaptive.limit = rate
        self._apply()

    def wait(self, now: float) -> float:
        """Seconds until the next request may leave; 0.0 when it may now."""
        wait = self._limiter.wait(now)
        return max(wait, self._adaptive.wait(now)) if self._adaptive else wait

    def sent(self, now: float) -> int:
        """Count a request that leaves; returns its epoch, for `landed`."""
        self._limiter.sent(now)
        return self._adaptive.sent(now) if self._adaptive else 0

    def landed(self, landed: Landed, now: float) -> bool:
        """Learn from a request that is over; whether anything changed for the next ones."""
        adaptive = self._adaptive
        if adaptive is None:
            return False
        mode = adaptive.mode
        adaptive.took(landed.seconds, full=landed.full)
        healthy = is_healthy(landed.outcome)
        adaptive.landed(landed.epoch, healthy=healthy, retried=landed.retried, now=now)
        if adaptive.rate == self._limiter.rate and adaptive.mode is mode:
            return False
        self._apply()
        return True

    def output(self, now: float) -> Output:
        """What leaves at most, and why."""
        adaptive = self._adaptive
        if adaptive is None:
            return Output(
                rate=self._limit, reason="adaptiveRate is off", since=_time_of(self._since, now)
            )
        return Output(
            rate=adaptive.effective_rate,
            mode=adaptive.mode,
            reason=adaptive.reason,
            since=_time_of(adaptive.since, now),
        )

    def _apply(self) -> None:
        rate = self._adaptive.rate if self._adaptive else self._limit
        if rate != self._limiter.rate:
            self._limiter.set_rate(rate)


def _time_of(instant: float, now: float) -> datetime:
    """When it was `instant` by the clock that says `now`, to the second: it is told each second."""
    return (datetime.now(UTC) - timedelta(seconds=now - instant)).replace(microsecond=0)
