"""Decides how much of a subscription's rate a worker needs, keeps, requests and lends (pure)."""

from collections.abc import Mapping
from math import ceil
from typing import Final, NamedTuple

from workers.delivery.share import Demand
from workers.delivery.tickets import ticket_count

# If a worker uses at least this part (0 to 1) of its share, the share is what limits it, and not
# its subscriber.
BUSY: Final = 0.9
# With a share below this many requests per second, the used rate jumps from second to second. Then
# the number of waiting messages is a better measure of the need.
COARSE: Final = 5.0
# The number of seconds within which waiting messages should be sent.
HORIZON_S: Final = 2.0
# The factor by which the need exceeds the used rate if no messages wait, so that the rate can grow.
HEADROOM: Final = 1.25
# The factor by which the need exceeds the used rate if messages wait, although the worker does not
# use up its share.
HEADROOM_RISING: Final = 2.0
# A worker that owns tickets for at least this many requests per second always keeps some of them,
# because its traffic may grow suddenly.
KEEPS_FROM: Final = 20.0
# The part of its tickets (0 to 1) that a worker always keeps if they are for at least KEEPS_FROM
# requests per second.
KEPT: Final = 0.03


def needed(demand: Demand) -> float:
    """Return the rate that a consumer needs, in requests per second."""
    if not demand.waiting:
        return demand.used * HEADROOM
    if demand.part < COARSE or demand.used >= BUSY * int(demand.part):
        return demand.used * HEADROOM + demand.waiting / HORIZON_S
    return demand.used * HEADROOM_RISING


class TicketBudget(NamedTuple):
    """How much of a subscription's rate one worker owns.

    Attributes:
        limit: The hard limit of the subscription, in requests per second over all workers.
        partitions: The number of partitions of its topic.
        owned: The number of tickets that this worker owns.
    """

    limit: float
    partitions: int
    owned: int

    def tickets(self, rate: float) -> int:
        """Return the number of tickets for `rate`, at most all tickets."""
        count = ticket_count(self.partitions)
        return min(count, ceil(rate * count / self.limit))


def reserved(ticket_budget: TicketBudget, need: float) -> int:
    """Return how many of its tickets a worker keeps, because it needs them. It lends the others.

    A worker that owns many tickets always keeps some. A worker that owns few may lend all of them,
    and takes some back when it needs them. If it kept enough for one request per second, that would
    be a large part of its few tickets.
    """
    owned_rate = ticket_budget.owned * ticket_budget.limit / ticket_count(ticket_budget.partitions)
    kept = max(need, KEPT * owned_rate, 1.0) if owned_rate >= KEEPS_FROM else need
    tickets = ticket_budget.tickets(kept)
    if tickets and ticket_budget.limit >= ticket_budget.partitions:
        # Keep enough tickets for one request per second. With fewer tickets there would be no rate
        # at all.
        tickets = max(tickets, ticket_budget.tickets(1.0))
    return min(tickets, ticket_budget.owned)


def tickets_to_borrow(ticket_budget: TicketBudget, need: float) -> int:
    """Return how many tickets the worker needs in addition to those that it owns."""
    return max(0, ticket_budget.tickets(need) - ticket_budget.owned)


def water_filled(available: int, wants: Mapping[str, int]) -> dict[str, int]:
    """Divide the number `available` fairly. Return what each name gets.

    Each name gets what it wants. If there is too little, the names that want much get equal parts.
    """
    given: dict[str, int] = {}
    for left, name in enumerate(sorted(wants, key=lambda name: (wants[name], name)), -len(wants)):
        given[name] = min(wants[name], available // -left)
        available -= given[name]
    return given
