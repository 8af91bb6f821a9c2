"""The adaptive rate of a subscriber: as much as it accepts without failures (pure).

The method is like TCP congestion control. The rate doubles each second until it nearly reaches the
last rate at which too many attempts failed. Above that, the rate grows in small steps. It falls by
a fifth when more than one attempt in twenty fails. Each rate is judged only by the requests that
were sent at this rate. If the rate is not the cause of the failures, it falls only slightly
(`workers.delivery.trouble`). If most attempts fail for two seconds, the subscriber counts as down.
A subscriber that is down gets one message at a time, with growing gaps, until one succeeds.
`tests/benchmarks/bench_rate.py` measures the published figures.
"""

from math import sqrt
from typing import Final

from app.domain.status import RateMode
from workers.delivery.health import Attempts, QueueingDelay
from workers.delivery.trouble import JudgedAttempts, Trouble

START: Final = 20.0
FLOOR: Final = 1.0
WINDOW_S: Final = 1.0
# The rate is decided from the attempts in a window of time. A window with fewer attempts than this
# number is extended.
ATTEMPTS_MIN: Final = 5
# The longest duration of a window, in seconds.
WINDOW_MAX_S: Final = 10.0
RISE_BELOW: Final = 0.01
HOLD_BELOW: Final = 0.05
# One failure in this many attempts counts as chance.
ONE_IN: Final = 15
# The size of an increase of the rate, as a part (0 to 1) of the hard limit.
STEP: Final = 0.02
# The largest increase of the rate, as a part (0 to 1) of the current rate, so that small
# subscribers get small steps.
STEP_OF_RATE: Final = 0.1
THRESHOLD: Final = 0.9
# The highest rate that worked well is multiplied by this factor after each window, so that old
# values count less and less.
BEST_KEPT: Final = 0.99
DOWN_AFTER_S: Final = 2.0
GAP_OF_OUTAGE: Final = 0.1
GAP_MIN_S: Final = 1.0
CLEAN_MIN: Final = 2
RESTART: Final = 0.25


def are_few(failures: int, total: int) -> bool:
    """Whether so few attempts failed that it may be chance: one in a hundred, or one message.

    A message that always fails must not slow down the others, and does not show whether the rate is
    too high.
    """
    usual = RISE_BELOW * total
    return failures <= usual + sqrt(usual) or (failures == 1 and total >= ONE_IN)


def are_many(failures: int, total: int) -> bool:
    """Whether so many attempts failed that the rate must fall."""
    return failures > max(HOLD_BELOW * total, 1 if total >= ONE_IN else 0)


class AdaptiveRate:
    """The rate of one subscription on one worker, in requests per second.

    The caller calls `wait` before it sends, and reports each request (`sent`) and each result
    (`learn`) with a monotonic clock in seconds. No timer runs: the first result after a second
    triggers the next decision about the rate, so an idle subscription needs no CPU.
    """

    def __init__(self, *, limit: float, heartbeat_max: float, now: float) -> None:
        self.limit = limit
        self.heartbeat_max = heartbeat_max
        self.mode = RateMode.NORMAL
        self.reason = "starting"
        self.since = now
        self._rate = min(limit, START)
        self._threshold = float("inf")
        # The highest rate that recently worked well. After an outage, the rate starts again at a
        # fraction of this value. After failures that the rate did not cause, the rate may rise to
        # this value in large steps.
        self._best = self._rate
        self._attempts = Attempts()
        self._latency = QueueingDelay()
        self._trouble: Trouble | None = None
        # The start of the present window of time, in which attempts are counted. None until a
        # request that was sent at the present rate has ended.
        self._window_start: float | None = None
        self._last_landed = now
        # The last attempts, as long as most of the attempts fail. Otherwise None.
        self._bad: JudgedAttempts | None = None
        self._outage_since = now
        self._probe_at = now
        self._probing = False
        self._clean = 0
        # The number of the current mode and rate. Results of requests that were sent in another
        # mode or at another rate do not count.
        self._epoch = self._mode_began = 0

    @property
    def rate(self) -> float:
        """Return the allowed requests per second. In HEARTBEAT mode, `wait` allows fewer."""
        return min(self.limit, self._rate if self.mode is RateMode.NORMAL else FLOOR)

    @property
    def effective_rate(self) -> float:
        """Requests per second that may be sent, including the gaps of HEARTBEAT mode."""
        return min(self.rate, 1 / self._gap(self._last_landed)) if self._down else self.rate

    @property
    def next_probe(self) -> float | None:
        """When the next probe may be sent, or was sent if it is in flight; None if not down."""
        return self._probe_at if self._down else None

    @property
    def _down(self) -> bool:
        return self.mode is RateMode.HEARTBEAT

    def wait(self, now: float) -> float:
        """Return the seconds until a probe may be sent.

        The result is 0.0 if the subscriber is not down: then only the rate limits requests.
        """
        if not self._down:
            return 0.0
        if self._probing:
            return self.heartbeat_max
        return max(0.0, self._probe_at - now)

    def sent(self, now: float) -> int:
        """Count a request that is sent, and return its epoch.

        The epoch is a number that rises when the mode or the rate changes. It does not rise when
        the rate changes while most attempts fail. The caller passes the epoch to `learn` when the
        request has ended.
        """
        if self._down:
            self._probing = True
            self._probe_at = now
        return self._epoch

    def learn(self, epoch: int, *, healthy: bool | None, retried: bool, now: float) -> bool:
        """Use the result of a request to adapt the rate.

        Args:
            epoch: The value that `sent` returned for the request.
            healthy: Whether the result shows a healthy subscriber; None if it does not show that.
            retried: Whether the request was a retry.
            now: Monotonic seconds.

        Returns:
            Whether the rate or the mode may have changed.
        """
        if epoch < self._mode_began:
            return False
        if self.mode is not RateMode.NORMAL:
            self._learn_alone(healthy=healthy, retried=retried, now=now)
            self._last_landed = now
            return True
        if healthy is None or epoch != self._epoch:
            return False
        if now - self._last_landed > WINDOW_MAX_S:
            # Start a new window of attempts after a long time without results. The results from
            # before that time do not count any more.
            self._restart_window(now)
            self._bad = None
        self._last_landed = now
        start = self._window_start = now if self._window_start is None else self._window_start
        self._attempts.add(healthy=healthy, retried=retried)
        age = now - start
        if age < WINDOW_S or (self._attempts.total < ATTEMPTS_MIN and age < WINDOW_MAX_S):
            return False
        self._decide(start, now)
        return True

    def took(self, seconds: float, *, full: bool) -> None:
        """Learn that a request took `seconds`.

        `full` means that the in-flight limit was reached.
        """
        self._latency.add(seconds, full=full)

    # ---- the mode NORMAL ------------------------------------------------------------------------

    def _decide(self, start: float, now: float) -> None:
        failures, total = self._attempts.failures, self._attempts.total
        window = JudgedAttempts(self.rate, failures, total, start, now)
        queueing = self._latency.roll(now)
        self._restart_window(now)
        if window.mostly_failed:
            self._most_failed(window)
            return
        self._bad = None
        if are_many(failures, total):
            self._fall(window)
            self._threshold = THRESHOLD * self._rate
            return
        self._best = max(self.rate, BEST_KEPT * self._best)
        # Below the last rate that failed, a few failures may be chance, and the rate may rise. At a
        # higher rate, the rate itself may have caused them.
        sure = self.rate < self._threshold or failures <= RISE_BELOW * total
        if not (sure and are_few(failures, total)):
            self.reason = f"holding: {window.failed}"
        elif queueing:
            self.reason = "holding: answers get slow with all requests in the air"
        else:
            self._went_well(window)

    def _restart_window(self, now: float) -> None:
        self._attempts.clear()
        self._window_start = now

    def _went_well(self, window: JudgedAttempts) -> None:
        if self._trouble is not None and self._trouble.is_disproved(window):
            self._threshold = self._trouble.safe_rate
            self._trouble = None
        self._rise()

    def _rise(self) -> None:
        rate = self.rate
        below = rate < self._threshold
        step = min(STEP * self.limit, STEP_OF_RATE * rate)
        raised = min(2 * rate, self._threshold) if below else rate + step
        self._change(min(self.limit, raised))
        self.reason = "at its limit" if self._rate >= self.limit else "rising"

    def _fall(self, window: JudgedAttempts) -> None:
        trouble = self._trouble
        if trouble is None or trouble.is_over:
            safe_rate = max(self._best, self._threshold)
            trouble = self._trouble = Trouble(window, safe_rate=safe_rate)
        self._change(max(FLOOR, trouble.lowered(window)))
        self.reason = f"slowed down: {window.failed}"
        if trouble.slowly:
            self.reason = f"slowed down a little: {window.failed}, whatever the rate"

    def _most_failed(self, window: JudgedAttempts) -> None:
        self._bad = bad = window.after(self._bad)
        by_chance = self._trouble is not None and self._trouble.explains(bad)
        if bad.end - bad.start >= DOWN_AFTER_S and not by_chance:
            self._bad, self._outage_since = None, bad.start
            self._go_down(window.failed, bad.end)
            return
        # Lower the rate, but do not change `_threshold`, above which the rate grows in small steps.
        # An outage does not show how many requests the subscriber can accept.
        self._fall(window)

    def _change(self, rate: float) -> None:
        """Set the rate. Requests that are sent after the change show whether it is right."""
        if rate == self._rate:
            return
        self._rate = rate
        # Start a new window of attempts after a change of the rate. But do not start one while most
        # attempts fail: then the attempts at all rates count, so that an outage is noticed soon.
        if self._bad is None:
            self._epoch += 1
            self._window_start = None

    # ---- the modes SLOW and HEARTBEAT -----------------------------------------------------------

    def _learn_alone(self, *, healthy: bool | None, retried: bool, now: float) -> None:
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
            self._enter(RateMode.SLOW, "a message arrived after an outage", now)
            return
        self._clean += 1
        if self._clean >= CLEAN_MIN:
            self._rate = self._best = max(FLOOR, min(self.limit, self._best * RESTART))
            self._restart_window(now)
            self._enter(RateMode.NORMAL, "recovered", now)

    def _go_down(self, reason: str, now: float) -> None:
        if self._trouble is not None and not self._trouble.is_over:
            # The failures before this outage were its beginning, and not an effect of the rate. So
            # restore the threshold that was used before these failures.
            self._threshold = self._trouble.safe_rate
        self._attempts.clear()
        self._probing = False
        self._probe_at = now + self._gap(now)
        self._enter(RateMode.HEARTBEAT, reason, now)

    def _gap(self, now: float) -> float:
        return max(GAP_MIN_S, min(self.heartbeat_max, GAP_OF_OUTAGE * (now - self._outage_since)))

    def _enter(self, mode: RateMode, reason: str, now: float) -> None:
        self.mode, self.reason, self.since = mode, reason, now
        self._epoch += 1
        self._mode_began = self._epoch
