"""Where the messages are that a ledger entry misses.

Commits count messages, and do not say which: of a partition it is known how many that passed were
never counted, and among which offsets these are, but not (unless all are missing) which of them.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import islice
from typing import Final, NamedTuple

from app.domain.insight.ledger import Book, Doubt, LedgerRequest, PartitionSums, books_of, left_of

# Of an entry. What a subscription passed between two looks is one range, or a few.
RANGES_MAX: Final = 100
# Of a subscription that was moved, what was never counted was never to be sent.
_EXPLAINED: Final = frozenset({Doubt.MOVED, Doubt.BEGUN_ANEW})


class Among(NamedTuple):
    """Offsets of a partition, from `start` to before `end`, among which some are missing."""

    partition: int
    start: int
    end: int


class Shortfall(NamedTuple):
    """How many messages the last entry of a ledger misses, and of which time it is."""

    number: int
    missing: int
    since: datetime
    until: datetime


def missing_among(request: LedgerRequest, parts: Iterable[PartitionSums]) -> Sequence[Among]:
    """All that passed in partitions that miss some; RANGES_MAX and one more at most."""
    short = {each.partition for each in parts if each.sums.missing > 0}
    found = (
        Among(book.closing.partition, *each)
        for book in books_of(request)
        if book.closing.partition in short
        for each in _passed(book)
    )
    return list(islice(found, RANGES_MAX + 1))


def alarming(parts: Iterable[PartitionSums]) -> int:
    """How many are missing, and nobody has moved the subscription past them."""
    return sum(
        each.sums.missing
        for each in parts
        if each.sums.missing > 0 and not each.doubts & _EXPLAINED
    )


def _passed(book: Book) -> Iterable[tuple[int, int]]:
    opening, unfinished = book.opening, book.unfinished()
    for low, high in left_of(opening.offset, book.closing.end, opening.finished):
        yield from left_of(low, high, unfinished)
