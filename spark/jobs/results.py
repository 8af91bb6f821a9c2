"""Stores the results of analyses."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own documents use this name

from spark.sinks import through_parquet, to_database
from spark.work import Work


def kept(result: DataFrame, name: str, work: Work) -> tuple[int, int]:
    """Store the result of an analysis as Parquet files, and in the database table `name`.

    Without a claim, nothing is stored in the database. Return the number of messages in the result,
    and the number of rows.
    """
    written = through_parquet(result, f"{work.output}/{name.removeprefix('analytics_')}")
    if work.claim is not None:
        to_database(written, name, url=work.database_url, claim=work.claim)
    total = written.agg(F.sum("messages"), F.count(F.lit(1))).first()
    messages, rows = total or (0, 0)
    return messages or 0, rows
