"""What is sent again, on small frames."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own documents use this name
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from app.domain.catalogue.filters import Filter, FilterType
from app.domain.catalogue.schema import ContentType
from app.domain.catalogue.topic import Topic
from app.domain.replay.retransmission import RUN_MAX, SAMPLES_MAX
from app.schemas.versions import first_schema
from spark.schemas import CHOSEN, MESSAGES, POSITIONS
from spark.transforms.retransmission import (
    MessageChoice,
    chosen,
    each_once,
    foreseen,
    missing,
    runs,
)
from spark.transforms.simulation import JudgedMessages, arrivals, by_second
from tests.spark.discards import rows_of

# The first test starts Spark, on a machine that may be busy.
pytestmark = pytest.mark.timeout(400)

ALL = MessageChoice(topic="shop.orders")


def frame(spark: SparkSession, rows: Sequence[dict[str, Any]], columns: StructType) -> DataFrame:
    table = pa.Table.from_pylist(list(rows), schema=to_arrow_schema(columns, timezone="UTC"))
    return spark.createDataFrame(table, columns)


def a_message(offset: int, **columns: Any) -> dict[str, Any]:  # noqa: ANN401 - any column
    return {
        "partition": 0,
        "offset": offset,
        "timestamp_ms": 1_000 + offset,
        "key": None,
        "value": b'{"n": 1}',
        "headers": [{"key": "id", "value": b"m-%d" % offset}],
        "undelivered": None,
    } | columns


def a_choice(offset: int, **columns: Any) -> dict[str, Any]:  # noqa: ANN401 - any column
    return {
        "partition": 0,
        "offset": offset,
        "timestamp_ms": 1_000,
        "size": 10,
        "message_id": "m",
        "undelivered": None,
    } | columns


def places(*offsets: int, partition: int = 0) -> list[dict[str, int]]:
    return [{"partition": partition, "offset": offset} for offset in offsets]


def test_a_dry_run_has_sums_and_the_earliest_messages_of_all_tasks(spark: SparkSession) -> None:
    rows = [
        a_choice(n, timestamp_ms=2_000 - n % 7, message_id=f"m-{n}") for n in range(3 * SAMPLES_MAX)
    ]
    wanted = frame(spark, rows, CHOSEN).repartition(3).withColumn("archived", F.expr("offset < 5"))
    [found] = foreseen(wanted).collect()
    assert (found.messages, found.bytes, found.archived) == (len(rows), 10 * len(rows), 5)
    earliest = sorted(rows, key=lambda row: (row["timestamp_ms"], row["offset"]))[:SAMPLES_MAX]
    assert [each.offset for each in found.samples] == [row["offset"] for row in earliest]
    [nothing] = foreseen(wanted.limit(0)).collect()
    assert (nothing.messages, nothing.bytes, nothing.archived) == (0, 0, 0)
    assert not nothing.samples


def test_a_message_is_chosen_with_its_id_and_its_size_whatever_it_lacks(
    spark: SparkSession,
) -> None:
    messages = [
        a_message(1),
        a_message(2, value=None, headers=None),
        a_message(3, value=b"", headers=[{"key": "id", "value": b"\xff\0"}]),
        a_message(4, headers=[{"key": "r", "value": b"%032d %032d" % (1, 2)}]),
        a_message(5, headers=[{"key": "r", "value": None}], undelivered=7),
    ]
    found = rows_of(
        chosen(frame(spark, messages, MESSAGES), ALL).orderBy("offset"),
        "offset", "timestamp_ms", "size", "message_id", "undelivered",
    )  # fmt: skip
    assert found == [
        (1, 1_001, 8, "m-1", None),
        (2, 1_002, 0, "shop.orders/0/2", None),
        (3, 1_003, 0, "\N{REPLACEMENT CHARACTER}" * 2, None),
        (5, 1_005, 8, "shop.orders/0/5", 7),
    ]


def test_filters_keys_and_ids_all_hold(spark: SparkSession) -> None:
    path = Filter(type=FilterType.JSONPATH, path="$.n", matcher="1")
    messages = [
        a_message(1, key=b"k"),
        a_message(2, key=b"k", value=b'{"n": 2}'),
        a_message(3, key=b"k", value=b"no JSON"),
        a_message(4, key=b"other"),
        a_message(5),
        a_message(6, key=b"k", headers=[{"key": "id", "value": b"m-1"}]),
    ]
    choice = MessageChoice(topic="t", filters=(path,), keys=("k",), message_ids=("m-1", "m-4"))
    found = chosen(frame(spark, messages, MESSAGES), choice).orderBy("offset")
    assert rows_of(found, "offset") == [(1,), (6,)]


def test_filters_look_at_the_json_of_avro_and_at_what_was_json_before(spark: SparkSession) -> None:
    number = Filter(type=FilterType.JSONPATH, path="$.n", matcher="1")
    fields = '[{"name": "n", "type": "int"}]'
    text = f'{{"type": "record", "name": "R", "fields": {fields}}}'
    topic = Topic(
        name="shop.orders",
        content_type=ContentType.AVRO,
        migrated_from_json=True,
        schemas=first_schema(ContentType.AVRO, text),
    )
    avro = {"headers": [{"key": "id", "value": b"m"}, {"key": "sv", "value": b"1"}]}
    messages = [
        a_message(1),
        a_message(2, value=b'{"n": 2}'),
        a_message(3, value=b"\x02", **avro),
        a_message(4, value=b"\x04", **avro),
    ]
    choice = MessageChoice(topic=topic.name, source=topic, filters=(number,))
    found = chosen(frame(spark, messages, MESSAGES), choice).orderBy("offset")
    assert rows_of(found, "offset", "size") == [(1, 8), (3, 1)]
    judged = JudgedMessages(
        topic=topic.name, source=topic, since_ms=0, until_ms=10_000, proposed=(number,)
    )
    sums = by_second(arrivals(frame(spark, messages, MESSAGES), judged))
    assert rows_of(sums, "read", "matched") == [(4, 2)]


def test_of_a_message_that_was_discarded_twice_the_first_is_sent(spark: SparkSession) -> None:
    discards = [
        a_choice(1, undelivered=9, timestamp_ms=9),
        a_choice(1, undelivered=3, timestamp_ms=3),
        a_choice(1, undelivered=4, partition=1),
        a_choice(2, undelivered=5),
    ]
    found = each_once(frame(spark, discards, CHOSEN)).orderBy("partition", "offset")
    assert rows_of(found, "partition", "offset", "undelivered", "timestamp_ms") == [
        (0, 1, 3, 3), (0, 2, 5, 1_000), (1, 1, 4, 1_000),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("candidates", "finished", "left"),
    [
        ([], [], []),
        ([], places(1), []),
        ([a_choice(1), a_choice(2)], [], [(0, 1), (0, 2)]),
        # Finished twice, elsewhere, and what is no candidate.
        ([a_choice(1), a_choice(2)], places(1, 1, 7), [(0, 2)]),
        ([a_choice(1), a_choice(1, partition=1)], places(1, partition=1), [(0, 1)]),
    ],
)
def test_missing_is_what_is_not_finished(
    spark: SparkSession,
    candidates: list[dict[str, Any]],
    finished: list[dict[str, int]],
    left: list[tuple[int, int]],
) -> None:
    found = missing(frame(spark, candidates, CHOSEN), frame(spark, finished, POSITIONS))
    assert rows_of(found.orderBy("partition", "offset"), "partition", "offset") == left


def test_messages_that_follow_each_other_are_one_run(spark: SparkSession) -> None:
    follow = [a_choice(offset) for offset in (1, 2, 3, 5, 6)]
    elsewhere = [a_choice(7, partition=1)]
    discards = [a_choice(8, partition=1, undelivered=1), a_choice(9, partition=1, undelivered=2)]
    one_task = frame(spark, [*follow, *elsewhere, *discards], CHOSEN).coalesce(1)
    found = rows_of(runs(one_task), "partition", "start", "end", "messages", "size", "undelivered")
    assert found == [
        (0, 1, 4, 3, 30, None),
        (0, 5, 7, 2, 20, None),
        (1, 7, 8, 1, 10, None),
        (1, 8, 9, 1, 10, 1),
        (1, 9, 10, 1, 10, 2),
    ]


def test_no_run_is_longer_than_it_may_be_and_nothing_makes_none(spark: SparkSession) -> None:
    many = [a_choice(offset) for offset in range(2 * RUN_MAX + 1)]
    found = rows_of(runs(frame(spark, many, CHOSEN).coalesce(1)), "start", "messages")
    assert found == [(0, RUN_MAX), (RUN_MAX, RUN_MAX), (2 * RUN_MAX, 1)]
    assert rows_of(runs(frame(spark, [], CHOSEN)), "*") == []
