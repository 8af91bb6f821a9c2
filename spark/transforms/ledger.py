"""Counts records of the log and discards by their outcome, for ledgers.

Each task counts its input in Arrow batches, and returns a few sums, which are added later. Nothing
is shuffled. Only discards are not summed in the tasks: they have one row for each position.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.pandas.types import to_arrow_schema

from app.domain.commit import Ranges
from app.domain.insight.ledger import Book, RecordAudience
from app.domain.message import HEADER_TARGET
from app.domain.targeted import target_of
from spark.batches import Batches, batch_of
from spark.schemas import LEDGER_COUNTS, PLACED_DISCARDS
from spark.transforms.undelivered import masked

_COUNTS: Final = to_arrow_schema(LEDGER_COUNTS, timezone="UTC")
_TARGET: Final = HEADER_TARGET.decode("ascii")

_Kind = tuple[int, bool, bool, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerAccount:
    """What a ledger counts: partitions between two snapshots, and cancelled retransmissions."""

    subscription_id: str
    books: tuple[Book, ...]
    dropped: frozenset[str] = frozenset()


def counted(messages: DataFrame, account: LedgerAccount) -> DataFrame:
    """Return counts (columns `LEDGER_COUNTS`) of the account's records (columns `MESSAGES`).

    There may be several rows of a kind, one from each task.
    """
    named = F.filter("headers", lambda header: header["key"] == _TARGET)
    record_target = F.try_element_at(named, F.lit(-1))["value"].alias("addressed")
    narrow = messages.select("partition", "offset", record_target)
    return narrow.mapInArrow(_counting(account), LEDGER_COUNTS)


def passed_discards(discards: DataFrame, account: LedgerAccount) -> DataFrame:
    """Return discards of messages that were finished between the snapshots.

    Input and result have the columns `PLACED_DISCARDS`.
    """
    return discards.mapInArrow(_keeping(account), PLACED_DISCARDS)


def discards_by_reason(discards: DataFrame) -> DataFrame:
    """Return the number of discards by partition, masked reason and status.

    The input has the columns `PLACED_DISCARDS`.
    """
    alike = ("partition", masked(F.col("reason")).alias("reason"), "status")
    return discards.groupBy(*alike).agg(F.count(F.lit(1)).alias("messages"))


class _Places(NamedTuple):
    """Three sets of offsets of one partition.

    Each set is stored as the ordered edges of its ranges.
    """

    carried: Sequence[int]
    published: Sequence[int]
    unfinished: Sequence[int]


def _places(account: LedgerAccount) -> Mapping[int, _Places]:
    return {
        book.closing.partition: _Places(
            carried=_edges(book.carried()),
            published=_edges(book.published()),
            unfinished=_edges(book.unfinished()),
        )
        for book in account.books
    }


def _edges(ranges: Ranges) -> Sequence[int]:
    return [edge for each in ranges for edge in each]


def _within(edges: Sequence[int], offset: int) -> bool:
    # Count the edges up to the offset. Their number is odd if the offset is inside a range.
    return bisect_right(edges, offset) % 2 == 1


def _counting(account: LedgerAccount) -> Callable[[Batches], Batches]:
    def count(batches: Batches) -> Batches:
        places = _places(account)
        found: Counter[_Kind] = Counter()
        first: dict[_Kind, int] = {}
        for batch in batches:
            columns = [column.to_pylist() for column in batch.columns]
            for partition, offset, record_target in zip(*columns, strict=True):
                kind = _kind(places.get(partition), partition, offset)
                if kind is not None:
                    whole = (*kind, _audience_of(record_target, account))
                    found[whole] += 1
                    first[whole] = min(offset, first.get(whole, offset))
        rows = [(*kind, messages, first[kind]) for kind, messages in found.items()]
        yield batch_of(rows, _COUNTS)

    return count


def _kind(there: _Places | None, partition: int, offset: int) -> tuple[int, bool, bool] | None:
    """Return the audience of a record, and whether the record is carried and passed.

    Return None if the record does not count. See `app.domain.insight.ledger.Counted`.
    """
    if there is None:
        return None
    carried = _within(there.carried, offset)
    if not carried and not _within(there.published, offset):
        return None
    return partition, carried, not _within(there.unfinished, offset)


def _audience_of(header: bytes | None, account: LedgerAccount) -> str:
    record_target = None if header is None else target_of(header)
    if record_target is None:
        return RecordAudience.EVERYBODY.value
    if record_target.subscription_id != account.subscription_id:
        return RecordAudience.OTHERS.value
    return (
        RecordAudience.CANCELLED
        if record_target.job_id in account.dropped
        else RecordAudience.RESENT
    ).value


def _keeping(account: LedgerAccount) -> Callable[[Batches], Batches]:
    def keep(batches: Batches) -> Batches:
        places = _places(account)
        for batch in batches:
            pairs = zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)
            kinds = [_kind(places.get(partition), partition, offset) for partition, offset in pairs]
            passed = [kind is not None and kind[2] for kind in kinds]
            yield batch.filter(pa.array(passed, type=pa.bool_()))

    return keep
