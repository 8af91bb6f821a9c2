"""How fast the messages of a retransmission are appended."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from math import ceil
from typing import Final

from app.domain.replay.retransmission import ahead_max
from app.domain.targeted import RecordTarget

# How much may be appended at once, in seconds of the rate, so that new messages come in between.
BURST_S: Final = 0.25
# The factor by which a piece is larger than its share of the time, because appending is not the
# only work.
_PIECE_SHARE: Final = 1.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """A retransmission with chosen messages, claimed as `attempt` of its job.

    No partition of the topic has messages of it before the offsets in `begun`.
    """

    id: str
    attempt: int
    subscription_id: str
    topic: str
    share: float
    written: int = 0
    matched: int = 0
    begun: Mapping[int, int] = field(default_factory=dict, hash=False)

    @property
    def record_target(self) -> RecordTarget:
        """The target (`RecordTarget`) that the messages of this retransmission name."""
        return RecordTarget(self.subscription_id, self.id)


class RetransmissionPace:
    """How many messages may be appended by now, at a share of a rate."""

    def __init__(self, share: float, now: float) -> None:
        self._share = share
        self._allowed = 0.0
        self._at = now

    def allowed(self, *, rate: int, ahead: int, now: float) -> int:
        """Return how many messages may be appended now.

        `ahead` messages are appended and unfinished; `now` is in monotonic seconds.
        """
        earned = (now - self._at) * rate * self._share
        self._at = now
        self._allowed = min(self._allowed + earned, max(1.0, rate * self._share * BURST_S))
        return max(0, min(int(self._allowed), ahead_max(rate, self._share) - ahead))

    def piece(self, *, rate: int, every: timedelta) -> int:
        """Return how many messages to append every `every`, to reach the share of `rate`."""
        return max(1, ceil(rate * self._share * every.total_seconds() * _PIECE_SHARE))

    def rest(self, now: float) -> None:
        """Called while nothing may be appended: this time gives no allowance for later."""
        self._at = now
        self._allowed = 0.0

    def appended(self, count: int) -> None:
        """Called when `count` messages were appended."""
        self._allowed -= count
