"""How much of a subscription's rate a worker needs, keeps, requests and lends (pure)."""

from collections.abc import Mapping
from math import ceil
from typing import Final, NamedTuple

from workers.delivery.share import Demand
from workers.delivery.tickets import ticket_count

# A worker that uses this share of its part is limited by the part, and not by its subscriber.
BUSY: Final = 0.9
# Parts below this many requests per second are rarely used evenly: the number of waiting messages
# is a better measure.
COARSE: Final = 5.0
# Waiting messages should be sent within this many seconds.
HORIZON_S: Final = 2.0
# Factor over the used rate, so that it can grow: if no messages wait, or if messages wait but the
# rate is not what limits them.
HEADROOM: Final = 1.25
HEADROOM_RISING: Final = 2.0
# An owner of at least this many requests per second always keeps some for sudden traffic.
KEEPS_FROM: Final = 20.0
KEPT: Final = 0.03


def needed(demand: Demand) -> float:
    """The required rate in requests per second."""
    if not demand.waiting:
        return demand.used * HEADROOM
    if demand.part < COARSE or demand.used >= BUSY * int(demand.part):
        return demand.used * HEADROOM + demand.waiting / HORIZON_S
    return demand.used * HEADROOM_RISING


class TicketBudget(NamedTuple):
    """The number of `owned` tickets of a subscription with its `limit`, and its partitions."""

    limit: float
    partitions: int
    owned: int

    def tickets(self, rate: float) -> int:
        """The number of tickets for `rate`, at most all of them."""
        count = ticket_count(self.partitions)
        return min(count, ceil(rate * count / self.limit))


def reserved(ticket_budget: TicketBudget, need: float) -> int:
    """Return how many of the owned tickets are not lent.

    These are the needed ones. A worker that owns many keeps some in any case. A worker that owns
    few keeps none, because one request per second would be a large part of what it could lend; it
    takes them back when it needs them.
    """
    owned_rate = ticket_budget.owned * ticket_budget.limit / ticket_count(ticket_budget.partitions)
    kept = max(need, KEPT * owned_rate, 1.0) if owned_rate >= KEEPS_FROM else need
    tickets = ticket_budget.tickets(kept)
    if tickets and ticket_budget.limit >= ticket_budget.partitions:
        # fewer tickets would give no rate at all
        tickets = max(tickets, ticket_budget.tickets(1.0))
    return min(tickets, ticket_budget.owned)


def tickets_to_borrow(ticket_budget: TicketBudget, need: float) -> int:
    """The number of tickets needed beyond the owned ones."""
    return max(0, ticket_budget.tickets(need) - ticket_budget.owned)


def water_filled(available: int, wants: Mapping[str, int]) -> dict[str, int]:
    """Divide `available`: each gets what it wants, or as much as any other that wants more."""
    given: dict[str, int] = {}
    for left, name in enumerate(sorted(wants, key=lambda name: (wants[name], name)), -len(wants)):
        given[name] = min(wants[name], available // -left)
        available -= given[name]
    return given
