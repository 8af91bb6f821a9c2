"""What Spark does for each job: a task or more for each partition of the log, no needless shuffle.

Those of transforms alone are beside the tests of these.
"""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own documents use this name

from app.domain.replay.coverage import Times
from app.domain.replay.republishing import RepublishRequest
from app.domain.replay.retransmission import SAMPLES_MAX, OffsetSpan
from app.log.factory import LogLocation
from spark.archives import archived_messages, write_archived
from spark.jobs.archive import into_files
from spark.jobs.offline_retransmission import in_order
from spark.records import SPAN_MAX, messages
from spark.schemas import CHOSEN, DISCARDS, MESSAGES, POSITIONS
from spark.transforms.archive import placed
from spark.transforms.differing import first_differing
from spark.transforms.retransmission import MessageChoice, chosen, foreseen, missing
from spark.transforms.simulation import arrivals
from spark.transforms.undelivered import CLUSTERS_MAX, clustered, described
from tests.spark.plans import plan_of, shuffles
from tests.spark.test_differing import BOTH
from tests.spark.test_simulation_transforms import HOUR, a_message, frame

# The first test starts Spark, on a machine that may be busy.
pytestmark = pytest.mark.timeout(400)

LONG = (("0", 3 * SPAN_MAX), ("1", SPAN_MAX + 1), ("2", 1))
SPANS = tuple(
    OffsetSpan(topic="shop.orders", partition=int(n), start=0, end=end) for n, end in LONG
)
IN_LOG = 3 + 2 + 1
AN_HOUR = RepublishRequest(
    source="shop.orders",
    target="shop.again",
    since=datetime(2026, 1, 1, tzinfo=UTC),
    until=datetime(2026, 1, 1, 1, tzinfo=UTC),
    spans=SPANS,
)


@pytest.fixture
def log(spark: SparkSession) -> DataFrame:
    """The messages of the log, which nobody reads here."""
    return messages(spark, "postgresql://nowhere/none", log=LogLocation(), spans=SPANS)


def tasks_of(frame: DataFrame) -> int:
    return frame.rdd.getNumPartitions()


def test_long_partitions_of_the_log_have_several_tasks_each(log: DataFrame) -> None:
    assert (tasks_of(log), shuffles(log)) == (IN_LOG, [])
    assert "nowhere" not in plan_of(log)


def test_a_simulation_judges_messages_where_they_are_read(log: DataFrame) -> None:
    found = arrivals(log, BOTH)
    assert (tasks_of(found), shuffles(found)) == (IN_LOG, [])


def test_examples_of_a_simulation_are_chosen_by_the_tasks_that_have_them(log: DataFrame) -> None:
    plan = plan_of(first_differing(arrivals(log, BOTH), is_added=True))
    assert f"TakeOrderedAndProject(limit={SAMPLES_MAX}" in plan
    assert "Exchange" not in plan


def test_a_dry_run_takes_its_first_messages_out_of_all_tasks(log: DataFrame) -> None:
    wanted = chosen(log, MessageChoice(topic="shop.orders"))
    found = foreseen(wanted.withColumn("archived", F.lit(False)))  # noqa: FBT003 - Spark needs a column
    plan = plan_of(found)
    # Each task has its earliest messages, and one task the earliest of these.
    assert shuffles(found) == ["SinglePartition"]
    assert plan.count("MapInArrow") == 1
    assert "min_by" in plan.split("Exchange")[1]


def test_what_is_missing_is_found_by_places_and_no_body_is_shuffled(
    spark: SparkSession, log: DataFrame
) -> None:
    candidates = chosen(log, MessageChoice(topic="shop.orders"))
    done = spark.createDataFrame([], POSITIONS)
    for found in (missing(candidates, done), missing(candidates, done).hint("shuffle_hash")):
        assert set(shuffles(found)) <= {"hashpartitioning(partition, offset, 2)", "SinglePartition"}
    assert {"value", "headers"}.isdisjoint(CHOSEN.names)


def test_messages_go_to_the_tasks_of_their_partitions_to_be_published_in_order(
    log: DataFrame,
) -> None:
    found = in_order(log, AN_HOUR, tasks_max=9)
    assert shuffles(found) == [f"hashpartitioning(partition, {len(SPANS)})"]
    # Fewer, where these would have all cores for hours.
    found = in_order(log, AN_HOUR, tasks_max=2)
    assert shuffles(found) == ["hashpartitioning(partition, 2)"]


def test_messages_are_archived_by_the_tasks_that_read_them(log: DataFrame) -> None:
    found = into_files(log, SPANS)
    assert shuffles(found) == []
    # A file for each SPAN_MAX messages, not for each partition.
    assert tasks_of(found) == -(-sum(end for _, end in LONG) // SPAN_MAX)


def test_the_archive_is_read_in_its_files_and_not_beyond_what_is_wanted(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = [a_message(n) for n in range(10)]
    write_archived(placed(frame(spark, rows, MESSAGES)), f"{tmp_path}/archive")
    span = OffsetSpan(topic="shop.orders", partition=0, start=3, end=7)
    times = Times(since_ms=HOUR.since_ms)
    found = archived_messages(spark, [f"{tmp_path}/archive"], spans=[span], times=times)
    plan = plan_of(found)
    assert shuffles(found) == []
    for pushed in ("GreaterThanOrEqual(offset,3)", "LessThan(offset,7)"):
        assert pushed in plan
    assert f"GreaterThanOrEqual(timestamp_ms,{HOUR.since_ms})" in plan
    assert sorted(row.offset for row in found.collect()) == [3, 4, 5, 6]


def test_failures_are_shuffled_by_what_they_have_in_common(spark: SparkSession) -> None:
    found = clustered(described(spark.createDataFrame([], DISCARDS)))
    alike = [each.split("(")[0] for each in shuffles(found)]
    # Into groups, and these by their error; the largest are taken out of all tasks.
    assert alike == ["hashpartitioning"] * 2
    assert f"TakeOrderedAndProject(limit={CLUSTERS_MAX}" in plan_of(found)
