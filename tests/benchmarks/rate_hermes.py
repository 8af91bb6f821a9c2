"""Hermes' adaptive limiter, written from its published formulas, for comparison.

Its supervisor visits all limiters every 30 seconds; a slow rate is 1/s, a heartbeat is one a
minute. The share that its max-rate negotiation gives a consumer is 1/s until a leader has
published one (every 30 s) and the consumer has asked for it (every 15 s).
"""

from app.domain.delivery import Retry
from workers.delivery.pace import EndedRequest
from workers.delivery.rate import RateLimiter

PERIOD_S = 30.0
SLOW, HEARTBEAT = 1.0, 1 / 60
MIN_MAX_RATE = 1.0
NEGOTIATED_AFTER_S = 45.0


class HermesRate:
    """One consumer, alone with its subscription."""

    def __init__(self, limit: float, *, warm: bool = False) -> None:
        self._limit = limit
        self._mode = "NORMAL"
        self._rate = limit if warm else 0.36
        self._limiter = RateLimiter(self._rate)
        self._next_visit = PERIOD_S
        self._negotiated_after = 0.0 if warm else NEGOTIATED_AFTER_S
        self._ok = self._failed = 0
        self.cautious = False

    def wait(self, now: float) -> float:
        self._visit(now)
        # It learns of another rate only by its timer, as a thread asleep in `acquire` does.
        return min(self._limiter.wait(now), max(self._next_visit - now, 1e-3))

    def sent(self, now: float) -> int:
        self._limiter.sent(now)
        return 0

    def learn(self, ended: EndedRequest, now: float) -> bool:
        self._visit(now)
        if isinstance(ended.outcome, Retry):
            self._failed += 1
        else:
            self._ok += 1
        return False

    def _visit(self, now: float) -> None:
        while now >= self._next_visit:
            most = self._limit if self._next_visit >= self._negotiated_after else MIN_MAX_RATE
            self._rate = min(self._adapted(most), most)
            self._limiter.set_rate(self._rate)
            self._ok = self._failed = 0
            self._next_visit += PERIOD_S

    def _adapted(self, most: float) -> float:
        ok, failed = self._ok, self._failed
        match self._mode:
            case "NORMAL":
                return self._normal(most)
            case "SLOW" if failed > ok:
                self._mode = "HEARTBEAT"
                return HEARTBEAT
            case "SLOW" if ok and not failed:
                self._mode = "NORMAL"
            case "HEARTBEAT" if ok and not failed:
                self._mode = "SLOW"
                return SLOW
        return self._rate

    def _normal(self, most: float) -> float:
        ratio = self._failed / max(1, self._failed + self._ok)
        if ratio <= 0.01 and self._rate < most:
            return min(most, self._rate + (most - self._rate) * 0.2)
        if self._failed > self._ok:
            self._mode = "SLOW"
            return SLOW
        return max(SLOW, self._rate * 0.8) if ratio > 0.05 else self._rate
