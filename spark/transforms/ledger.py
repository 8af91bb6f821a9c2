"""Counts records of the log, and discards by their reason, for many ledgers at once.

Each task reads its input in Arrow batches only once, even for many subscriptions. It returns a few
sums for each subscription, and the sums of all tasks are added later. Nothing is shuffled. Only for
discards, a task returns one row for each position.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own documents use this name
from pyspark.sql.pandas.types import to_arrow_schema

from app.domain.commit import Ranges
from app.domain.insight.ledger import Book, RecordAudience, common, left_of
from app.domain.targeted import RecordTarget, target_of
from spark.batches import Batches, batch_of
from spark.schemas import LEDGER_COUNTS, PLACED_DISCARDS
from spark.transforms.undelivered import masked

_COUNTS: Final = to_arrow_schema(LEDGER_COUNTS, timezone="UTC")
_EVER: Final = 2**63 - 1

Offsets = NDArray[np.int64]
# A partition: the name of its topic, or the id of a subscription, and the index of the partition.
_NamedPartition = tuple[str, int]
_Row = tuple[str, int, bool, bool, str, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerAccount:
    """What is counted for one ledger entry of a subscription.

    Attributes:
        topic: The topic of the subscription.
        subscription_id: The id of the subscription.
        books: The partitions, each with its opening and its closing.
        dropped: The ids of cancelled retransmissions.
        starts: By partition, the first offset that is counted. A partition that is not in the
            mapping is counted from its beginning.
    """

    topic: str
    subscription_id: str
    books: tuple[Book, ...]
    dropped: frozenset[str] = frozenset()
    starts: Mapping[int, int] = field(default_factory=dict, hash=False)


def counted(records: DataFrame, accounts: Sequence[LedgerAccount]) -> DataFrame:
    """Return counts (columns `LEDGER_COUNTS`) of the records (columns `LEDGER_RECORDS`).

    Several tasks may return rows about the same subscription, partition and kind of record.
    """
    return records.mapInArrow(_counting(_shares(accounts)), LEDGER_COUNTS)


def passed_discards(discards: DataFrame, accounts: Sequence[LedgerAccount]) -> DataFrame:
    """Return the discards of messages that were finished between the two snapshots.

    The input and the result have the columns `PLACED_DISCARDS`.
    """
    return discards.mapInArrow(_keeping(_passed(accounts)), PLACED_DISCARDS)


def discards_by_reason(discards: DataFrame) -> DataFrame:
    """Return the number of discards by subscription, partition, masked reason and status.

    The input has the columns `PLACED_DISCARDS`.
    """
    reason = masked(F.col("reason")).alias("reason")
    alike = ("subscription_id", "partition", reason, "status")
    return discards.groupBy(*alike).agg(F.count(F.lit(1)).alias("messages"))


class _Region(NamedTuple):
    """Ranges of offsets whose records are counted alike.

    Attributes:
        carried: Whether the records count as carried (see `Counted`).
        passed: Whether the records count as passed (see `Counted`).
        edges: The start and the end of each range, in ascending order.
    """

    carried: bool
    passed: bool
    edges: Offsets


class _Share(NamedTuple):
    """What is counted for one ledger entry in one partition."""

    account: LedgerAccount
    regions: Sequence[_Region]


def _shares(accounts: Iterable[LedgerAccount]) -> Mapping[_NamedPartition, Sequence[_Share]]:
    """Return, by topic and partition, what the ledger entries count in the partition."""
    found: dict[_NamedPartition, list[_Share]] = defaultdict(list)
    for account in accounts:
        for book in account.books:
            index = book.closing.partition
            regions = _regions(book, account.starts.get(index, 0))
            found[account.topic, index].append(_Share(account, regions))
    return dict(found)


def _regions(book: Book, start: int) -> Sequence[_Region]:
    unfinished = book.unfinished()
    there = ((start, _EVER),)
    return [
        _Region(carried, passed, _edges(part))
        for carried, ranges in ((True, book.carried()), (False, book.published()))
        for found in [common(ranges, there)]
        for passed, part in (
            (False, common(found, unfinished)),
            (True, _without(found, unfinished)),
        )
        if part
    ]


def _without(ranges: Ranges, others: Ranges) -> Ranges:
    return tuple(each for low, high in ranges for each in left_of(low, high, others))


def _edges(ranges: Ranges) -> Offsets:
    return np.array([edge for each in ranges for edge in each], dtype=np.int64)


def _counting(shares: Mapping[_NamedPartition, Sequence[_Share]]) -> Callable[[Batches], Batches]:
    def count(batches: Batches) -> Batches:
        found: dict[_NamedPartition, _Records] = defaultdict(_Records)
        for batch in batches:
            for partition, start, end in _stretches(batch):
                found[partition].add(batch.slice(start, end - start))
        rows = (
            row
            for partition, records in found.items()
            for row in _rows(records.sorted(), shares.get(partition, ()), partition[1])
        )
        yield batch_of(rows, _COUNTS)

    return count


def _stretches(batch: pa.RecordBatch) -> Iterator[tuple[_NamedPartition, int, int]]:
    """Divide an Arrow batch into parts whose rows have the same values in the first two columns.

    For each part, yield the two values, the number of the first row, and the number of the row
    after the part.
    """
    if not batch.num_rows:
        return
    names = batch.column(0).dictionary_encode()
    codes, indexes = _numbers(names.indices), _numbers(batch.column(1))
    differ = (np.diff(codes) != 0) | (np.diff(indexes) != 0)
    edges = [0, *(np.flatnonzero(differ) + 1).tolist(), batch.num_rows]
    for start, end in pairwise(edges):
        name = names.dictionary[int(codes[start])].as_py()
        yield (name, int(indexes[start])), start, end


def _numbers(column: Any) -> NDArray[Any]:  # noqa: ANN401 - the type of an Arrow array
    found: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return found


class _Found(NamedTuple):
    """The offsets of a partition's records that a task has read. They are in ascending order.

    Attributes:
        free: The offsets of records for all subscriptions.
        targeted: The offsets of records that are for only one subscription.
        targets: For each targeted record, in the same order, its subscription and retransmission.
    """

    free: Offsets
    targeted: Offsets
    targets: Sequence[RecordTarget]


class _Records:
    """Collects the records of one partition that a task reads."""

    def __init__(self) -> None:
        self._free: list[Offsets] = []
        self._targeted: list[tuple[int, RecordTarget]] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Add records (columns `LEDGER_RECORDS`)."""
        offsets, targets = _numbers(batch.column(2)), batch.column(3)
        is_free = np.ones(len(offsets), dtype=bool)
        if targets.null_count < len(targets):
            for at in np.flatnonzero(_numbers(targets.is_valid())).tolist():
                target = target_of(targets[at].as_py())
                if target is not None:
                    self._targeted.append((int(offsets[at]), target))
                    is_free[at] = False
        self._free.append(offsets[is_free])

    def sorted(self) -> _Found:
        """Return the offsets of all added records in ascending order."""
        targeted = sorted(self._targeted)
        return _Found(
            np.sort(np.concatenate(self._free)),
            np.array([offset for offset, _ in targeted], dtype=np.int64),
            [target for _, target in targeted],
        )


def _rows(found: _Found, shares: Iterable[_Share], partition: int) -> Iterator[_Row]:
    owned: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for offset, target in zip(found.targeted.tolist(), found.targets, strict=True):
        owned[target.subscription_id].append((offset, target.job_id))
    for account, regions in shares:
        audiences = _audiences(found, account, owned.get(account.subscription_id, ()))
        for audience, offsets in audiences:
            for region in regions:
                messages, first = _within(offsets, region.edges)
                if messages:
                    kind = (region.carried, region.passed, audience.value)
                    yield account.subscription_id, partition, *kind, messages, first


def _audiences(
    found: _Found, account: LedgerAccount, own: Sequence[tuple[int, str]]
) -> Iterator[tuple[RecordAudience, Offsets]]:
    yield RecordAudience.EVERYBODY, found.free
    if not len(found.targeted):
        return
    resent = [offset for offset, job_id in own if job_id not in account.dropped]
    cancelled = [offset for offset, job_id in own if job_id in account.dropped]
    yield RecordAudience.RESENT, np.array(resent, dtype=np.int64)
    yield RecordAudience.CANCELLED, np.array(cancelled, dtype=np.int64)
    # A subscription without targeted records of its own gets the list of all targeted records
    # unchanged. Only a few subscriptions have targeted records.
    others = found.targeted
    if own:
        others = np.setdiff1d(others, [offset for offset, _ in own], assume_unique=True)
    yield RecordAudience.OTHERS, others


def _within(offsets: Offsets, edges: Offsets) -> tuple[int, int]:
    """Return how many of the sorted `offsets` are in some ranges, and the lowest of these offsets.

    `edges` has the start and the end of each range, in ascending order.
    """
    at = np.searchsorted(offsets, edges)
    counts = at[1::2] - at[0::2]
    total = int(counts.sum())
    if not total:
        return 0, 0
    return total, int(offsets[at[0::2][np.argmax(counts > 0)]])


def _passed(accounts: Iterable[LedgerAccount]) -> Mapping[_NamedPartition, Offsets]:
    """Return, by subscription and partition, the offsets that were finished between two snapshots.

    Each value has the start and the end of each range of offsets, in ascending order.
    """
    return {
        (account.subscription_id, book.closing.partition): _edges(
            _without((*book.carried(), *book.published()), book.unfinished())
        )
        for account in accounts
        for book in account.books
    }


def _keeping(passed: Mapping[_NamedPartition, Offsets]) -> Callable[[Batches], Batches]:
    def keep(batches: Batches) -> Batches:
        nothing = np.array([], dtype=np.int64)
        for batch in batches:
            offsets = _numbers(batch.column(2))
            is_passed = np.zeros(len(offsets), dtype=bool)
            for partition, start, end in _stretches(batch):
                edges = passed.get(partition, nothing)
                # Count the starts and ends of ranges up to the offset. If their number is odd, the
                # offset is inside a range.
                below = np.searchsorted(edges, offsets[start:end], side="right")
                is_passed[start:end] = below % 2 == 1
            yield batch.filter(pa.array(is_passed))

    return keep
