"""How long messages took, on small frames."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from app.domain.job import JobScope
from app.domain.latency import Figure, LatencyPart
from spark.schemas import TRACED
from spark.transforms.latency import by_subscription, fates
from tests.spark.discards import rows_of
from tests.spark.plans import plan_of

# The first test starts Spark, on a machine that may be busy.
pytestmark = pytest.mark.timeout(400)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = JobScope(start=NOON, end=NOON + timedelta(hours=1))
SECOND = 1_000_000
AT = 1_767_268_800 * SECOND
TIMES = ("total", "queued", "waited", "connect", "subscriber")

Entry = dict[str, Any]


def an_end(seconds: float, status: str = "SUCCESS", **columns: Any) -> Entry:  # noqa: ANN401 - any column
    """An attempt that is over so long after noon; by default the first, which took a second."""
    first = columns.get("attempt", 1) == 1
    return {
        "topic": "shop.orders",
        "subscription_id": "s-1",
        "subscription": "billing",
        "partition": 0,
        "offset": 7,
        "at": AT + round(seconds * SECOND),
        "status": status,
        "attempt": 1,
        "queued": 3 * SECOND if first else None,
        "waited": 2 * SECOND,
        "connect": None,
        "took": SECOND,
        "resent": False,
    } | columns


def a_discard(seconds: float, attempts: int, **columns: Any) -> Entry:  # noqa: ANN401 - any column
    nothing = {"queued": None, "waited": None, "took": None}
    return an_end(seconds, "DISCARDED", attempt=attempts, **nothing, **columns)


def frame(spark: SparkSession, entries: Sequence[Entry]) -> DataFrame:
    table = pa.Table.from_pylist(list(entries), schema=to_arrow_schema(TRACED, timezone="UTC"))
    return spark.createDataFrame(table, TRACED)


def fate_of(spark: SparkSession, *entries: Entry) -> tuple[bool, bool, int, tuple[Any, ...]]:
    """Of the one message: whether it was delivered, is known, its attempts and its seconds."""
    found = fates(frame(spark, entries), HOUR)
    [(delivered, known, attempts, *times)] = rows_of(
        found, "delivered", "known", "attempts", *TIMES
    )
    return (
        delivered,
        known,
        attempts,
        tuple(time if time is None else time / SECOND for time in times),
    )


def summed(
    spark: SparkSession, entries: Sequence[Entry], slo: timedelta | None = None
) -> list[tuple[Any, ...]]:
    """Messages, delivered, discarded, unknown, resent, attempts, within of each subscription."""
    found = by_subscription(fates(frame(spark, entries), HOUR), slo).orderBy("subscription_id")
    names = ("messages", "delivered", "discarded", "unknown", "resent", "attempts", "within")
    return rows_of(found, *names)


NOTHING = (None,) * 5


def test_a_delivery_is_split_into_parts_that_make_up_its_whole_time(spark: SparkSession) -> None:
    assert fate_of(spark, an_end(10, connect=SECOND // 4)) == (
        True, True, 1, (6, 3, 2, 0.25, 0.75),
    )  # fmt: skip


def test_all_attempts_up_to_the_delivery_count_and_what_is_between_them_is_waiting(
    spark: SparkSession,
) -> None:
    entries = (
        an_end(10, "FAILED", connect=SECOND // 2),
        an_end(20, "FAILED", attempt=2, waited=9 * SECOND),
        an_end(30, attempt=3, waited=9 * SECOND),
    )
    assert fate_of(spark, *entries) == (True, True, 3, (26, 3, 20, 0.5, 2.5))


def test_what_a_dead_worker_has_tried_is_of_the_same_message(spark: SparkSession) -> None:
    """The next one took it out of the log later, and counts its attempts from one."""
    entries = (
        an_end(10, "FAILED"),
        an_end(40, queued=35 * SECOND, waited=0),
    )
    assert fate_of(spark, *entries) == (True, True, 2, (36, 3, 31, 0, 2))


def test_a_message_that_came_twice_was_delivered_the_first_time(spark: SparkSession) -> None:
    first = an_end(10)
    again = (an_end(11, "FAILED", queued=4 * SECOND), an_end(12, attempt=2), a_discard(13, 2))
    assert fate_of(spark, *again, first) == (True, True, 1, (6, 3, 2, 0, 1))


def test_an_entry_that_was_recorded_twice_is_one(spark: SparkSession) -> None:
    failed = an_end(10, "FAILED")
    entries = (failed, failed, an_end(20, attempt=2, waited=9 * SECOND))
    assert fate_of(spark, *entries, *entries) == (True, True, 2, (16, 3, 11, 0, 2))


def test_attempts_at_once_leave_no_less_than_nothing_for_waiting(spark: SparkSession) -> None:
    at_once = {"queued": 0, "waited": 0, "took": 5 * SECOND}
    entries = (an_end(10) | at_once, an_end(9.5, "FAILED") | at_once)
    assert fate_of(spark, *entries) == (True, True, 2, (5.5, 0, 0, 0, 10))


@pytest.mark.parametrize(
    ("entries", "found"),
    [
        # Its first attempt was before all that is traced.
        ([an_end(10, attempt=2)], (True, False, 2, NOTHING)),
        # A worker of an earlier version did not say when it took it.
        ([an_end(10, queued=None)], (True, False, 1, NOTHING)),
        ([an_end(10, queued=None, waited=None, took=None)], (True, False, 1, NOTHING)),
        ([an_end(10, waited=None, took=None)], (True, True, 1, (3, 3, 0, 0, 0))),
        # It has no time of delivery, and was late by any SLO.
        ([an_end(10, "FAILED"), a_discard(11, 1)], (False, True, 1, NOTHING)),
        ([a_discard(10, 0)], (False, True, 0, NOTHING)),
        # Of a subscription that traces discards alone.
        ([a_discard(10, 3)], (False, False, 3, NOTHING)),
    ],
)
def test_what_is_not_traced_is_not_guessed(
    spark: SparkSession, entries: list[Entry], found: tuple[Any, ...]
) -> None:
    assert fate_of(spark, *entries) == found


def test_a_message_belongs_to_the_time_in_which_it_ends(spark: SparkSession) -> None:
    hour = 3_600
    entries = [
        # Begun before, ended in it.
        an_end(-60, "FAILED", offset=1), an_end(0, attempt=2, offset=1),
        # Ended before; what came once more is no delivery of this time.
        an_end(-1, offset=2), an_end(5, offset=2),
        # Not ended in it.
        an_end(5, "FAILED", offset=3), an_end(hour, attempt=2, offset=3),
        an_end(5, "FAILED", offset=4),
        an_end(hour - 1e-6, offset=5),
    ]  # fmt: skip
    found = fates(frame(spark, entries), HOUR).orderBy("attempts")
    assert rows_of(found, "attempts") == [(1,), (2,)]


def test_messages_are_counted_by_what_became_of_them_and_who_was_in_time(
    spark: SparkSession,
) -> None:
    entries = [
        an_end(10, offset=1),
        # To the microsecond.
        an_end(10, offset=2, queued=4 * SECOND),
        an_end(10, offset=3, queued=4 * SECOND + 1),
        an_end(10, "FAILED", offset=4), a_discard(11, 1, offset=4),
        an_end(10, attempt=2, offset=5),
        an_end(10, offset=6, resent=True), a_discard(10, 2, offset=7, resent=True),
        # The same place in other partitions and subscriptions is another message.
        an_end(10, offset=1, partition=1),
        an_end(10, offset=1, subscription_id="s-2"),
        a_discard(10, 0, offset=1, subscription_id="s-3"),
    ]  # fmt: skip
    slo = timedelta(seconds=7)
    assert summed(spark, entries, slo) == [
        (6, 5, 1, 1, 2, 7, 3),
        (1, 1, 0, 0, 0, 1, 1),
        (1, 0, 1, 0, 0, 0, 0),
    ]
    assert [row[-1] for row in summed(spark, entries)] == [None, None, None]


def test_figures_are_exact_where_messages_are_few(spark: SparkSession) -> None:
    entries = [
        an_end(1_000, offset=n, queued=n * SECOND, waited=0, took=n, connect=n if n > 195 else None)
        for n in range(200, 0, -1)
    ]
    entries.append(an_end(1_000, offset=900, resent=True, queued=900 * SECOND))
    entries.append(a_discard(1_000, 0, offset=901))
    found = by_subscription(fates(frame(spark, entries), HOUR), None)

    def figures(part: LatencyPart) -> tuple[Any, ...]:
        [row] = rows_of(found, *(f"{part}_{figure}_us" for figure in Figure))
        return row

    assert figures(LatencyPart.QUEUED) == tuple(
        round(n * SECOND) for n in (100.5, 100, 190, 198, 200)
    )
    assert figures(LatencyPart.TOTAL)[1:] == tuple(n * SECOND + n for n in (100, 190, 198, 200))
    assert figures(LatencyPart.WAITED) == (0, 0, 0, 0, 0)
    assert figures(LatencyPart.CONNECT) == (5, 0, 0, 198, 200)
    assert figures(LatencyPart.SUBSCRIBER) == (96, 95, 185, 193, 195)


def test_a_subscription_of_discards_has_no_times(spark: SparkSession) -> None:
    found = by_subscription(fates(frame(spark, [a_discard(1, 0)]), HOUR), timedelta(seconds=1))
    figures = [f"{part}_{figure}_us" for part in LatencyPart for figure in Figure]
    assert rows_of(found, *figures) == [(None,) * len(figures)]


def test_nothing_was_delivered_to_nobody(spark: SparkSession) -> None:
    assert summed(spark, []) == []


def test_entries_are_shuffled_once_and_what_is_summed_once_more(spark: SparkSession) -> None:
    found = by_subscription(fates(frame(spark, [an_end(1)]), HOUR), timedelta(seconds=1))
    plan = plan_of(found)
    assert plan.count("Exchange hashpartitioning") == plan.count("Exchange") == 2
    assert "Python" not in plan
