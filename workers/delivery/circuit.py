"""A circuit breaker: sends nothing for some time after too many consecutive failures.

The module is pure: callers pass the time, in monotonic seconds.
"""

from collections.abc import Collection
from enum import Enum, auto
from http import HTTPStatus
from typing import Final, assert_never

from app.domain.circuit import CircuitBreaker, CircuitState, ErrorType
from app.domain.delivery import Delivered, Discarded, Outcome, Retry

# How many seconds a subscription waits before it checks again whether the probe of another
# subscription has ended. It is also notified when that probe has ended.
LOOK_AGAIN_S: Final = 1.0
# How many seconds a worker's permission to send the probe is valid. After that, another worker can
# get the permission.
LEAVE_S: Final = 1.0
# The longest time in seconds for which a shared circuit waits for its stored state.
UNKNOWN_S: Final = 2.0
# Two computed times count as equal if their difference is less than this number of seconds.
_SAME_S: Final = 1e-6


class CircuitVerdict(Enum):
    """The meaning of an attempt for a circuit.

    SUCCESS: the subscriber works. FAILURE: the attempt failed with an error type that counts for
    this circuit. OTHER: the attempt failed with another error type. UNSENT: nothing was sent.
    """

    SUCCESS = auto()
    FAILURE = auto()
    OTHER = auto()
    UNSENT = auto()


def verdict(outcome: Outcome, listed: Collection[ErrorType]) -> CircuitVerdict:
    """Return the meaning of `outcome` for a circuit for which only the error types `listed` count.

    A response for which the message is discarded (most 4xx) is a success: the subscriber works. If
    one of several addresses fails while others work, the attempt is a success, too.
    """
    match outcome:
        case Delivered():
            return CircuitVerdict.SUCCESS
        case Discarded():
            return CircuitVerdict.UNSENT if outcome.status is None else CircuitVerdict.SUCCESS
        case Retry() if outcome.others_well:
            return CircuitVerdict.SUCCESS
        case Retry():
            failed_of = error_types(outcome)
            if any(each in listed for each in failed_of):
                return CircuitVerdict.FAILURE
            unsent = outcome.status is None and not failed_of
            return CircuitVerdict.UNSENT if unsent else CircuitVerdict.OTHER
        case _:
            assert_never(outcome)


def error_types(failed: Retry) -> Collection[ErrorType]:
    """Return the error types of the attempt.

    The result is empty for a failure without a type, such as a redirect.
    """
    if failed.error is not None:
        return (failed.error,)
    match failed.status:
        case HTTPStatus.TOO_MANY_REQUESTS:
            return (ErrorType.HTTP_429,)
        case HTTPStatus.SERVICE_UNAVAILABLE:
            return (ErrorType.HTTP_503, ErrorType.HTTP_5XX)
        case int() as status if 500 <= status < 600:  # noqa: PLR2004 - the range of 5xx statuses
            return (ErrorType.HTTP_5XX,)
    return ()


class Circuit:
    """The circuit of one or several subscriptions that send to the same target.

    The caller calls `wait` before it sends, and reports each request (`sent`) and each result
    (`report`). Results of requests sent before the last change of state do not count.

    A `shared` circuit is shared with other workers. Nothing is sent until its state is known, or
    until two seconds have passed. A half-open circuit needs a permission to send its probe: the one
    request that tests the subscriber. `wanted` is true while a subscription waits for this
    permission.
    """

    def __init__(self, now: float, *, shared: bool = False) -> None:
        self._shared = shared
        self._unknown_until = now + UNKNOWN_S if shared else now
        self._failures = 0
        self._tripped_at = self._leave_until = float("-inf")
        # The time at which the probe of the half-open circuit was sent. None if no probe is in
        # flight.
        self._probe: float | None = None
        self.closed = True
        # When the circuit was last closed or opened.
        self.since = now
        self.reason = ""
        # When an open circuit may send its next probe.
        self.opens_at = now
        self.wanted = False
        # The time at which the newest successful message was sent.
        self.succeeded_at = float("-inf")

    @property
    def probing(self) -> bool:
        """Whether the probe is in flight."""
        return self._probe is not None

    def state(self, now: float) -> CircuitState:
        """The current state."""
        if self.closed:
            return CircuitState.CLOSED
        return CircuitState.OPEN if now < self.opens_at else CircuitState.HALF_OPEN

    def wait(self, now: float) -> float:
        """Return the seconds until a request may be sent, or until the next check.

        The result is 0.0 if a request may be sent now.
        """
        if self.closed:
            return max(0.0, self._unknown_until - now)
        if now < self.opens_at:
            return self.opens_at - now
        if self.probing:
            return LOOK_AGAIN_S
        if self._shared and not self.has_leave(now):
            self.wanted = True
            return LOOK_AGAIN_S
        return 0.0

    def sent(self, now: float) -> None:
        """Called when a request is sent."""
        if not self.closed:
            self._probe = now
            self._leave_until = float("-inf")

    def withdraw(self) -> None:
        """Called when the result of the probe will not be reported.

        Then another message becomes the probe.
        """
        self._probe = None

    def report(self, outcome: Outcome, rule: CircuitBreaker, *, sent_at: float, now: float) -> bool:
        """Count the result of the request sent at `sent_at`; return whether the circuit changed."""
        meaning = verdict(outcome, rule.error_types)
        if meaning is CircuitVerdict.SUCCESS:
            self.succeeded_at = max(self.succeeded_at, sent_at)
        if self.closed:
            if meaning is CircuitVerdict.FAILURE and _is_of_few(outcome):
                return False
            tripped = sent_at > self.since - _SAME_S and self._counted(meaning, rule)
            if tripped:
                noun = "failure" if self._failures == 1 else "failures"
                failures = f"{self._failures} {noun} in a row"
                self._trip(f"{failures}, the last: {_reason(outcome)}", rule, now)
            return tripped
        if self._probe is None or abs(sent_at - self._probe) > _SAME_S:
            return False
        self._probe = None
        if meaning is CircuitVerdict.UNSENT:
            return False  # return False: nothing changes, and the next message becomes the probe
        if meaning is CircuitVerdict.FAILURE:
            self._trip(f"the message that tried failed: {_reason(outcome)}", rule, now)
        else:
            self._close(now)
        return True

    def retime(self, rule: CircuitBreaker) -> bool:
        """Apply a changed `rule`, which says how long the circuit stays open after a failure.

        Return whether the circuit is open.
        """
        if not self.closed:
            self.opens_at = self._tripped_at + rule.open_for.total_seconds()
        return not self.closed

    # ---- changes that other workers publish -----------------------------------------------------

    def has_leave(self, now: float) -> bool:
        """Whether this worker has the permission to send the probe."""
        return now < self._leave_until

    def grant(self, now: float) -> None:
        """Permit this worker to send the probe within the next second."""
        self.wanted = False
        self._leave_until = now + LEAVE_S

    def deny(self) -> None:
        """Refuse the permission to send the probe.

        A subscription that needs the permission must request it again.
        """
        self.wanted = False

    def adopt_closed(self, now: float) -> bool:
        """Set the circuit to closed, because it is closed for all other workers.

        Return whether this worker did not know before that the circuit is closed.
        """
        unknown = now < self._unknown_until
        self._unknown_until = now
        if self.closed:
            return unknown
        self.succeeded_at = now
        self._close(now)
        return True

    def adopt_open(self, *, since: float, opens_at: float, reason: str, now: float) -> None:
        """Set the circuit to open, because another worker has stored this state."""
        self._unknown_until = self._tripped_at = now
        self._open(since=since, opens_at=opens_at, reason=reason)

    def _counted(self, meaning: CircuitVerdict, rule: CircuitBreaker) -> bool:
        """Count a result. Return whether there are too many consecutive failures."""
        if meaning is CircuitVerdict.SUCCESS:
            self._failures = 0
        elif meaning is CircuitVerdict.FAILURE:
            self._failures += 1
        return meaning is CircuitVerdict.FAILURE and self._failures >= rule.errors_threshold

    def _trip(self, reason: str, rule: CircuitBreaker, now: float) -> None:
        self._tripped_at = now
        since = now if self.closed else self.since
        opens_at = now + rule.open_for.total_seconds()
        self._open(since=since, opens_at=opens_at, reason=reason)

    def _open(self, *, since: float, opens_at: float, reason: str) -> None:
        self.closed, self.since, self.opens_at, self.reason = False, since, opens_at, reason
        self._failures = 0
        self._probe = None
        self._leave_until = float("-inf")
        self.wanted = False

    def _close(self, now: float) -> None:
        self.closed, self.since, self.reason = True, now, ""
        self._failures = 0
        self._probe = None
        self.wanted = False


def _is_of_few(outcome: Outcome) -> bool:
    """Whether only some of the subscriber's addresses got this request, and all of these failed."""
    return isinstance(outcome, Retry) and outcome.others_well is False


def _reason(outcome: Outcome) -> str:
    return outcome.reason if isinstance(outcome, Retry) else ""
