"""Which messages are shown of those that two filters judge differently, on small frames."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from app.domain.insight.simulation import ID_SHOWN_MAX
from app.domain.replay.retransmission import SAMPLES_MAX
from spark.schemas import MESSAGES
from spark.transforms.differing import first_differing
from spark.transforms.simulation import arrivals
from tests.spark.discards import rows_of
from tests.spark.test_simulation_transforms import EVEN, HOUR, ONES, START, a_message, frame

# The first test starts Spark, on a machine that may be busy.
pytestmark = pytest.mark.timeout(400)

BOTH = replace(HOUR, proposed=(ONES,), present=(EVEN,))


def places(
    spark: SparkSession, messages: Sequence[dict[str, Any]], *, added: bool
) -> Sequence[tuple[Any, ...]]:
    found = arrivals(frame(spark, messages, MESSAGES).repartition(3), BOTH)
    first = first_differing(found, is_added=added)
    assert [row.is_added for row in first.collect()] == [added] * first.count()
    return rows_of(first, "offset", "partition")


def test_what_only_one_of_the_filters_wants_is_shown_as_what_it_is(spark: SparkSession) -> None:
    messages = [
        a_message(1),
        # Of both, and of neither.
        a_message(12),
        a_message(3),
        a_message(4, headers=[{"key": "id", "value": b"id-of-4"}]),
        # Not of that time.
        a_message(-2),
        a_message(36_000),
    ]
    found = arrivals(frame(spark, messages, MESSAGES), BOTH)
    columns = ("offset", "partition", "timestamp_ms", "size", "message_id")
    at = START * 1_000
    assert rows_of(first_differing(found, is_added=True), *columns) == [(1, 0, at + 100, 10, "m")]
    assert rows_of(first_differing(found, is_added=False), *columns) == [
        (4, 0, at + 400, 10, "id-of-4")
    ]


def test_of_many_those_with_the_lowest_offsets_are_shown(spark: SparkSession) -> None:
    """Whoever reads them, in whichever order, and however many tasks there are."""
    many = [a_message(n, partition=index) for n in range(99, -1, -1) for index in (1, 0)]
    added = [(n, index) for n in (1, *range(11, 20, 2)) for index in (0, 1)]
    assert places(spark, many, added=True) == added
    dropped = [(n, index) for n in (0, 2, 4, 6, 8, *range(20, 30, 2)) for index in (0, 1)]
    assert places(spark, many, added=False) == dropped
    assert len(dropped) == SAMPLES_MAX


def test_where_the_filters_agree_nothing_is_shown(spark: SparkSession) -> None:
    assert places(spark, [a_message(12), a_message(3)], added=True) == []
    assert places(spark, [], added=False) == []
    found = arrivals(frame(spark, [a_message(1)], MESSAGES), HOUR)
    assert rows_of(first_differing(found, is_added=True), "*") == []


def test_ids_of_foreign_producers_are_shown_as_far_as_they_can_be(spark: SparkSession) -> None:
    ids = {1: b"x" * 10_000, 11: b"a\0b\xff", 13: b""}
    messages = [a_message(n, headers=[{"key": "id", "value": each}]) for n, each in ids.items()]
    found = arrivals(frame(spark, messages, MESSAGES), BOTH)
    shown = rows_of(first_differing(found, is_added=True), "message_id")
    assert shown == [("x" * ID_SHOWN_MAX,), ("a\ufffdb\ufffd",), ("shop.orders/0/13",)]
