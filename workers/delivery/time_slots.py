"""A rate so low that not every worker gets one request per second: workers take turns (pure).

Time is divided into slots, numbered since the epoch and a little longer than the rate requires. The
slots go round the tickets. The holder of a slot's ticket may send one request at the start of the
slot. A ticket has one holder, so workers need not communicate for this; they need only the same
time. Requests of two workers are at least SPACING - SLACK_S of a slot apart, minus the difference
of their clocks, which is at most SKEW_MAX_S.
"""

from typing import Final

# Factor of the nominal length. It makes up for lateness and clock differences within each second.
SPACING: Final = 1.05
# Seconds after the start of a slot in which a request may still be sent.
SLACK_S: Final = 0.03
SKEW_MAX_S: Final = 0.02


class TimeSlots:
    """The slots of `tickets` (which may change), out of `count`, at `rate` per second.

    `now` is the wall clock in seconds since the epoch. `rate` is greater than zero.
    """

    def __init__(self, rate: float, count: int) -> None:
        self._length = SPACING / rate
        self._count = count
        self._used = -1
        self.tickets = 0

    def wait(self, now: float) -> float:
        """Seconds until a slot of this worker starts; 0.0 when a request may be sent now."""
        slot = int(now / self._length)
        if self._is_ours(slot) and now - slot * self._length <= SLACK_S:
            return 0.0
        following = slot + 1
        for ahead in range(following, following + self._count):
            if self._is_ours(ahead):
                # Half a millisecond into the slot, so that rounding does not lead to the slot
                # before.
                return ahead * self._length - now + 0.0005
        return self._count * self._length

    def sent(self, now: float) -> None:
        """Use up the slot of `now`."""
        self._used = int(now / self._length)

    def _is_ours(self, slot: int) -> bool:
        return slot != self._used and bool(self.tickets >> slot % self._count & 1)
