"""Finds the ranges of offsets in which the missing messages of a ledger entry are.

A commit has counts of messages, not their offsets. So for each partition the ledger knows how many
passed messages are missing, and in which range they are. The exact offsets are known only if all
messages of the range are missing.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import islice
from typing import Final, NamedTuple

from app.domain.insight.ledger import Book, Doubt, LedgerRequest, PartitionSums, books_of, left_of

# The maximum number of ranges in a ledger entry. Usually one range, or a few ranges, contain all
# messages that were passed between two snapshots.
RANGES_MAX: Final = 100
# The doubts that explain why messages are missing. For example, if a seek moved a subscription, the
# subscription skipped messages on purpose.
_EXPLAINED: Final = frozenset({Doubt.MOVED, Doubt.BEGUN_ANEW})


class Among(NamedTuple):
    """A range of a partition, from `start` to before `end`, that contains missing messages."""

    partition: int
    start: int
    end: int


class Shortfall(NamedTuple):
    """How many messages are missing in the last entry of a ledger.

    `number` is the number of the entry, which is about the time from `since` to before `until`.
    """

    number: int
    missing: int
    since: datetime
    until: datetime


def missing_among(request: LedgerRequest, parts: Iterable[PartitionSums]) -> Sequence[Among]:
    """Return the ranges of finished offsets in which messages are missing.

    The result has at most RANGES_MAX + 1 ranges; further ranges are left out. If it has more than
    RANGES_MAX ranges, readers of the entry see that it does not list all.
    """
    short = {each.partition for each in parts if each.sums.missing > 0}
    found = (
        Among(book.closing.partition, *each)
        for book in books_of(request)
        if book.closing.partition in short
        for each in _passed(book)
    )
    return list(islice(found, RANGES_MAX + 1))


def alarming(parts: Iterable[PartitionSums]) -> int:
    """Return how many messages are missing for an unknown reason, so that an alert is needed."""
    return sum(
        each.sums.missing
        for each in parts
        if each.sums.missing > 0 and not each.doubts & _EXPLAINED
    )


def _passed(book: Book) -> Iterable[tuple[int, int]]:
    opening, unfinished = book.opening, book.unfinished()
    for low, high in left_of(opening.offset, book.closing.end, opening.finished):
        yield from left_of(low, high, unfinished)
