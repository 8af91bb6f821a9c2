"""What a subscription would have had to send, on small frames, and beside the recurrence itself."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from app.domain.catalogue.filters import Filter, FilterType
from spark.schemas import ARRIVALS, MESSAGES
from spark.transforms.simulation import (
    JudgedMessages,
    arrivals,
    by_minute,
    by_second,
    longest,
    queued,
)
from tests.spark.discards import rows_of
from tests.spark.plans import plan_of

# The first test starts Spark, on a machine that may be busy.
pytestmark = pytest.mark.timeout(400)

START = 1_767_268_800  # Noon of 1 January 2026, UTC.
HOUR = JudgedMessages(topic="shop.orders", since_ms=START * 1_000, until_ms=(START + 3_600) * 1_000)
ONES = Filter(type=FilterType.JSONPATH, path="$.n", matcher="1.*")
EVEN = Filter(type=FilterType.JSONPATH, path="$.n", matcher=".*[02468]")


def frame(spark: SparkSession, rows: Sequence[dict[str, Any]], columns: StructType) -> DataFrame:
    table = pa.Table.from_pylist(list(rows), schema=to_arrow_schema(columns, timezone="UTC"))
    return spark.createDataFrame(table, columns)


def a_message(n: int, **columns: Any) -> dict[str, Any]:  # noqa: ANN401 - any column
    return {
        "partition": 0,
        "offset": n,
        "timestamp_ms": START * 1_000 + n * 100,
        "key": None,
        "value": b'{"n": "%d"}' % n,
        "headers": [{"key": "id", "value": b"m"}],
        "undelivered": None,
    } | columns


def seconds(spark: SparkSession, arrived: dict[int, int]) -> DataFrame:
    """So many messages arrive so many seconds after the start, all of them wanted."""
    rows = [
        {
            "second": START + second,
            "read": count,
            "matched": count,
            "present": count,
            "added": 0,
            "size": 10 * count,
        }
        for second, count in arrived.items()
    ]
    return by_second(frame(spark, rows, ARRIVALS))


def backlogs(spark: SparkSession, arrived: dict[int, int], capacity: float) -> dict[int, float]:
    found = queued(seconds(spark, arrived), capacity, origin=START)
    return {second - START: backlog for second, backlog in rows_of(found, "second", "backlog")}


def waiting(arrived: dict[int, int], capacity: float) -> dict[int, float]:
    """The recurrence as it is written down."""
    found, last, left = {}, 0, 0.0
    for second, count in sorted(arrived.items()):
        left = max(0.0, left - capacity * (second - last)) + count
        found[second], last = left, second
    return found


def test_messages_are_judged_by_both_filters_second_by_second(spark: SparkSession) -> None:
    record_target = {"key": "r", "value": b"%032d %032d" % (1, 2)}
    messages = [
        *(a_message(n) for n in range(20)),
        a_message(3, value=None),
        a_message(4, value=b"no JSON", headers=None),
        a_message(12, headers=[record_target]),
        a_message(-1),
        a_message(36_000),
    ]
    judged = JudgedMessages(
        topic="shop.orders",
        since_ms=HOUR.since_ms,
        until_ms=HOUR.until_ms,
        proposed=(ONES,),
        present=(EVEN,),
    )
    found = by_second(arrivals(frame(spark, messages, MESSAGES), judged)).orderBy("second")
    assert rows_of(found, "*") == [
        # 1; 0, 2, 4, 6, 8; 1
        (START, 12, 1, 5, 1, 10),
        # 10 to 19; the even ones of them; the odd ones
        (START + 1, 10, 10, 5, 5, 110),
    ]


def test_without_filters_all_that_was_for_everybody_is_wanted(spark: SparkSession) -> None:
    messages = [a_message(0), a_message(1, value=None), a_message(35_999)]
    found = by_second(arrivals(frame(spark, messages, MESSAGES), HOUR)).orderBy("second")
    assert rows_of(found, "second", "read", "matched", "present", "added") == [
        (START, 2, 2, 2, 0),
        (START + 3_599, 1, 1, 1, 0),
    ]


@pytest.mark.parametrize(
    ("arrived", "capacity", "found"),
    [
        ({0: 5}, 10, {0: 5}),
        ({0: 25, 1: 5, 2: 5}, 10, {0: 25, 1: 20, 2: 15}),
        # It is drained in between, and does not work ahead.
        ({0: 25, 600: 5, 601: 30}, 10, {0: 25, 600: 5, 601: 30}),
        ({0: 25, 2: 0, 3: 10}, 10, {0: 25, 2: 5, 3: 10}),
        ({10: 1, 11: 1, 12: 1}, 0.25, {10: 1, 11: 1.75, 12: 2.5}),
        ({}, 10, {}),
    ],
)
def test_what_cannot_be_sent_in_its_time_waits(
    spark: SparkSession, arrived: dict[int, int], capacity: float, found: dict[int, float]
) -> None:
    assert backlogs(spark, arrived, capacity) == found == waiting(arrived, capacity)


def test_the_queue_is_that_of_the_recurrence(spark: SparkSession) -> None:
    dice = Random(7)
    arrived = {dice.randrange(2_000): dice.randrange(60) for _ in range(800)}
    assert backlogs(spark, arrived, 12.5) == pytest.approx(waiting(arrived, 12.5))


def test_minutes_have_their_sums_and_their_most(spark: SparkSession) -> None:
    found = queued(seconds(spark, {0: 25, 59: 3, 60: 7, 61: 30}), 10, origin=START)
    minutes = by_minute(found).orderBy("minute")
    names = ("read", "matched", "present", "added", "size", "peak", "backlog")
    assert rows_of(minutes, *names) == [
        (28, 28, 28, 0, 280, 25, 25.0),
        (37, 37, 37, 0, 370, 30, 30.0),
    ]
    first = datetime.fromtimestamp(START, UTC)
    [(at,), (next_at,)] = rows_of(minutes.selectExpr("unix_seconds(minute) AS at"), "at")
    assert (at, next_at) == (START, (first + timedelta(minutes=1)).timestamp())


def test_the_largest_backlog_is_drained_with_the_last_that_came_behind_it(
    spark: SparkSession,
) -> None:
    arrived = {0: 15, 100: 30, 101: 10, 102: 10, 104: 1, 200: 30}
    found = longest(queued(seconds(spark, arrived), 10, origin=START))
    # 30, 30, 30 and 11 wait; the first of those as many is named, and the last message ends it.
    assert rows_of(found, "backlog", "second", "drained") == [
        (30.0, START + 100, START + 104 + 1.1)
    ]
    assert rows_of(longest(queued(seconds(spark, {}), 10, origin=START)), "*") == []


def test_only_sums_are_shuffled(spark: SparkSession) -> None:
    found = arrivals(frame(spark, [a_message(1)], MESSAGES), HOUR)
    plan = plan_of(found)
    assert "Exchange" not in plan
    summed = by_minute(queued(by_second(found), 10, origin=START))
    plan = plan_of(summed)
    # By second, and all seconds in their order; minutes are where these are.
    assert plan.count("Exchange") == 2
