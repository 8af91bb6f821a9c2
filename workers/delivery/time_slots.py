"""A rate so low that not every worker gets one request a second: they take turns (pure).

Time is cut into slots, a little longer than the rate asks for, numbered since the epoch; slots go
round the tickets, and the holder of a slot's ticket may send one request at the beginning of it. A
ticket has one holder, so workers need not talk to each other about it, only agree what time it is:
two requests of different workers are never closer than SPACING - SLACK_S of a slot, less the
difference of their clocks, which may be up to SKEW_MAX_S.
"""

from typing import Final

# Of the nominal length: pays for lateness and skew within each second.
SPACING: Final = 1.05
# Seconds after the beginning of a slot in which a request may still leave.
SLACK_S: Final = 0.03
SKEW_MAX_S: Final = 0.02


class TimeSlots:
    """The slots of `tickets`, which may be changed, of so many (`count`), at `rate` a second.

    `now` is the wall clock, in seconds since the epoch. A `rate` is greater than zero.
    """

    def __init__(self, rate: float, count: int) -> None:
        self._length = SPACING / rate
        self._count = count
        self._used = -1
        self.tickets = 0

    def wait(self, now: float) -> float:
        """Seconds until a slot of ours begins; 0.0 when a request may leave now."""
        slot = int(now / self._length)
        if self._is_ours(slot) and now - slot * self._length <= SLACK_S:
            return 0.0
        following = slot + 1
        for ahead in range(following, following + self._count):
            if self._is_ours(ahead):
                # Half a millisecond into it: rounding must not show the slot before.
                return ahead * self._length - now + 0.0005
        return self._count * self._length

    def sent(self, now: float) -> None:
        """The slot of `now` is used up."""
        self._used = int(now / self._length)

    def _is_ours(self, slot: int) -> bool:
        return slot != self._used and bool(self.tickets >> slot % self._count & 1)
