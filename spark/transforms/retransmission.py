"""Chooses the messages that are sent again. Input columns: `spark.schemas.MESSAGES`.

The code that checks the filters is the same as in deliveries, so a message gets the same result.
Executors check rows in Arrow batches, and return only the chosen messages with few columns.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own documents use this name
from pyspark.sql.pandas.types import to_arrow_schema

from app.domain.catalogue.filters import Filter
from app.domain.catalogue.topic import Topic
from app.domain.message import Message, Partition, Record
from app.domain.replay.retransmission import RUN_MAX, SAMPLES_MAX
from app.filtering.bodies import ParsedBodies
from app.filtering.matching import FilterChain
from app.schemas.messages import reading
from spark.batches import Batches, batch_of
from spark.schemas import CHOSEN, RUNS

_CHOSEN: Final = to_arrow_schema(CHOSEN, timezone="UTC")
_RUNS: Final = to_arrow_schema(RUNS, timezone="UTC")


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageChoice:
    """Says which messages of a topic are chosen. An empty tuple means no restriction.

    Attributes:
        topic: The name of the topic.
        source: The topic as it is now. If it is given, filters use the JSON form of Avro messages.
        filters: Filters that must match.
        keys: The allowed partition keys.
        message_ids: The allowed message ids.
    """

    topic: str
    source: Topic | None = None
    filters: tuple[Filter, ...] = ()
    keys: tuple[str, ...] = ()
    message_ids: tuple[str, ...] = ()


def chosen(messages: DataFrame, choice: MessageChoice) -> DataFrame:
    """Return the messages that match the choice (columns `CHOSEN`).

    A record for only one subscription is left out, because it is a copy of an earlier message.
    """
    if choice.keys:
        keys = [F.lit(key.encode()) for key in choice.keys]
        messages = messages.where(F.col("key").isin(keys))
    return messages.mapInArrow(_choosing(choice), CHOSEN)


def each_once(discards: DataFrame) -> DataFrame:
    """Return the first discard of each message in `discards` (columns `CHOSEN`)."""
    first = discards.groupBy("partition", "offset").agg(
        F.min_by(
            F.struct("timestamp_ms", "size", "message_id", "undelivered"), "undelivered"
        ).alias("first")
    )
    return first.select("partition", "offset", "first.*")


def missing(candidates: DataFrame, finished: DataFrame) -> DataFrame:
    """Return messages of `candidates` (columns `CHOSEN`) whose positions are not in `finished`."""
    return candidates.join(finished, ["partition", "offset"], how="left_anti")


def ended(resent: DataFrame, finished: DataFrame) -> DataFrame:
    """Return messages of `resent` (columns `RESENT`) whose new positions are in `finished`."""
    return resent.join(finished, ["partition", "offset"], how="left_semi")


def sources(resent: DataFrame) -> DataFrame:
    """Return the original positions of retransmitted messages.

    The input has the columns `RESENT`, and the result has the columns `POSITIONS`.
    """
    return resent.select(
        F.col("source_partition").alias("partition"), F.col("source_offset").alias("offset")
    )


def foreseen(wanted: DataFrame) -> DataFrame:
    """Return one row that sums up the chosen messages. The messages are read only once.

    The input has the columns `CHOSEN`, and `archived`. The columns of the row are `messages`,
    `bytes`, `archived`, and `samples`, which has the SAMPLES_MAX earliest messages.
    """
    sample = F.struct("message_id", "partition", "offset", "timestamp_ms", "size")
    order = F.struct("timestamp_ms", "partition", "offset")
    return wanted.agg(
        F.count(F.lit(1)).alias("messages"),
        F.coalesce(F.sum("size"), F.lit(0)).alias("bytes"),
        F.count_if("archived").alias("archived"),
        F.min_by(sample, order, SAMPLES_MAX).alias("samples"),
    )


def runs(messages: DataFrame) -> DataFrame:
    """Return one row (columns `RUNS`) for each series of chosen messages with consecutive offsets.

    Each task combines only its own messages. If the input is sorted, the result has few rows.
    """
    return messages.mapInArrow(_joined, RUNS)


def _choosing(choice: MessageChoice) -> Callable[[Batches], Batches]:
    def choose(batches: Batches) -> Batches:
        chain = FilterChain(choice.filters, ParsedBodies())
        ids = frozenset(each.encode() for each in choice.message_ids)
        message_of = reading(choice.source) if choice.source else Message
        for batch in batches:
            found = []
            for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                message = message_of(*_record(values, choice.topic))
                found.append(_chosen_row(message, values, chain=chain, ids=ids))
            yield batch_of([row for row in found if row is not None], _CHOSEN)

    return choose


def _chosen_row(
    message: Message, values: Sequence[Any], *, chain: FilterChain, ids: frozenset[bytes]
) -> tuple[Any, ...] | None:
    index, offset, timestamp_ms, _, body, _, undelivered = values
    if message.record_target is not None or (ids and message.id not in ids):
        return None
    if not chain.wants(message):
        return None
    # Replace zero characters in the message id, because PostgreSQL cannot store them. A foreign
    # producer may have made the id.
    named = message.id.decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
    return (index, offset, timestamp_ms, len(body or b""), named, undelivered)


def _record(values: Sequence[Any], topic: str) -> tuple[Record, Partition]:
    index, offset, timestamp_ms, key, body, headers, _ = values
    pairs = [(each["key"].encode(), each["value"] or b"") for each in headers or ()]
    return Record(offset, timestamp_ms, key, body, pairs), Partition(topic, index)


def _joined(batches: Batches) -> Batches:
    open_run: tuple[Any, ...] | None = None
    for batch in batches:
        closed = []
        names = ("partition", "offset", "size", "undelivered")
        columns = [batch.column(batch.schema.get_field_index(name)).to_pylist() for name in names]
        for index, offset, size, undelivered in zip(*columns, strict=True):
            follows = (
                open_run is not None
                and undelivered is None
                and open_run[5] is None
                and (index, offset) == (open_run[0], open_run[2])
                and offset - open_run[1] < RUN_MAX
            )
            if open_run is not None and follows:
                _, start, _, count, total, _ = open_run
                open_run = (index, start, offset + 1, count + 1, total + size, None)
            else:
                if open_run is not None:
                    closed.append(open_run)
                open_run = (index, offset, offset + 1, 1, size, undelivered)
        yield batch_of(closed, _RUNS)
    if open_run is not None:
        yield batch_of([open_run], _RUNS)
