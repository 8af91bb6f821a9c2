"""How fast the messages of a retransmission are appended."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from math import ceil
from typing import Final

from app.domain.replay.retransmission import ahead_max
from app.domain.targeted import RecordTarget

# The maximum number of messages that are appended at once is what the rate allows in this time
# (seconds). So new messages can be sent between two appends.
BURST_S: Final = 0.25
# In each interval, the number of appended messages is what the rate allows in the interval,
# multiplied by this factor. This makes up for the time of other work, such as recording which
# messages were appended.
_PIECE_SHARE: Final = 1.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """A retransmission whose messages are chosen, and which one worker sends now.

    Attributes:
        id: The id of the retransmission.
        attempt: The number of the claim on the retransmission. The reports of a worker with an
            older claim change nothing.
        subscription_id: The subscription that gets the messages.
        topic: The topic of the subscription.
        share: The part of the subscription's rate at which messages are sent.
        written: How many messages were appended, as far as this was recorded.
        matched: How many messages were chosen.
        begun: For each partition, an offset. All messages that this retransmission appended are at
            this offset or above.
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
    """Computes how many messages may be appended by now, at a part of a rate."""

    def __init__(self, share: float, now: float) -> None:
        self._share = share
        self._allowed = 0.0
        self._at = now

    def allowed(self, *, rate: int, ahead: int, now: float) -> int:
        """Return how many messages may be appended now.

        Args:
            rate: The rate of the subscription, in requests per second.
            ahead: How many messages are appended, but not finished.
            now: Monotonic seconds.
        """
        earned = (now - self._at) * rate * self._share
        self._at = now
        self._allowed = min(self._allowed + earned, max(1.0, rate * self._share * BURST_S))
        return max(0, min(int(self._allowed), ahead_max(rate, self._share) - ahead))

    def piece(self, *, rate: int, every: timedelta) -> int:
        """Return how many messages to append at a time, if the time between appends is `every`."""
        return max(1, ceil(rate * self._share * every.total_seconds() * _PIECE_SHARE))

    def rest(self, now: float) -> None:
        """Forget the time until `now`, because nothing may be appended now.

        So this time does not allow more messages later.
        """
        self._at = now
        self._allowed = 0.0

    def appended(self, count: int) -> None:
        """Subtract `count` appended messages from the messages that may be appended."""
        self._allowed -= count
