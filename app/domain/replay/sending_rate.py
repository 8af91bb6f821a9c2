"""How fast the messages of a retransmission are appended."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from math import ceil
from typing import Final

from app.domain.replay.retransmission import ahead_max, messages_per_second
from app.domain.targeted import RecordTarget

# The maximum number of messages that are appended at once is what the rate allows in this time
# (seconds), and one message. So new messages can be sent between two appends.
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
        rate: How many messages are sent per second, at most. None means that only `share` limits
            them.
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
    rate: float | None = None
    written: int = 0
    matched: int = 0
    begun: Mapping[int, int] = field(default_factory=dict, hash=False)

    @property
    def record_target(self) -> RecordTarget:
        """The target that the messages of this retransmission name in a header."""
        return RecordTarget(self.subscription_id, self.id)


class RetransmissionPace:
    """Computes how many messages may be appended by now.

    They are a part of the subscription's rate, and at most `rate_max` messages per second. One
    worker appends all messages of a retransmission, so nothing is divided between workers.
    """

    def __init__(self, share: float, now: float, *, rate_max: float | None = None) -> None:
        self._share = share
        self._rate_max = rate_max
        self._allowed = 0.0
        self._at = now

    def allowed(self, *, rate: int, ahead: int, now: float) -> int:
        """Return how many messages may be appended now.

        Args:
            rate: The rate of the subscription, in requests per second.
            ahead: How many messages are appended, but not finished.
            now: Monotonic seconds.
        """
        pace = self._per_second(rate)
        earned = (now - self._at) * pace
        self._at = now
        # The one message is for low rates: the time that has passed after a message was allowed,
        # and before this was noticed, counts for the next message.
        self._allowed = min(self._allowed + earned, 1.0 + pace * BURST_S)
        return max(0, min(int(self._allowed), ahead_max(pace) - ahead))

    def piece(self, *, rate: int, every: timedelta) -> int:
        """Return how many messages to append at a time, if the time between appends is `every`."""
        return max(1, ceil(self._per_second(rate) * every.total_seconds() * _PIECE_SHARE))

    def rest(self, now: float) -> None:
        """Forget the time until `now`, because nothing may be appended now.

        So this time does not allow more messages later.
        """
        self._at = now
        self._allowed = 0.0

    def appended(self, count: int) -> None:
        """Subtract `count` appended messages from the messages that may be appended."""
        self._allowed -= count

    def _per_second(self, rate: int) -> float:
        return messages_per_second(rate, share=self._share, rate_max=self._rate_max)
