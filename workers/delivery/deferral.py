"""How to treat a subscriber that defers: it answers "later" with Retry-After (pure).

Nothing is sent before the requested time. Then one request at a time is sent, until one is
accepted. After that, the rate starts at half of the rate at the last deferral. It starts at the
rate that the subscriber accepted between its last two deferrals, if this rate is higher. Then the
rate grows in steps. Each step closes a quarter of the gap between the present rate and the rate at
the last deferral.

A subscriber may also defer at a rate that it has accepted before. Then the rate is probably not the
reason, for example if one of several servers is busy. A lower rate would only deliver less, so the
rate is not lowered.
"""

from dataclasses import replace
from math import inf
from typing import Final

from app.domain.status import Output, RateMode
from workers.delivery.rate import CATCH_UP_S

DECREASE: Final = 0.5
RATE_MIN: Final = 1 / 60
# The number of accepted requests before the rate grows by a step.
TAKEN_PER_STEP: Final = 8
# The shortest time in seconds between two steps.
STEP_S: Final = 2.0
# A step raises the rate by this part (0 to 1) of the gap to the rate at the last deferral.
STEP_OF_GAP: Final = 0.25
# If the allowed rate reaches this part (0 to 1) of the rate at the last deferral, the subscriber
# can probably accept that rate. So the allowed rate may then grow above it.
IS_CLOSE: Final = 0.98
# A deferral at up to this many times the rate that was accepted before is not a result of the rate.
IS_ACCEPTED: Final = 1.1
# The weight (0 to 1) of the newest value in the average of what is accepted between deferrals.
NEWEST: Final = 0.25
# How many seconds the caller waits before it checks the state again, while a probe is in flight.
TRY_S: Final = 1.0
# After this number of consecutive deferrals, a new message is sent instead of the oldest one,
# because the subscriber may defer only the oldest message. The number doubles each time.
ANOTHER_AFTER: Final = 4


class Deferral:
    """The state of one subscriber that defers. Times are monotonic seconds.

    The caller calls `wait` before it sends. The caller always reports deferrals (`defer`). While
    `active` is true, the caller also reports each request (`sent`) and each other response
    (`taken`, `failed`). If `learns` is false, the requested pauses are kept, but the rate after
    them is not lowered.
    """

    __slots__ = (
        "_accepted_rate",
        "_next_at",
        "_quiet_until",
        "_refused_rate",
        "_requested_at",
        "_requested_until",
        "_since",
        "_stepped_at",
        "_taken",
        "_taken_per_pause",
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
        self.forget()

    def forget(self) -> None:
        """Forget all deferrals, because the requests go to another subscriber from now on."""
        # Whether this object may delay requests.
        self.active = False
        # Whether the subscriber has accepted no request since its last deferral.
        self.waits = False
        # The number of deferrals since the last accepted request. Requests that were sent before
        # the first deferral do not count.
        self.refusals = 0
        # `rate` is the allowed rate, and `_refused_rate` is the rate at the last deferral, in
        # requests per second.
        self.rate = self._refused_rate = inf
        self._quiet_until = self._requested_at = self._next_at = -inf
        # The end of the pause that the subscriber requested. A pause for another reason may end
        # later.
        self._requested_until = -inf
        self._trying = False
        # `_since` is the time from which the subscriber accepted requests after the last deferral.
        # `_stepped_at` is the time of the last step of the rate.
        self._since = self._stepped_at = -inf
        self._taken = self._taken_since_step = 0
        # The rate that was accepted between the last two deferrals, including the pause.
        self._accepted_rate = 0.0
        # How many requests were accepted between two deferrals, for each second of the pause that
        # followed. This is an average.
        self._taken_per_pause = 0.0

    @property
    def tries_another(self) -> bool:
        """Whether a new message is sent first: the subscriber may defer only the oldest one."""
        refusals = self.refusals
        return self.waits and refusals >= ANOTHER_AFTER and refusals & (refusals - 1) == 0

    @property
    def quiet_until(self) -> float:
        """The end of the last pause, in which nothing may be sent."""
        return self._quiet_until

    def is_quiet(self, now: float) -> bool:
        """Whether nothing may be sent."""
        return now < self._quiet_until

    def wait(self, now: float) -> float:
        """Return the seconds until the next request may be sent; 0.0 if one may be sent now."""
        if now < self._quiet_until:
            return self._quiet_until - now
        if self.waits:
            return TRY_S if self._trying else 0.0
        if self.rate == inf:
            self.active = False
            return 0.0
        return max(0.0, self._next_at - now)

    def forbids(self, *, sent_at: float, now: float) -> bool:
        """Whether a request that was counted at `sent_at` must not be written now.

        Since then, the response to another request may have asked for a pause.
        """
        return now < self._quiet_until or (self.waits and sent_at < self._requested_at)

    def seen(self, output: Output, now: float) -> Output:
        """Return `output` with the lower rate and the reason, if there is a deferral.

        Users see the result.
        """
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
        """Count a request that is sent."""
        self._trying = self.waits
        if self.rate < inf:
            self._next_at = max(self._next_at, now - CATCH_UP_S) + 1 / self.rate

    def stay_quiet(self, seconds: float, now: float) -> None:
        """Send nothing for this many seconds."""
        self.active = True
        self._quiet_until = max(self._quiet_until, now + seconds)

    def defer(self, seconds: float, *, sent_at: float, now: float, rate: float) -> bool:
        """Handle a response that asks to send nothing for some time.

        Args:
            seconds: The requested time.
            sent_at: When the deferred request was sent.
            now: Monotonic seconds.
            rate: The rate that was allowed, in requests per second.

        Returns:
            Whether the deferred request was the probe, which is sent alone at the requested time.
        """
        self.stay_quiet(seconds, now)
        self._requested_until = max(self._requested_until, now + seconds)
        if sent_at < self._requested_at:
            return False  # return False: this was no probe, because it was sent before the deferral
        tried, self._trying = self.waits, False
        if not tried and self.learns:
            self._adapt(min(rate, self.rate), pause=self._quiet_until - now)
        self.waits = True
        self.refusals += 1
        self._requested_at = now
        return tried

    def taken(self, *, sent_at: float, now: float, limit: float) -> None:
        """Called when the subscriber accepted a request. `limit` is the highest allowed rate."""
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
            self._since, self._taken = -inf, 0

    def failed(self, *, sent_at: float) -> None:
        """Called when a request was neither accepted nor deferred.

        Such a request does not show which rate the subscriber accepts.
        """
        if sent_at >= self._requested_at:
            self._trying = False

    def unsent(self, *, sent_at: float) -> None:
        """Take back a request that was counted at `sent_at`, because it was not sent."""
        if sent_at >= self._requested_at:
            self._trying = False
            self._next_at -= 1 / self.rate

    def _adapt(self, refused: float, *, pause: float) -> None:
        """Set the rate after a deferral at the rate `refused`, which asked for a `pause`."""
        accepted_before, self._accepted_rate = self._accepted_rate, self._taken_per_second()
        self._learn_taken_per_pause(pause)
        if refused <= IS_ACCEPTED * accepted_before:
            refused = rate = max(refused, self._taken_per_pause)
        else:
            rate = min(refused, max(self._accepted_rate, DECREASE * refused))
        self._refused_rate, self.rate = refused, max(RATE_MIN, rate)

    def _taken_per_second(self) -> float:
        """The rate that was accepted since the last deferral, including the pause after it."""
        seconds = self._quiet_until - self._since
        return self._taken / seconds if self._taken and seconds > 0 else 0.0

    def _learn_taken_per_pause(self, pause: float) -> None:
        if not self._taken or pause <= 0:
            return
        newest, average = self._taken / pause, self._taken_per_pause
        self._taken_per_pause += (NEWEST if average else 1.0) * (newest - average)

    def _step(self, now: float) -> None:
        self._taken_since_step, self._stepped_at = 0, now
        if self.rate >= IS_CLOSE * self._refused_rate:
            self._refused_rate *= 2
        self.rate += STEP_OF_GAP * (self._refused_rate - self.rate)
