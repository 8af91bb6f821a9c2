"""The notes by which workers lend each other parts of a subscription's rate."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Loan(NamedTuple):
    """A lender's answer to a borrower's request `number`: the tickets that it lends.

    The tickets are lent for some seconds. A set of tickets is an integer with one bit for each
    ticket. `outstanding` are all tickets that the borrower may be using, or was using less than a
    second ago, because of this answer and earlier ones.
    """

    number: int
    tickets: int
    outstanding: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RateNote:
    """The last note of one worker about one subscription's rate.

    `number` counts the worker's notes. `wanted` is how many tickets the worker would borrow. `lent`
    has the worker's answers by borrower. `followed` has the number of the last answer that the
    worker follows, by lender. Tickets are for a topic with this number of `partitions`; with
    another number they cannot be compared.
    """

    subscription_id: str
    worker_id: str
    partitions: int
    number: int
    wanted: int = 0
    lent: Mapping[str, Loan] = field(default_factory=dict)
    followed: Mapping[str, int] = field(default_factory=dict)
