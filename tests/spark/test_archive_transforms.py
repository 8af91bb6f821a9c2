"""What the archive has of messages, on small frames."""

from datetime import date
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark.schemas import ARCHIVED, MESSAGES
from spark.transforms.archive import last_runs, pieces, placed
from tests.spark.discards import rows_of
from tests.spark.plans import plan_of
from tests.spark.test_retransmission_transforms import a_message, frame

# The first test starts Spark, on a machine that may be busy.
pytestmark = pytest.mark.timeout(400)

# 2026-01-01, 12:59:59.999 UTC.
NEARLY_ONE = 1_767_272_399_999
NEW_YEAR = date(2026, 1, 1)


def an_archived(offset: int, **columns: Any) -> dict[str, Any]:  # noqa: ANN401 - any column
    return {
        "partition": 0,
        "offset": offset,
        "timestamp_ms": NEARLY_ONE,
        "key": None,
        "value": b"12345",
        "headers": [],
        "message_id": "m",
        "size": 5,
        "day": NEW_YEAR,
        "hour": 12,
    } | columns


def test_a_message_is_placed_by_its_hour_in_utc_with_its_id_and_its_size(
    spark: SparkSession,
) -> None:
    messages = [
        a_message(1, timestamp_ms=NEARLY_ONE),
        a_message(2, timestamp_ms=NEARLY_ONE + 1, value=None),
        a_message(3, timestamp_ms=NEARLY_ONE, value="ä".encode(), headers=None),
        a_message(4, timestamp_ms=NEARLY_ONE, value=b"", headers=[]),
        a_message(5, timestamp_ms=NEARLY_ONE, headers=[{"key": "id", "value": b"\xff"}]),
        a_message(6, timestamp_ms=NEARLY_ONE, headers=[{"key": "id", "value": None}]),
        a_message(
            7,
            timestamp_ms=NEARLY_ONE,
            headers=[
                {"key": "h-x", "value": b"a"},
                *({"key": "id", "value": v} for v in (b"1", b"2")),
            ],
        ),
    ]
    found = placed(frame(spark, messages, MESSAGES).coalesce(1))
    assert found.columns == ARCHIVED.names
    assert rows_of(found, "offset", "message_id", "size", "day", "hour") == [
        (1, "m-1", 8, NEW_YEAR, 12),
        (3, None, 2, NEW_YEAR, 12),
        (4, None, 0, NEW_YEAR, 12),
        (5, None, 8, NEW_YEAR, 12),
        (6, None, 8, NEW_YEAR, 12),
        (7, "1", 8, NEW_YEAR, 12),
        (2, "m-2", 0, NEW_YEAR, 13),
    ]


def test_a_file_has_partitions_and_offsets_in_their_order(spark: SparkSession) -> None:
    mixed = [
        a_message(offset, partition=index, timestamp_ms=NEARLY_ONE)
        for offset, index in ((7, 1), (2, 0), (9, 0), (1, 1))
    ]
    found = placed(frame(spark, mixed, MESSAGES).coalesce(1))
    assert rows_of(found, "partition", "offset") == [(0, 2), (0, 9), (1, 1), (1, 7)]


def test_a_piece_is_of_a_day_and_a_partition_late_messages_and_gaps_included(
    spark: SparkSession,
) -> None:
    eve = {"day": date(2025, 12, 31), "hour": 23, "timestamp_ms": 1}
    archived = [
        an_archived(3),
        an_archived(9, timestamp_ms=NEARLY_ONE + 1, hour=13, size=0, value=None),
        an_archived(5, **eve),
        an_archived(4, partition=2, message_id=None),
    ]
    found = pieces(frame(spark, archived, ARCHIVED)).orderBy("partition", "day")
    assert rows_of(found, *found.columns) == [
        (eve["day"], 0, 5, 6, 1, 1, 1, 5),
        (NEW_YEAR, 0, 3, 10, NEARLY_ONE, NEARLY_ONE + 1, 2, 5),
        (NEW_YEAR, 2, 4, 5, NEARLY_ONE, NEARLY_ONE, 1, 5),
    ]


def test_nothing_has_no_pieces(spark: SparkSession) -> None:
    assert rows_of(pieces(frame(spark, [], ARCHIVED)), "day") == []
    assert rows_of(placed(frame(spark, [], MESSAGES)), "day") == []


def test_nothing_is_shuffled_on_the_way_into_the_archive(spark: SparkSession) -> None:
    plan = placed(frame(spark, [a_message(1)], MESSAGES).coalesce(1))
    text = plan_of(plan)
    assert "Exchange" not in text
    assert "Python" not in text


def test_the_last_messages_without_a_gap_are_found_in_each_partition(spark: SparkSession) -> None:
    offsets = {0: (3, 4, 5), 1: (9, 1, 2, 8), 2: (7,)}
    rows = [an_archived(each, partition=index) for index, some in offsets.items() for each in some]
    found = last_runs(frame(spark, rows, ARCHIVED)).orderBy("partition")
    assert rows_of(found, "*") == [(0, 3, 6, 3), (1, 8, 10, 4), (2, 7, 8, 1)]
    assert rows_of(last_runs(frame(spark, [], ARCHIVED)), "*") == []
