"""Whether a subscriber gets anything at all: not for a while after too many failures in a row.

Pure: the clock is passed in, in monotonic seconds.
"""

from collections.abc import Collection
from enum import Enum, auto
from http import HTTPStatus
from typing import Final, assert_never

from app.domain.circuit import CircuitBreaker, CircuitState, ErrorType
from app.domain.delivery import Delivered, Discarded, Outcome, Retry

# A member that waits for others is notified when they are done; it looks again after this anyway.
LOOK_AGAIN_S: Final = 1.0
# Leave to send the one message is not for keeping: others may have one.
LEAVE_S: Final = 1.0
# What others know of a shared circuit is waited for, but not longer than this.
UNKNOWN_S: Final = 2.0
# Times that were computed with are the same up to this.
_SAME_S: Final = 1e-6


class CircuitVerdict(Enum):
    """What an attempt means for a circuit.

    FAILURE: it failed of what is listed. OTHER: of something else. UNSENT: nothing was sent.
    """

    SUCCESS = auto()
    FAILURE = auto()
    OTHER = auto()
    UNSENT = auto()


def verdict(outcome: Outcome, listed: Collection[ErrorType]) -> CircuitVerdict:
    """What `outcome` means where these types are listed.

    An answer for which its message is discarded (most 4xx) is a success: the subscriber works. So
    is one address of several that fails while others work.
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
    """What the attempt failed of; nothing for what has no type, as a redirect."""
    if failed.error is not None:
        return (failed.error,)
    match failed.status:
        case HTTPStatus.TOO_MANY_REQUESTS:
            return (ErrorType.HTTP_429,)
        case HTTPStatus.SERVICE_UNAVAILABLE:
            return (ErrorType.HTTP_503, ErrorType.HTTP_5XX)
        case int() as status if 500 <= status < 600:  # noqa: PLR2004 - the 5xx class
            return (ErrorType.HTTP_5XX,)
    return ()


class Circuit:
    """CLOSED, OPEN or HALF_OPEN, for all that send to what it protects.

    The caller asks `wait` before it sends, reports each request that leaves (`sent`) and each
    result (`report`). What was sent before it was opened or closed last does not count any more.

    A `shared` one is shared with other workers, too: nothing is sent before it is known how it
    is (or UNKNOWN_S are over), and half open it needs leave to send its one message. `wanted` is
    that someone waits for leave.
    """

    def __init__(self, now: float, *, shared: bool = False) -> None:
        self._shared = shared
        self._unknown_until = now + UNKNOWN_S if shared else now
        self._failures = 0
        self._tripped_at = self._leave_until = float("-inf")
        # When the one message of a half-open circuit left.
        self._probe: float | None = None
        self.closed = True
        # Since when it is closed, or is not.
        self.since = now
        self.reason = ""
        # An open one may be tried from then on.
        self.opens_at = now
        self.wanted = False
        # When the last message left that was a success.
        self.succeeded_at = float("-inf")

    @property
    def probing(self) -> bool:
        """Whether its one message is in flight."""
        return self._probe is not None

    def state(self, now: float) -> CircuitState:
        """The state it is in."""
        if self.closed:
            return CircuitState.CLOSED
        return CircuitState.OPEN if now < self.opens_at else CircuitState.HALF_OPEN

    def wait(self, now: float) -> float:
        """Seconds until a request may leave, or it is worth asking again; 0.0 when one may now."""
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
        """A request leaves."""
        if not self.closed:
            self._probe = now
            self._leave_until = float("-inf")

    def withdraw(self) -> None:
        """Nobody will report what became of the one message: another one is to try."""
        self._probe = None

    def report(self, outcome: Outcome, rule: CircuitBreaker, *, sent_at: float, now: float) -> bool:
        """The request that left at `sent_at` is over; whether this opened or closed the circuit."""
        meaning = verdict(outcome, rule.error_types)
        if meaning is CircuitVerdict.SUCCESS:
            self.succeeded_at = max(self.succeeded_at, sent_at)
        if self.closed:
            if meaning is CircuitVerdict.FAILURE and _is_of_few(outcome):
                return False
            tripped = sent_at > self.since - _SAME_S and self._counted(meaning, rule)
            if tripped:
                failures = f"{self._failures} failures in a row"
                self._trip(f"{failures}, the last: {_reason(outcome)}", rule, now)
            return tripped
        if self._probe is None or abs(sent_at - self._probe) > _SAME_S:
            return False
        self._probe = None
        if meaning is CircuitVerdict.UNSENT:
            return False  # the next message is to show how it is
        if meaning is CircuitVerdict.FAILURE:
            self._trip(f"the message that tried failed: {_reason(outcome)}", rule, now)
        else:
            self._close(now)
        return True

    def retime(self, rule: CircuitBreaker) -> bool:
        """Be open for as long as `rule` has it since the last failure; whether it is open."""
        if not self.closed:
            self.opens_at = self._tripped_at + rule.open_for.total_seconds()
        return not self.closed

    # ---- what other workers publish -------------------------------------------------------------

    def has_leave(self, now: float) -> bool:
        """Whether its one message may be sent from here."""
        return now < self._leave_until

    def grant(self, now: float) -> None:
        """Its one message may be sent from here, within LEAVE_S."""
        self.wanted = False
        self._leave_until = now + LEAVE_S

    def deny(self) -> None:
        """It may not, for now: a member that still wants to requests it again."""
        self.wanted = False

    def adopt_closed(self, now: float) -> bool:
        """It is closed; whether that is news."""
        unknown = now < self._unknown_until
        self._unknown_until = now
        if self.closed:
            return unknown
        self.succeeded_at = now
        self._close(now)
        return True

    def adopt_open(self, *, since: float, opens_at: float, reason: str, now: float) -> None:
        """It was opened."""
        self._unknown_until = self._tripped_at = now
        self._open(since=since, opens_at=opens_at, reason=reason)

    def _counted(self, meaning: CircuitVerdict, rule: CircuitBreaker) -> bool:
        """Whether that makes too many failures in a row."""
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
    """Whether other addresses of the subscriber got no request."""
    return isinstance(outcome, Retry) and outcome.others_well is False


def _reason(outcome: Outcome) -> str:
    return outcome.reason if isinstance(outcome, Retry) else ""
