"""How much of a subscription's rate a worker needs, keeps, requests and gives (pure)."""

from collections.abc import Mapping
from math import ceil
from typing import Final, NamedTuple

from workers.delivery.share import Demand
from workers.delivery.tickets import ticket_count

# A worker that uses so much of its part is held back by it, and not by its subscriber.
BUSY: Final = 0.9
# Parts so small, in requests a second, are seldom used evenly: what waits is the better measure.
COARSE: Final = 5.0
# What waits is to be sent within so many seconds.
HORIZON_S: Final = 2.0
# Over what is used, so that it can grow: where nothing waits, and where it does, but is not held
# back by the rate.
HEADROOM: Final = 1.25
HEADROOM_RISING: Final = 2.0
# An owner of so many requests a second keeps some at once for what may come.
KEEPS_FROM: Final = 20.0
KEPT: Final = 0.03


def needed(demand: Demand) -> float:
    """The rate that would do, in requests per second."""
    if not demand.waiting:
        return demand.used * HEADROOM
    if demand.part < COARSE or demand.used >= BUSY * int(demand.part):
        return demand.used * HEADROOM + demand.waiting / HORIZON_S
    return demand.used * HEADROOM_RISING


class TicketBudget(NamedTuple):
    """The `owned` tickets of a subscription with a `limit`, as a number, and its partitions."""

    limit: float
    partitions: int
    owned: int

    def tickets(self, rate: float) -> int:
        """As many as are needed for `rate`, of all there are."""
        count = ticket_count(self.partitions)
        return min(count, ceil(rate * count / self.limit))


def reserved(ticket_budget: TicketBudget, need: float) -> int:
    """How many of the owned tickets are not lent.

    Those that are needed. A worker that owns a lot keeps some in any case; another keeps none,
    since a request a second would be much of what it could lend, and takes them back when it needs
    them.
    """
    owned_rate = ticket_budget.owned * ticket_budget.limit / ticket_count(ticket_budget.partitions)
    kept = max(need, KEPT * owned_rate, 1.0) if owned_rate >= KEEPS_FROM else need
    tickets = ticket_budget.tickets(kept)
    if tickets and ticket_budget.limit >= ticket_budget.partitions:
        tickets = max(tickets, ticket_budget.tickets(1.0))  # less would be no rate at all
    return min(tickets, ticket_budget.owned)


def tickets_to_borrow(ticket_budget: TicketBudget, need: float) -> int:
    """How many tickets are needed beyond those that are owned."""
    return max(0, ticket_budget.tickets(need) - ticket_budget.owned)


def water_filled(available: int, wants: Mapping[str, int]) -> dict[str, int]:
    """What each gets of `available`: all it wants, or as much as any other that wants more."""
    given: dict[str, int] = {}
    for left, name in enumerate(sorted(wants, key=lambda name: (wants[name], name)), -len(wants)):
        given[name] = min(wants[name], available // -left)
        available -= given[name]
    return given
