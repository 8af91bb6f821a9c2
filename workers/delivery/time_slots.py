"""Time slots for a rate so low that not every worker gets one request per second (pure).

Time is divided into slots, which are numbered since the epoch and a little longer than the rate
requires. Each slot belongs to a ticket; the slots go through all tickets one after the other. The
holder of a slot's ticket may send one request at the start of the slot. A ticket has one holder, so
workers need not communicate for this. They only need the same time. The requests of two workers are
at least one slot minus SLACK_S apart, less the difference of the workers' clocks, which is at most
SKEW_MAX_S.
"""

from typing import Final

# The length of a time slot, as a multiple of the length that the rate requires. The excess
# compensates for late requests and for clocks that differ.
SPACING: Final = 1.05
# How many seconds after the start of a time slot its request may still be sent.
SLACK_S: Final = 0.03
SKEW_MAX_S: Final = 0.02


class TimeSlots:
    """The time slots in which this worker may send, as given by its tickets.

    `now` is the wall clock in seconds since the epoch. `rate` is the subscription's hard limit over
    all workers, in requests per second. `count` is the number of all tickets of the subscription.
    `tickets` has the tickets of this worker, and may change.
    """

    def __init__(self, rate: float, count: int) -> None:
        self._length = SPACING / rate
        self._count = count
        self._used = -1
        self.tickets = 0

    def wait(self, now: float) -> float:
        """Return the seconds until a slot of this worker starts; 0.0 if one has just started."""
        slot = int(now / self._length)
        if self._is_ours(slot) and now - slot * self._length <= SLACK_S:
            return 0.0
        following = slot + 1
        for ahead in range(following, following + self._count):
            if self._is_ours(ahead):
                # Add half a millisecond to the start of the time slot. Otherwise a rounding error
                # could lead to a time in the slot before.
                return ahead * self._length - now + 0.0005
        return self._count * self._length

    def sent(self, now: float) -> None:
        """Use up the time slot that is current at `now`."""
        self._used = int(now / self._length)

    def is_still(self, then: float, now: float) -> bool:
        """Whether a request that used its time slot at `then` may still be sent at `now`."""
        slot = int(now / self._length)
        return slot == int(then / self._length) and now - slot * self._length <= SLACK_S

    def _is_ours(self, slot: int) -> bool:
        return slot != self._used and bool(self.tickets >> slot % self._count & 1)
