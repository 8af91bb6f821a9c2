"""How fast the messages of a retransmission are appended."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from math import ceil
from typing import Final

from app.domain.replay.retransmission import ahead_max
from app.domain.targeted import RecordTarget

# How much may be appended at once, in seconds of the rate. New messages can be sent between two
# appends.
BURST_S: Final = 0.25
# A piece is larger than its share of the time by this factor, because appending is not the only
# work.
_PIECE_SHARE: Final = 1.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """A retransmission with chosen messages, claimed as `attempt` of its job.

    In each partition of the topic, all its appended messages are at or after the offset in `begun`.
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
        """The target that the messages of this retransmission name in a header."""
        return RecordTarget(self.subscription_id, self.id)


class RetransmissionPace:
    """Computes how many messages may be appended by now, at a share of a rate."""

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
        """Return how many messages to append in each `every`, to reach the share of `rate`."""
        return max(1, ceil(rate * self._share * every.total_seconds() * _PIECE_SHARE))

    def rest(self, now: float) -> None:
        """Called while nothing may be appended.

        The waiting time does not allow more messages later.
        """
        self._at = now
        self._allowed = 0.0

    def appended(self, count: int) -> None:
        """Called when `count` messages were appended."""
        self._allowed -= count
