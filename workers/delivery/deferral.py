"""What follows an answer that asks to come later (Retry-After): quiet, one request, less (pure).

Nothing leaves before the requested time. Then one request at a time tries, until one is taken. From
then on requests leave more slowly than when the subscriber deferred: half as fast, or as fast as it
took them since it deferred before, if that is faster. Each step from there closes a quarter of the
gap to the rate at which it deferred last.
"""

from dataclasses import replace
from math import inf
from typing import Final

from app.domain.status import Output, RateMode
from workers.delivery.rate import CATCH_UP_S

DECREASE: Final = 0.5
RATE_MIN: Final = 1 / 60
# A step is made after so many requests that were taken, and so much time.
TAKEN_PER_STEP: Final = 8
STEP_S: Final = 2.0
STEP_OF_GAP: Final = 0.25
# So close to the rate at which it once deferred, that one is believed to be right no more.
IS_CLOSE: Final = 0.98
# While a request tries: it is looked at again when its answer is there.
TRY_S: Final = 1.0
# A new message may be what is taken where the oldest is not: after so many refusals in a row, and
# whenever these have doubled.
ANOTHER_AFTER: Final = 4


class Deferral:
    """How one subscriber is treated that asks to come later. Instants are monotonic seconds.

    The caller asks `wait` before it sends, and reports each send (`sent`) and each answer (`defer`,
    `taken`, `failed`) while it is `active`; `defer` also when it is not. Without `learns` it does
    not change how fast requests leave.
    """

    __slots__ = (
        "_next_at",
        "_quiet_until",
        "_refused_rate",
        "_requested_at",
        "_requested_until",
        "_since",
        "_stepped_at",
        "_taken",
        "_taken_since_step",
        "_trying",
        "active",
        "learns",
        "rate",
        "refusals",
        "waits",
    )

    def __init__(self, *, learns: bool = True) -> None:
        self.learns = learns
        # Whether it may hold anything back.
        self.active = False
        # Nothing was taken since it deferred.
        self.waits = False
        # How often it has deferred since it took something, by requests that did not leave before.
        self.refusals = 0
        # In requests per second.
        self.rate = self._refused_rate = inf
        self._quiet_until = self._requested_at = self._next_at = -inf
        # The end of the quiet that the subscriber requested: there is quiet for other reasons.
        self._requested_until = -inf
        self._trying = False
        # Requests that were taken since it began to take some again, and since the last step.
        self._since = self._stepped_at = -inf
        self._taken = self._taken_since_step = 0

    @property
    def tries_another(self) -> bool:
        """Whether a new message goes before the oldest: that one may be what is refused."""
        refusals = self.refusals
        return self.waits and refusals >= ANOTHER_AFTER and refusals & (refusals - 1) == 0

    def is_quiet(self, now: float) -> bool:
        """Whether nothing may leave at all."""
        return now < self._quiet_until

    def wait(self, now: float) -> float:
        """Seconds until the next request may leave; 0.0 when it may now."""
        if now < self._quiet_until:
            return self._quiet_until - now
        if self.waits:
            return TRY_S if self._trying else 0.0
        if self.rate == inf:
            self.active = False
            return 0.0
        return max(0.0, self._next_at - now)

    def seen(self, output: Output, now: float) -> Output:
        """What leaves at most, and why: `output`, as far as this lets it."""
        quiet = now < self._requested_until
        if output.mode is not RateMode.NORMAL or not (
            quiet or self.waits or self.rate < output.rate
        ):
            return output
        return replace(
            output,
            rate=0.0 if quiet else min(output.rate, self.rate),
            reason="slowed down: the subscriber asked to come later (Retry-After)",
        )

    def sent(self, now: float) -> None:
        """Count a request that leaves."""
        self._trying = self.waits
        if self.rate < inf:
            self._next_at = max(self._next_at, now - CATCH_UP_S) + 1 / self.rate

    def stay_quiet(self, seconds: float, now: float) -> None:
        """Let nothing leave for so long."""
        self.active = True
        self._quiet_until = max(self._quiet_until, now + seconds)

    def defer(self, seconds: float, *, sent_at: float, now: float, rate: float) -> bool:
        """A request was answered: not before so many seconds; at that time `rate` was allowed.

        Returns whether it was the one that tried: it left alone, at the requested time.
        """
        self.stay_quiet(seconds, now)
        self._requested_until = max(self._requested_until, now + seconds)
        if sent_at < self._requested_at:
            return False  # it left before the subscriber had deferred
        tried, self._trying = self.waits, False
        if not tried and self.learns:
            self._slow_down(min(rate, self.rate))
        self.waits = True
        self.refusals += 1
        self._requested_at = now
        return tried

    def taken(self, *, sent_at: float, now: float, limit: float) -> None:
        """The subscriber took a request; `limit`: more than that is never sent."""
        if sent_at < self._requested_at:
            return
        if self.waits:
            self.waits = self._trying = False
            self.refusals = self._taken = self._taken_since_step = 0
            self._since = self._stepped_at = self._quiet_until
        self._taken += 1
        self._taken_since_step += 1
        if self._taken_since_step >= TAKEN_PER_STEP and now - self._stepped_at >= STEP_S:
            self._step(now)
        if self.rate >= limit > 0:
            self.rate = self._refused_rate = inf

    def failed(self, *, sent_at: float) -> None:
        """A request is over, and does not show how fast others may follow."""
        if sent_at >= self._requested_at:
            self._trying = False

    def _slow_down(self, refused: float) -> None:
        taken = 0.0
        if self._taken and self._quiet_until > self._since:
            taken = self._taken / (self._quiet_until - self._since)
        self._refused_rate = refused
        self.rate = max(RATE_MIN, min(refused, max(taken, DECREASE * refused)))

    def _step(self, now: float) -> None:
        self._taken_since_step, self._stepped_at = 0, now
        if self.rate >= IS_CLOSE * self._refused_rate:
            self._refused_rate *= 2
        self.rate += STEP_OF_GAP * (self._refused_rate - self.rate)
