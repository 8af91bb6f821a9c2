"""Reads messages as data frames: records of the log by offsets, discards, and finished messages.

Spark's own connector reads records from Kafka. `spark.rows` reads tables of the database.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own documents use this name

from app.domain.message import HEADER_CONTENT_TYPE, HEADER_ID, HEADER_PROPAGATED_PREFIX
from app.domain.replay.retransmission import OffsetSpan
from app.log.bulk import topic_rows
from app.log.factory import LogLocation
from app.storage.spark.resent_rows import resent_positions
from app.storage.spark.retransmission_rows import (
    Discards,
    discard_ranges,
    discards,
    finished_positions,
    hours,
)
from spark.kafka_options import kafka_options
from spark.rows import KindsSource, Part, RowsReader, rows_of
from spark.schemas import MESSAGES, POSITIONS, RESENT

# The number of offsets that one task reads. Several tasks read a longer partition.
SPAN_MAX: Final = 100_000
# The maximum number of parts into which one partition is divided, so that several tasks read it.
SPANS_MAX: Final = 512
_CONTENT_TYPE: Final = "content-type"


def messages(
    session: SparkSession, database_url: str, *, log: LogLocation, spans: Sequence[OffsetSpan]
) -> DataFrame:
    """Return the records of one topic in these ranges of offsets (columns `MESSAGES`)."""
    spans = [span for span in spans if span.start < span.end]
    if not spans:
        return session.createDataFrame([], MESSAGES)
    if log.kafka_bootstrap is None:
        split = [part for span in spans for part in parts_of(span)]
        ranges = [[each.partition, each.start, each.end] for each in split]
        given = {"topic": log.namespace + spans[0].topic, "spans": ranges}
        return rows_of(session, RowsSource, database_url, kind="messages", given=given)
    return _from_kafka(session, log, spans)


def parts_of(span: OffsetSpan) -> Sequence[OffsetSpan]:
    """Divide a range of offsets into parts of SPAN_MAX offsets.

    If there would be more than SPANS_MAX parts, divide the range into SPANS_MAX larger parts.
    """
    size = max(SPAN_MAX, -(-(span.end - span.start) // SPANS_MAX))
    return [
        OffsetSpan(
            topic=span.topic,
            partition=span.partition,
            start=start,
            end=min(start + size, span.end),
        )
        for start in range(span.start, span.end, size)
    ]


def unsent_discards(session: SparkSession, database_url: str, wanted: Discards) -> DataFrame:
    """Return the discards of `wanted` whose message was not sent again (columns `MESSAGES`)."""
    given = {
        "subscription_id": wanted.subscription_id,
        "since": wanted.since.isoformat(),
        "until": wanted.until.isoformat(),
        "statuses": list(wanted.statuses),
        "reason": wanted.reason,
    }
    return rows_of(session, RowsSource, database_url, kind="discards", given=given)


def finished(
    session: SparkSession, database_url: str, *, subscription_id: str, since: datetime
) -> DataFrame:
    """Return the positions (columns `POSITIONS`) of messages that a subscription has finished.

    The result has the messages whose traces say that they were finished after the time `since`, and
    all discarded messages.
    """
    given = {
        "subscription_id": subscription_id,
        "since": since.isoformat(),
        "until": datetime.now(UTC).isoformat(),
    }
    return rows_of(session, RowsSource, database_url, kind="finished", given=given)


def resent(session: SparkSession, database_url: str, retransmissions: Sequence[str]) -> DataFrame:
    """Return messages that these retransmissions have sent or are sending (columns `RESENT`)."""
    given = {"retransmissions": list(retransmissions)}
    return rows_of(session, RowsSource, database_url, kind="resent", given=given)


def _from_kafka(session: SparkSession, log: LogLocation, spans: Sequence[OffsetSpan]) -> DataFrame:
    return kafka_records(session, log, spans).select(
        "partition",
        "offset",
        F.unix_millis("timestamp").alias("timestamp_ms"),
        "key",
        "value",
        "headers",
        F.lit(None).cast("bigint").alias("undelivered"),
    )


def kafka_records(
    session: SparkSession, log: LogLocation, spans: Sequence[OffsetSpan]
) -> DataFrame:
    """Return the records in these ranges of offsets, with the columns of Spark's connector.

    The ranges may be of several topics. The names of topics in the result include the namespace.
    """
    starts, ends = defaultdict[str, dict[str, int]](dict), defaultdict[str, dict[str, int]](dict)
    for span in spans:
        starts[log.namespace + span.topic][str(span.partition)] = span.start
        ends[log.namespace + span.topic][str(span.partition)] = span.end
    assigned = {topic: [int(index) for index in each] for topic, each in starts.items()}
    options = {
        **kafka_options(log.kafka_security),
        "kafka.client.rack": log.kafka_rack,
        "kafka.bootstrap.servers": log.kafka_bootstrap or "",
        "kafka.isolation.level": "read_committed"
        if log.kafka_committed_only
        else "read_uncommitted",
        "assign": json.dumps(assigned),
        "startingOffsets": json.dumps(starts),
        "endingOffsets": json.dumps(ends),
        "includeHeaders": "true",
        "minPartitions": str(min(SPANS_MAX, sum(len(parts_of(span)) for span in spans))),
        # Do not fail if messages are missing. Retention may have removed them, so they cannot be
        # sent again.
        "failOnDataLoss": "false",
    }
    return session.read.format("kafka").options(**options).load()


class _Messages(RowsReader):
    columns = MESSAGES

    def parts(self) -> list[Part]:
        return [Part(start, end, index) for index, start, end in self._given["spans"]]

    def slices(self, part: Part) -> Iterator[Iterable[Sequence[Any]]]:
        span = (part.first, part.end)
        for rows in topic_rows(self._url, self._given["topic"], part.partition, span=span):
            yield [
                (part.partition, row.offset, row.timestamp_ms, row.key, row.value,
                 [{"key": _name(name), "value": value} for name, value in row.headers], None)
                for row in rows
            ]  # fmt: skip


class _Discards(RowsReader):
    columns = MESSAGES

    def parts(self) -> list[Part]:
        return [Part(*ids) for ids in discard_ranges(self._url, self._wanted())]

    def _wanted(self) -> Discards:
        return Discards(
            subscription_id=self._given["subscription_id"],
            since=datetime.fromisoformat(self._given["since"]),
            until=datetime.fromisoformat(self._given["until"]),
            statuses=tuple(self._given["statuses"]),
            reason=self._given["reason"],
        )

    def slices(self, part: Part) -> Iterator[Iterable[Sequence[Any]]]:
        for rows in discards(self._url, (part.first, part.end), self._wanted()):
            yield [
                (partition, offset, at_ms, key, body, _headers(message_id, headers), row)
                for row, partition, offset, at_ms, message_id, key, body, headers in rows
            ]


class _Finished(RowsReader):
    columns = POSITIONS

    def parts(self) -> list[Part]:
        since, until = (datetime.fromisoformat(self._given[name]) for name in ("since", "until"))
        times = hours(since, until, at_most=SPANS_MAX)
        traced = [Part(first.isoformat(), end.isoformat()) for first, end in times]
        return [*traced, Part(None, None)]

    def slices(self, part: Part) -> Iterator[Iterable[Sequence[Any]]]:
        when = None
        if part.first is not None:
            when = (datetime.fromisoformat(part.first), datetime.fromisoformat(part.end))
        yield from finished_positions(self._url, self._given["subscription_id"], when)


class _Resent(RowsReader):
    columns = RESENT

    def parts(self) -> list[Part]:
        return [Part(each, None) for each in self._given["retransmissions"]]

    def slices(self, part: Part) -> Iterator[Iterable[Sequence[Any]]]:
        yield from resent_positions(self._url, part.first)


class RowsSource(KindsSource):
    """A Spark data source with records of the log, discards, and finished or resent messages."""

    readers: ClassVar[Mapping[str, type[RowsReader]]] = {
        "messages": _Messages,
        "discards": _Discards,
        "finished": _Finished,
        "resent": _Resent,
    }

    @classmethod
    def name(cls) -> str:
        """Return the name by which Spark finds this data source."""
        return "angelia_rows"


def _headers(message_id: str, headers: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return the headers of an undelivered message in the form that a record of the log has.

    The database stores headers in the form that HTTP requests have.
    """
    found = [(_name(HEADER_ID), message_id.encode())]
    for name, value in headers:
        is_type = name.lower() == _CONTENT_TYPE
        own = _name(HEADER_CONTENT_TYPE if is_type else HEADER_PROPAGATED_PREFIX)
        found.append((own if is_type else own + name, value.encode("latin-1", "replace")))
    return [{"key": name, "value": value} for name, value in found]


def _name(name: bytes) -> str:
    return name.decode("utf-8", "replace")
