"""Decides how much of a subscription's rate a worker needs, keeps, requests and lends (pure)."""

from collections.abc import Mapping
from math import ceil
from typing import Final, NamedTuple

from workers.delivery.share import Demand
from workers.delivery.tickets import ticket_count

# If a worker uses at least this part (from 0 to 1) of its share, the share limits the worker.
# Otherwise the subscriber limits it.
BUSY: Final = 0.9
# The smallest share, in requests per second, for which the used rate measures the need well. For a
# smaller share, the used rate changes too much from second to second. Then the number of waiting
# messages is a better measure.
COARSE: Final = 5.0
# The number of seconds within which waiting messages should be sent.
HORIZON_S: Final = 2.0
# If no messages wait, the need is the used rate times this factor, so that the rate can grow.
HEADROOM: Final = 1.25
# If messages wait although the worker does not use up its share, the need is the used rate times
# this factor.
HEADROOM_RISING: Final = 2.0
# A worker that owns tickets for at least this many requests per second always keeps some of them,
# because its traffic may grow suddenly.
KEEPS_FROM: Final = 20.0
# The part of its tickets (from 0 to 1) that a worker always keeps, if it owns tickets for at least
# KEEPS_FROM requests per second.
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
        """Return the number of tickets that `rate` needs, but not more than all tickets."""
        count = ticket_count(self.partitions)
        return min(count, ceil(rate * count / self.limit))


def reserved(ticket_budget: TicketBudget, need: float) -> int:
    """Return how many of its own tickets a worker keeps for its needs. It may lend the others.

    A worker that owns many tickets always keeps some. A worker that owns few tickets may lend all
    of them, and takes some back when it needs them. For such a worker, one request per second would
    be a large part of its tickets, so it does not always keep this part.
    """
    owned_rate = ticket_budget.owned * ticket_budget.limit / ticket_count(ticket_budget.partitions)
    kept = max(need, KEPT * owned_rate, 1.0) if owned_rate >= KEEPS_FROM else need
    tickets = ticket_budget.tickets(kept)
    if tickets and ticket_budget.limit >= ticket_budget.partitions:
        # Keep enough tickets for one request per second. With fewer tickets, the worker could not
        # send at all.
        tickets = max(tickets, ticket_budget.tickets(1.0))
    return min(tickets, ticket_budget.owned)


def tickets_to_borrow(ticket_budget: TicketBudget, need: float) -> int:
    """Return how many tickets the worker needs in addition to those that it owns."""
    return max(0, ticket_budget.tickets(need) - ticket_budget.owned)


def water_filled(available: int, wants: Mapping[str, int]) -> dict[str, int]:
    """Divide the number `available` fairly. Return the part of each name in `wants`.

    Each name gets what it wants. If `available` is too small, the names that want most get equal
    parts.
    """
    given: dict[str, int] = {}
    for left, name in enumerate(sorted(wants, key=lambda name: (wants[name], name)), -len(wants)):
        given[name] = min(wants[name], available // -left)
        available -= given[name]
    return given
