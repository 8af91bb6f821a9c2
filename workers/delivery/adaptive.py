"""How much a subscriber gets, below its hard limit: as much as it takes without failing (pure).

Like TCP's congestion control: doubling each second up to where it once failed, small steps from
there, a fifth less when more than one attempt in twenty fails. When most fail for two seconds the
subscriber is taken for down, and gets one message at a time, ever more rarely, until one arrives.
Published figures come from `tests/benchmarks/bench_rate.py`.
"""

from math import sqrt
from typing import Final

from app.domain.status import Mode
from workers.delivery.health import Attempts, Latency

START: Final = 20.0
FLOOR: Final = 1.0
WINDOW_S: Final = 1.0
# With fewer attempts than this the window grows, up to WINDOW_MAX_S.
ATTEMPTS_MIN: Final = 5
WINDOW_MAX_S: Final = 10.0
RISE_BELOW: Final = 0.01
HOLD_BELOW: Final = 0.05
# Of at least so many attempts one may fail by chance.
ONE_IN: Final = 15
# A step is so much of the limit, but no more than so much of the rate: small subscribers get small
# steps.
STEP: Final = 0.02
STEP_OF_RATE: Final = 0.1
DECREASE: Final = 0.8
THRESHOLD: Final = 0.9
DOWN_AFTER_S: Final = 2.0
GAP_OF_OUTAGE: Final = 0.1
GAP_MIN_S: Final = 1.0
CLEAN_MIN: Final = 2
RESTART: Final = 0.25


def are_few(failures: int, total: int) -> bool:
    """Whether so many of all attempts may be chance where one in a hundred fails, or one message.

    A message that nobody can take must not hold up the others, and says nothing about the rate.
    """
    usual = RISE_BELOW * total
    return failures <= usual + sqrt(usual) or (failures == 1 and total >= ONE_IN)


def are_many(failures: int, total: int) -> bool:
    """Whether so many failed that less is to be sent: not by one that fails by chance."""
    return failures > max(HOLD_BELOW * total, 1 if total >= ONE_IN else 0)


class AdaptiveRate:
    """The rate of one subscription on one worker, in requests per second.

    The caller asks `wait` before it sends, reports each send (`sent`) and each result (`landed`),
    with a monotonic clock in seconds. Nothing runs in between: a decision is taken with the first
    result after a second, so an idle subscription costs nothing.
    """

    def __init__(self, *, limit: float, heartbeat_max: float, now: float) -> None:
        self.limit = limit
        self.heartbeat_max = heartbeat_max
        self.mode = Mode.NORMAL
        self.reason = "starting"
        self.since = now
        self._rate = min(limit, START)
        self._threshold = float("inf")
        # The last rate that went well: what is returned to after an outage depends on it.
        self._good = self._rate
        self._attempts = Attempts()
        self._latency = Latency()
        self._window_start = self._last_landed = now
        self._bad_since: float | None = None
        self._outage_since = now
        self._probe_at = now
        self._probing = False
        self._clean = 0
        # Results of what was sent in another mode say nothing about this one.
        self._epoch = 0

    @property
    def rate(self) -> float:
        """Requests per second, at most; in HEARTBEAT `wait` says more."""
        return min(self.limit, self._rate if self.mode is Mode.NORMAL else FLOOR)

    @property
    def effective_rate(self) -> float:
        """Requests per second that may leave, with the gaps of HEARTBEAT."""
        return min(self.rate, 1 / self._gap(self._last_landed)) if self._down else self.rate

    @property
    def _down(self) -> bool:
        return self.mode is Mode.HEARTBEAT

    def wait(self, now: float) -> float:
        """Seconds until a probe may leave; 0.0 when the rate alone decides."""
        if not self._down:
            return 0.0
        if self._probing:
            return self.heartbeat_max
        return max(0.0, self._probe_at - now)

    def sent(self, now: float) -> int:
        """Count a request that leaves; returns what `landed` wants to know of it."""
        if self._down:
            self._probing = True
            self._probe_at = now
        return self._epoch

    def landed(self, epoch: int, *, healthy: bool | None, retried: bool, now: float) -> bool:
        """The request that `sent` called `epoch` is over; whether the rate was decided on anew.

        `healthy` is as in `is_healthy`.
        """
        if epoch != self._epoch:
            return False
        if self.mode is not Mode.NORMAL:
            self._landed_alone(healthy=healthy, retried=retried, now=now)
            self._last_landed = now
            return True
        if healthy is None:
            return False
        if now - self._last_landed > WINDOW_MAX_S:
            # What happened before such a pause says nothing about now.
            self._restart_window(now)
            self._bad_since = None
        self._last_landed = now
        self._attempts.add(healthy=healthy, retried=retried)
        age = now - self._window_start
        if age < WINDOW_S or (self._attempts.total < ATTEMPTS_MIN and age < WINDOW_MAX_S):
            return False
        self._decide(now)
        return True

    def took(self, seconds: float, *, full: bool) -> None:
        """A request took `seconds`; `full`: as many as allowed were in the air."""
        self._latency.add(seconds, full=full)

    # ---- NORMAL ---------------------------------------------------------------------------------

    def _decide(self, now: float) -> None:
        failures, total = self._attempts.failures, self._attempts.total
        queueing = self._latency.roll(now)
        start = self._window_start
        self._restart_window(now)
        if failures > total - failures:
            self._most_failed(f"{failures} of {total} attempts failed", start, now)
            return
        self._bad_since = None
        if are_many(failures, total):
            self._fall(f"slowed down: {failures} of {total} attempts failed")
            return
        self._good = self.rate
        # Where it once failed, chance is not believed in.
        sure = self.rate < self._threshold or failures <= RISE_BELOW * total
        if not (sure and are_few(failures, total)):
            self.reason = f"holding: {failures} of {total} attempts failed"
        elif queueing:
            self.reason = "holding: answers get slow with all requests in the air"
        else:
            self._rise()

    def _restart_window(self, now: float) -> None:
        self._attempts.clear()
        self._window_start = now

    def _rise(self) -> None:
        rate = self.rate
        below = rate < self._threshold
        step = min(STEP * self.limit, STEP_OF_RATE * rate)
        raised = min(2 * rate, self._threshold) if below else rate + step
        self._rate = min(self.limit, raised)
        self.reason = "at its limit" if self._rate >= self.limit else "rising"

    def _fall(self, reason: str) -> None:
        self._rate = max(FLOOR, self.rate * DECREASE)
        self._threshold = THRESHOLD * self._rate
        self.reason = reason

    def _most_failed(self, reason: str, start: float, now: float) -> None:
        if self._bad_since is None:
            self._bad_since = start
        if now - self._bad_since >= DOWN_AFTER_S:
            self._outage_since, self._bad_since = self._bad_since, None
            self._go_down(reason, now)
            return
        # No new threshold: an outage says nothing about how much the subscriber takes.
        self._rate = max(FLOOR, self.rate * DECREASE)
        self.reason = f"slowed down: {reason}"

    # ---- SLOW and HEARTBEAT ---------------------------------------------------------------------

    def _landed_alone(self, *, healthy: bool | None, retried: bool, now: float) -> None:
        self._probing = False
        if healthy is None or (not healthy and retried and self._attempts.first_ok):
            return
        self._attempts.add(healthy=healthy, retried=retried)
        if healthy:
            self._arrived(now)
        elif self._down:
            self._probe_at += self._gap(now)
        else:
            self._go_down("failed again while recovering", now)

    def _arrived(self, now: float) -> None:
        if self._down:
            self._clean = 0
            self._enter(Mode.SLOW, "a message arrived after an outage", now)
            return
        self._clean += 1
        if self._clean >= CLEAN_MIN:
            self._rate = self._good = max(FLOOR, min(self.limit, self._good * RESTART))
            self._restart_window(now)
            self._enter(Mode.NORMAL, "recovered", now)

    def _go_down(self, reason: str, now: float) -> None:
        self._attempts.clear()
        self._probing = False
        self._probe_at = now + self._gap(now)
        self._enter(Mode.HEARTBEAT, reason, now)

    def _gap(self, now: float) -> float:
        return max(GAP_MIN_S, min(self.heartbeat_max, GAP_OF_OUTAGE * (now - self._outage_since)))

    def _enter(self, mode: Mode, reason: str, now: float) -> None:
        self.mode, self.reason, self.since = mode, reason, now
        self._epoch += 1
