"""What became of each acknowledged message, in a bit of memory for each.

The messages of a topic have the numbers 0, 1, 2, … in their bodies. A receiver that remembers the
numbers knows all that it has to, and does not keep messages.
"""

from dataclasses import dataclass, field


class Numbers:
    """A set of numbers from 0 on, which takes one bit for each up to the greatest."""

    def __init__(self) -> None:
        self._bits = bytearray()

    def add(self, number: int) -> None:
        place, bit = divmod(number, 8)
        if place >= len(self._bits):
            self._bits.extend(bytes(place + 1 - len(self._bits)))
        self._bits[place] |= 1 << bit

    def __contains__(self, number: int) -> bool:
        place, bit = divmod(number, 8)
        return place < len(self._bits) and bool(self._bits[place] & 1 << bit)

    def __len__(self) -> int:
        return self.mask().bit_count()

    def mask(self) -> int:
        """Return the set as a number with these bits."""
        return int.from_bytes(self._bits, "little")


@dataclass(slots=True)
class TopicAccount:
    """What was published to a topic."""

    name: str
    sent: int = 0
    acknowledged: Numbers = field(default_factory=Numbers)

    def next_number(self) -> int:
        """Return the number of the next message, which is about to be sent."""
        self.sent += 1
        return self.sent - 1


@dataclass(slots=True, kw_only=True)
class SubscriptionAccount:
    """What became of a topic's messages in one subscription.

    It owes those that were sent after its creation was answered, so from the number `since` on, and
    until somebody decided to delete it.
    """

    topic: TopicAccount
    name: str
    since: int
    until: int | None = None
    delivered: Numbers = field(default_factory=Numbers)
    listed: Numbers = field(default_factory=Numbers)
    again: int = 0

    @property
    def path(self) -> str:
        """Return its path in the API."""
        return f"/topics/{self.topic.name}/subscriptions/{self.name}"

    def deliver(self, number: int) -> None:
        """Count a message that the endpoint accepts."""
        self.again += number in self.delivered
        self.delivered.add(number)

    def end(self) -> None:
        """Owe no message that is sent from now on."""
        self.until = self.topic.sent

    @property
    def owed(self) -> int:
        """Return how many acknowledged messages it has to deliver or to list."""
        return self._owed().bit_count()

    def missing(self) -> int:
        """Return how many of these are neither delivered nor listed."""
        return (self._owed() & ~self.delivered.mask() & ~self.listed.mask()).bit_count()

    def _owed(self) -> int:
        until = self.topic.sent if self.until is None else self.until
        return self.topic.acknowledged.mask() & ((1 << until) - 1) & ~((1 << self.since) - 1)


@dataclass(slots=True)
class Totals:
    """Sums over subscriptions, also of those that were deleted."""

    subscriptions: int = 0
    owed: int = 0
    delivered: int = 0
    listed: int = 0
    again: int = 0
    lost: int = 0

    def add(self, account: SubscriptionAccount) -> None:
        """Add a subscription that is settled, or that never will be."""
        self.subscriptions += 1
        self.owed += account.owed
        self.delivered += len(account.delivered)
        self.listed += len(account.listed)
        self.again += account.again
        self.lost += account.missing()

    def __str__(self) -> str:
        return (
            f"{self.owed:,} deliveries owed by {self.subscriptions} subscriptions: "
            f"{self.delivered:,} messages delivered ({self.again:,} times again), "
            f"{self.listed:,} listed as undelivered, {self.lost:,} LOST"
        )
