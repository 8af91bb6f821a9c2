"""Stores results of jobs. A result that is stored again replaces the earlier one."""

from collections.abc import Iterable
from functools import partial
from typing import Final

from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own documents use this name
from pyspark.sql.types import TimestampType

from app.domain.job import Claim
from app.storage.spark.analysis_parts import COLUMNS, write_part

# The maximum number of tasks that write a small result. Each task opens its own connection or file,
# and a small result needs only a few of them.
WRITERS_MAX: Final = 8

_WITH_ZONE: Final = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSxxx"


def to_database(result: DataFrame, table: str, *, url: str, claim: Claim) -> None:
    """Store the rows of a small `result` in an analytics table, with at most WRITERS_MAX tasks."""
    spread_to_database(result.coalesce(WRITERS_MAX), table, url=url, claim=claim)


def spread_to_database(result: DataFrame, table: str, *, url: str, claim: Claim) -> None:
    """Store the rows of a large `result` in an analytics table, one task for each partition."""
    columns = [_writable(result, name) for name in COLUMNS[table]]
    write = partial(_write_partition, url=url, table=table, claim=claim)
    result.select(*columns).foreachPartition(write)


def to_parquet(result: DataFrame, path: str) -> None:
    """Store `result` as Parquet in the folder (or at the URI) `path`."""
    result.coalesce(WRITERS_MAX).write.mode("overwrite").parquet(path)


def through_parquet(result: DataFrame, path: str) -> DataFrame:
    """Store `result` as Parquet in the folder (or at the URI) `path`, and return what was stored.

    With the stored copy, a result that is used several times is computed only once. Spark could
    also keep the result in memory. Then it would not adapt its plan, and would run many tasks even
    for few rows.
    """
    to_parquet(result, path)
    return result.sparkSession.read.schema(result.schema).parquet(path)


def _write_partition(rows: Iterable[Row], *, url: str, table: str, claim: Claim) -> None:
    task = TaskContext.get()
    if task is None:
        raise RuntimeError("Not in a task of Spark")
    write_part(url, table, rows, claim=claim, part=task.partitionId())


def _writable(result: DataFrame, name: str) -> Column:
    """Return the column in a form that tasks can read: a time becomes a text with its time zone."""
    column = F.col(name)
    is_time = isinstance(result.schema[name].dataType, TimestampType)
    return F.date_format(column, _WITH_ZONE).alias(name) if is_time else column
