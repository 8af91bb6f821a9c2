"""Divides a subscription's rate into tickets, which workers hold and lend to each other (pure).

Each partition has the same number of tickets, and the worker that owns the partition holds its
tickets, unless it lends them to another worker. Ticket number t belongs to partition t modulo the
number of partitions. A worker that holds a tenth of the tickets may use a tenth of the rate. A set
of tickets is an integer: bit t is set if t is in the set.
"""

from collections.abc import Iterable
from functools import lru_cache, reduce
from operator import or_
from typing import Final

# The minimum number of tickets. With so many tickets, a worker can lend nearly its whole share and
# keep a small part of it.
TICKETS_MIN: Final = 200
# The maximum number of cached results. A result is the tickets of one set of owned partitions.
_CACHED_MAX: Final = 4096


def ticket_count(partitions: int) -> int:
    """Return the number of tickets: a multiple of `partitions`, at least TICKETS_MIN."""
    return partitions * -(-TICKETS_MIN // partitions)


def all_tickets(partitions: int) -> int:
    """Return all tickets of a topic with this number of partitions."""
    return (1 << ticket_count(partitions)) - 1


@lru_cache(maxsize=_CACHED_MAX)
def tickets_of(owned: frozenset[int], partitions: int) -> int:
    """Return the tickets of the partitions that are `owned`."""
    once = sum(1 << index for index in owned if index < partitions)
    rounds = ticket_count(partitions) // partitions
    return sum(once << each * partitions for each in range(rounds))


def lowest(tickets: int, count: int) -> int:
    """Return the first `count` of `tickets`; all of them if there are fewer."""
    if count >= tickets.bit_count():
        return tickets
    taken = 0
    for _ in range(count):
        ticket = tickets & -tickets
        taken |= ticket
        tickets ^= ticket
    return taken


def union(sets: Iterable[int]) -> int:
    """Return all tickets that are in at least one of these sets."""
    return reduce(or_, sets, 0)
