"""The notes with which workers share a subscription's rate by demand."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Loan(NamedTuple):
    """The lender's answer to a borrower's request `number`: these tickets, for some seconds.

    Sets of tickets are integers with one bit for each. `outstanding` are all that the borrower may
    be using, or used less than a second ago, by this answer and those before it.
    """

    number: int
    tickets: int
    outstanding: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RateNote:
    """The last note of one worker about one subscription's rate.

    `number` counts its notes; `wanted` is how many tickets it would borrow. `lent` has its answers
    by borrower; `followed` the number of the last answer that it follows, by lender. Tickets belong
    to a topic with this number of `partitions`: with another number they cannot be compared.
    """

    subscription_id: str
    worker_id: str
    partitions: int
    number: int
    wanted: int = 0
    lent: Mapping[str, Loan] = field(default_factory=dict)
    followed: Mapping[str, int] = field(default_factory=dict)
