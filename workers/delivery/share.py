"""The part of a subscription's rate that is one worker's, and from when until when (pure)."""

from collections.abc import Collection
from math import inf
from typing import NamedTuple

from workers.delivery.tickets import all_tickets, ticket_count, tickets_of


class Lease(NamedTuple):
    """Tickets that may be used in [since, until), by the worker's monotonic clock (seconds)."""

    tickets: int
    since: float = -inf
    until: float = inf


class Share(NamedTuple):
    """The hard limit of a subscription over all workers, and the tickets that are this one's.

    No ticket is ever held by two workers, nor within a second of each other, so that the shares of
    all workers never add up to more than the limit in any second. Of the tickets no more than
    `tickets_max` count, whatever is held.
    """

    limit: float
    partitions: int
    leases: tuple[Lease, ...] = ()
    tickets_max: float = inf

    @classmethod
    def owned(cls, limit: float, owned: Collection[int], partitions: int) -> "Share":
        """The share that goes with owned partitions, of which nothing is lent."""
        return cls(limit, partitions, (Lease(tickets_of(frozenset(owned), partitions)),))

    @property
    def is_small(self) -> bool:
        """Whether a part may be below one a second, which would be rounded up for each."""
        return self.limit < self.partitions

    def held(self, now: float) -> tuple[int, float]:
        """The tickets that may be used now, and when these change (infinity: never)."""
        tickets, changes_at = 0, inf
        for lease in self.leases:
            if now < lease.since:
                changes_at = min(changes_at, lease.since)
            elif now < lease.until:
                tickets |= lease.tickets
                changes_at = min(changes_at, lease.until)
        return tickets, changes_at

    def takes_turns(self, tickets: int) -> bool:
        """Whether parts are too small to be rates, and others hold some of them."""
        return self.is_small and tickets != all_tickets(self.partitions)

    def rate(self, tickets: int) -> float:
        """What may be sent with `tickets`, in requests per second.

        Less than one a second is nothing, unless turns are taken: a limiter lets one through in a
        second however small its rate, and the others' requests are not known here.
        """
        held, of = tickets.bit_count(), ticket_count(self.partitions)
        if held * self.limit < of and not self.takes_turns(tickets):
            return 0.0
        return min(held, self.tickets_max) * self.limit / of


class Demand(NamedTuple):
    """What a consumer does with its part of the rate (requests a second), and what waits for more.

    `part` is the least that it was in the last second, `used` counts the requests of that second,
    `waiting` the messages that could be sent now.
    """

    part: float
    used: int
    waiting: int
