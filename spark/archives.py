"""Folders of the archive: written, read, and removed, wherever Spark writes."""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from spark.schemas import ARCHIVED


def write_archived(archived: DataFrame, path: str) -> None:
    """Store messages (columns ARCHIVED) in the folder `path`, which is not there yet."""
    archived.write.partitionBy("day", "hour").parquet(path)


def read_archived(session: SparkSession, path: str) -> DataFrame:
    """The messages in that folder (columns ARCHIVED)."""
    # Given, as there may be no file to tell them.
    return session.read.schema(ARCHIVED).parquet(path)


def remove_folder(session: SparkSession, path: str) -> None:
    """Remove a folder with all that is in it; none there is fine. What Hadoop raises."""
    place, files = _on_hadoop(session, path)
    files.delete(place, True)  # noqa: FBT003 - Java has no names: with what is in it


def _on_hadoop(session: SparkSession, path: str) -> Sequence[Any]:
    jvm: Any = session._jvm  # noqa: SLF001 - PySpark has no way of its own to files
    hadoop = session._jsc.hadoopConfiguration()  # noqa: SLF001 - the same
    place = jvm.org.apache.hadoop.fs.Path(path)
    return place, place.getFileSystem(hadoop)
