"""One worker's part of a subscription's rate, and until when it is valid (pure)."""

from collections.abc import Collection
from math import inf
from typing import NamedTuple

from workers.delivery.tickets import all_tickets, ticket_count, tickets_of


class Lease(NamedTuple):
    """A set of tickets that may be used from `since` to before `until` (monotonic seconds)."""

    tickets: int
    since: float = -inf
    until: float = inf


class Share(NamedTuple):
    """The tickets of one subscription that this worker may use.

    Two workers never hold the same ticket at the same time, nor within a second of each other. So
    the shares of all workers never exceed the limit in any second.

    Attributes:
        limit: The hard limit of the subscription over all workers, in requests per second.
        partitions: The number of partitions of the subscription's topic.
        leases: The tickets of this worker, with the times in which it may use them.
        tickets_max: The number of tickets that count if the worker holds more.
    """

    limit: float
    partitions: int
    leases: tuple[Lease, ...] = ()
    tickets_max: float = inf

    @classmethod
    def owned(cls, limit: float, owned: Collection[int], partitions: int) -> "Share":
        """Return the share of a worker that owns these partitions and lends no tickets."""
        return cls(limit, partitions, (Lease(tickets_of(frozenset(owned), partitions)),))

    @property
    def is_small(self) -> bool:
        """Whether the limit is less than one request per second for each partition."""
        return self.limit < self.partitions

    def held(self, now: float) -> tuple[int, float]:
        """Return the tickets that may be used now, and until when (infinity: forever)."""
        tickets, changes_at = 0, inf
        for lease in self.leases:
            if now < lease.since:
                changes_at = min(changes_at, lease.since)
            elif now < lease.until:
                tickets |= lease.tickets
                changes_at = min(changes_at, lease.until)
        return tickets, changes_at

    def takes_turns(self, tickets: int) -> bool:
        """Whether this worker may send only in its time slots (`workers.delivery.time_slots`).

        Time slots are needed if the limit is small and other workers hold tickets, too.
        """
        return self.is_small and tickets != all_tickets(self.partitions)

    def rate(self, tickets: int) -> float:
        """Return the rate of `tickets` in requests per second.

        A rate below one per second counts as zero, unless this worker sends only in its time slots.
        The reason: each worker's limiter may send one request at first, however small the rate is,
        and does not know the requests of other workers.
        """
        held, of = tickets.bit_count(), ticket_count(self.partitions)
        if held * self.limit < of and not self.takes_turns(tickets):
            return 0.0
        return min(held, self.tickets_max) * self.limit / of


class Demand(NamedTuple):
    """How a consumer uses its share of the subscription's rate, and how many messages wait.

    Attributes:
        part: The lowest rate that the consumer was allowed in the last second, in requests per
            second.
        used: The number of requests in the last second.
        waiting: The number of messages that could be sent now.
    """

    part: float
    used: int
    waiting: int
