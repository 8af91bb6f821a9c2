"""Writes, reads and removes folders of the archive, in any storage that Spark supports."""

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own documents use this name

from app.domain.replay.coverage import Times
from app.domain.replay.retransmission import OffsetSpan
from spark.schemas import ARCHIVED, MESSAGES


def write_archived(archived: DataFrame, path: str) -> None:
    """Write messages (columns `ARCHIVED`) to the new folder `path`."""
    archived.write.partitionBy("day", "hour").parquet(path)


def read_archived(session: SparkSession, path: str) -> DataFrame:
    """Return the archived messages in the folder `path` (columns `ARCHIVED`)."""
    # Pass the schema to Spark, because in an empty folder there is no file with a schema.
    return session.read.schema(ARCHIVED).parquet(path)


def archived_messages(
    session: SparkSession,
    folders: Sequence[str],
    *,
    spans: Sequence[OffsetSpan],
    times: Times | None = None,
) -> DataFrame:
    """Return the messages of one topic from archive folders, in the ranges of offsets `spans`.

    With `times`, return only messages that were published in these times. The result has the
    columns `MESSAGES`. The ranges of one partition must have no gaps between them.
    """
    if not folders or not spans:
        return session.createDataFrame([], MESSAGES)
    # Let Spark search all subfolders for files, and make no columns of the subfolders' names (day
    # and hour). Otherwise Spark cannot read several archive folders as one data frame.
    files = session.read.schema(MESSAGES).option("recursiveFileLookup", "true")
    read = files.parquet(*folders)
    starts, ends = _bounds(spans)
    offset = F.col("offset")
    inside = (offset >= min(starts.values())) & (offset < max(ends.values()))
    inside &= (offset >= of_partition(starts)) & (offset < of_partition(ends))
    return of_time(read.where(inside), times or Times())


def of_time(messages: DataFrame, times: Times) -> DataFrame:
    """Return the messages (columns `MESSAGES`) that were published in the time `times`."""
    at = F.col("timestamp_ms")
    if times.since_ms is not None:
        messages = messages.where(at >= times.since_ms)
    if times.until_ms is not None:
        messages = messages.where(at < times.until_ms)
    return messages


def _bounds(spans: Sequence[OffsetSpan]) -> tuple[Mapping[int, int], Mapping[int, int]]:
    starts: dict[int, int] = {}
    ends: dict[int, int] = {}
    for span in spans:
        starts[span.partition] = min(starts.get(span.partition, span.start), span.start)
        ends[span.partition] = max(ends.get(span.partition, span.end), span.end)
    return starts, ends


def of_partition(offsets: Mapping[int, int]) -> Column:
    """Return an expression for the offset that `offsets` has for the row's partition.

    The expression is null if `offsets` does not have the partition.
    """
    known = [F.lit(each) for pair in offsets.items() for each in pair]
    return F.try_element_at(F.create_map(*known), F.col("partition"))


def remove_folder(session: SparkSession, path: str) -> None:
    """Remove a folder with its content, if it exists.

    Raises:
        Py4JError: Hadoop could not remove the folder.
    """
    folder, files = _on_hadoop(session, path)
    files.delete(folder, True)  # noqa: FBT003 - Java has no named arguments


def _on_hadoop(session: SparkSession, path: str) -> Sequence[Any]:
    jvm: Any = session._jvm  # noqa: SLF001 - PySpark has no public access to files
    hadoop = session._jsc.hadoopConfiguration()  # noqa: SLF001 - PySpark has no public access to files
    folder = jvm.org.apache.hadoop.fs.Path(path)
    return folder, folder.getFileSystem(hadoop)
