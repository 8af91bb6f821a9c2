"""The notes by which workers lend each other parts of a subscription's rate."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Loan(NamedTuple):
    """A lender's answer to a borrower's request: which tickets it lends, for some seconds.

    `tickets` and `outstanding` are sets of tickets. A set is an integer with one bit for each
    ticket.

    Attributes:
        number: The number of the note with the request.
        tickets: The tickets that the lender lends.
        outstanding: All lent tickets that the borrower may be using, or was using less than a
            second ago, because of this answer or earlier answers of the lender.
    """

    number: int
    tickets: int
    outstanding: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RateNote:
    """The last note of one worker about one subscription's rate.

    Attributes:
        subscription_id: The subscription.
        worker_id: The worker.
        partitions: The number of partitions of the topic. The tickets of two notes can be compared
            only if this number is the same.
        number: The number of the note. A later note of the worker has a higher number.
        wanted: How many tickets the worker requests to borrow.
        lent: For each borrower, the worker's answer to the last request of this borrower.
        followed: For each lender, the number of the lender's last answer that the worker has read.
    """

    subscription_id: str
    worker_id: str
    partitions: int
    number: int
    wanted: int = 0
    lent: Mapping[str, Loan] = field(default_factory=dict)
    followed: Mapping[str, int] = field(default_factory=dict)
