"""Reads the records that ledgers count, of many topics and subscriptions at once.

Only the position of a record and its target are read, not its body. Few records have a target
(`app.domain.targeted`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own documents use this name

from app.domain.message import HEADER_TARGET
from app.domain.replay.retransmission import OffsetSpan
from app.log.bulk import header_rows
from app.log.factory import LogLocation
from app.storage.spark.ledger_rows import OwnSpan, discarded_positions
from spark.records import SPAN_MAX, kafka_records, parts_of
from spark.rows import KindsSource, Part, RowsReader, rows_of
from spark.schemas import LEDGER_RECORDS, PLACED_DISCARDS

# The maximum number of small ranges of offsets that one task reads.
RANGES_MAX: Final = 256
# The maximum number of offsets in a small range. A larger range is read by tasks of its own.
_SMALL: Final = SPAN_MAX // 10
# The number of tasks that read discards. A few are enough, because there are few discards.
_DISCARD_TASKS: Final = 16
_TARGET: Final = HEADER_TARGET.decode("ascii")


def ledger_records(
    session: SparkSession, database_url: str, *, log: LogLocation, spans: Sequence[OffsetSpan]
) -> DataFrame:
    """Return the records in these ranges of offsets, of any topics (columns `LEDGER_RECORDS`)."""
    spans = [span for span in spans if span.start < span.end]
    if not spans:
        return session.createDataFrame([], LEDGER_RECORDS)
    if log.kafka_bootstrap is not None:
        return _from_kafka(session, log, spans)
    split = [part for span in spans for part in parts_of(span)]
    ranges = [[each.topic, each.partition, each.start, each.end] for each in split]
    given = {"namespace": log.namespace, "ranges": ranges}
    return rows_of(session, LedgerSource, database_url, kind="records", given=given)


def of_messages(messages: DataFrame, topic: str) -> DataFrame:
    """Return `messages` of `topic` (columns `MESSAGES`) with the columns `LEDGER_RECORDS`."""
    return messages.select(F.lit(topic).alias("topic"), "partition", "offset", _target())


def discarded(session: SparkSession, database_url: str, spans: Sequence[OwnSpan]) -> DataFrame:
    """Return the last discard at each position in these ranges (columns `PLACED_DISCARDS`).

    Each range of offsets is for one subscription, in one partition of the subscription's topic.
    """
    spans = [span for span in spans if span.start < span.end]
    if not spans:
        return session.createDataFrame([], PLACED_DISCARDS)
    given = {"spans": [list(each) for each in spans]}
    return rows_of(session, LedgerSource, database_url, kind="discarded", given=given)


def _from_kafka(session: SparkSession, log: LogLocation, spans: Sequence[OffsetSpan]) -> DataFrame:
    large = [span for span in spans if span.end - span.start > _SMALL]
    small = [span for span in spans if span.end - span.start <= _SMALL]
    read = [kafka_records(session, log, large)] if large else []
    if small:
        # Let one task read many small partitions of Kafka. By default, Spark makes a task for each
        # partition.
        read.append(kafka_records(session, log, small).coalesce(len(_packed(small))))
    found = read[0] if len(read) == 1 else read[0].unionByName(read[1])
    name = F.substring("topic", len(log.namespace) + 1, 1_000).alias("topic")
    return found.select(name, "partition", "offset", _target())


def _target() -> Any:  # noqa: ANN401 - the type of a Spark column
    """Return an expression: the value of the record's last target header; null if it has none."""
    named = F.filter("headers", lambda header: header["key"] == _TARGET)
    return F.try_element_at(named, F.lit(-1))["value"].alias("target")


def _packed(spans: Iterable[OffsetSpan]) -> Sequence[Sequence[OffsetSpan]]:
    """Divide the ranges of offsets into groups. One task reads the ranges of one group."""
    groups: list[list[OffsetSpan]] = []
    room = 0
    for span in spans:
        size = span.end - span.start
        if not groups or size > room or len(groups[-1]) >= RANGES_MAX:
            groups.append([])
            room = SPAN_MAX
        groups[-1].append(span)
        room -= size
    return groups


class _Records(RowsReader):
    columns = LEDGER_RECORDS

    def parts(self) -> list[Part]:
        spans = [
            OffsetSpan(topic=topic, partition=index, start=start, end=end)
            for topic, index, start, end in self._given["ranges"]
        ]
        return [Part(ranges=tuple(group)) for group in _packed(spans)]

    def slices(self, part: Part) -> Iterator[Iterable[Sequence[Any]]]:
        for span, rows in header_rows(
            self._url, part.ranges, namespace=self._given["namespace"], header=HEADER_TARGET
        ):
            yield [(span.topic, span.partition, offset, target) for offset, target in rows]


class _Discarded(RowsReader):
    columns = PLACED_DISCARDS

    def parts(self) -> list[Part]:
        spans = [OwnSpan(*each) for each in self._given["spans"]]
        size = max(1, min(RANGES_MAX, -(-len(spans) // _DISCARD_TASKS)))
        starts = range(0, len(spans), size)
        return [Part(ranges=tuple(spans[start : start + size])) for start in starts]

    def slices(self, part: Part) -> Iterator[Iterable[Sequence[Any]]]:
        yield from discarded_positions(self._url, part.ranges)


class LedgerSource(KindsSource):
    """A Spark data source with the positions of records and of discards."""

    readers: ClassVar[Mapping[str, type[RowsReader]]] = {
        "records": _Records,
        "discarded": _Discarded,
    }

    @classmethod
    def name(cls) -> str:
        """Return the name by which Spark finds this data source."""
        return "angelia_ledger"
