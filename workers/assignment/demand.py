"""Decides how much of a subscription's rate a worker needs, keeps, requests and lends (pure)."""

from collections.abc import Mapping
from math import ceil
from typing import Final, NamedTuple

from workers.delivery.share import Demand
from workers.delivery.tickets import ticket_count

# If a worker uses at least this share of its part of the rate, it is limited by the part, and not
# by its subscriber.
BUSY: Final = 0.9
# A part below this many requests per second is used unevenly. Then the number of waiting messages
# is a better measure of the need.
COARSE: Final = 5.0
# The number of seconds within which waiting messages should be sent.
HORIZON_S: Final = 2.0
# The factor by which the need exceeds the used rate if no messages wait, so that the rate can grow.
HEADROOM: Final = 1.25
# The factor by which the need exceeds the used rate if messages wait, although the worker does not
# use up its part of the rate.
HEADROOM_RISING: Final = 2.0
# With at least this rate, an owner always keeps some tickets for sudden traffic.
KEEPS_FROM: Final = 20.0
# The share of its tickets that such an owner keeps.
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
    because one request per second would be a large part of them. Such a worker takes tickets back
    when it needs them.
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

    Each name gets what it wants. If there is too little, those that want much get equal parts.
    """
    given: dict[str, int] = {}
    for left, name in enumerate(sorted(wants, key=lambda name: (wants[name], name)), -len(wants)):
        given[name] = min(wants[name], available // -left)
        available -= given[name]
    return given
