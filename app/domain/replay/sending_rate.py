"""How fast the messages of a retransmission are appended."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from math import ceil
from typing import Final

from app.domain.replay.retransmission import ahead_max
from app.domain.targeted import RecordTarget

# What may be appended at once, of what is allowed in a second: new messages come in between.
BURST_S: Final = 0.25
# Of what its share is in a time, so much is appended then: there is more to do than to append.
_PIECE_SHARE: Final = 1.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """A retransmission whose messages are chosen, by the taking `attempt` of its job.

    Before the offsets `begun` of its topic's partitions there is none of its messages.
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
        """What its messages say."""
        return RecordTarget(self.subscription_id, self.id)


class RetransmissionPace:
    """How many messages may be appended by now, at a share of a rate."""

    def __init__(self, share: float, now: float) -> None:
        self._share = share
        self._allowed = 0.0
        self._at = now

    def allowed(self, *, rate: int, ahead: int, now: float) -> int:
        """So many; `ahead` are appended, and not finished. `now` in monotonic seconds."""
        earned = (now - self._at) * rate * self._share
        self._at = now
        self._allowed = min(self._allowed + earned, max(1.0, rate * self._share * BURST_S))
        return max(0, min(int(self._allowed), ahead_max(rate, self._share) - ahead))

    def piece(self, *, rate: int, every: timedelta) -> int:
        """How many to append at once, `every` so often, to come to that share of `rate`."""
        return max(1, ceil(rate * self._share * every.total_seconds() * _PIECE_SHARE))

    def rest(self, now: float) -> None:
        """Nothing may be appended: nothing is earned meanwhile."""
        self._at = now
        self._allowed = 0.0

    def appended(self, count: int) -> None:
        """So many were."""
        self._allowed -= count
