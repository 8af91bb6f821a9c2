"""A Spark data source with the table of undelivered messages.

Tasks read the table by COPY with psycopg, not by JDBC. So no jar is needed, and an embedded
PostgreSQL, which only has a Unix socket, can be read too. Every task reads its own range of ids.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import pyarrow as pa
from pyarrow import csv
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from app.domain.job import JobScope
from app.storage.spark.discard_rows import COLUMNS, undelivered_csv, undelivered_ranges
from spark.schemas import DISCARDS

# The size of the blocks in which CSV is read, in bytes. The longest row must fit into one block.
# Such a row has a body of 64 KiB in hexadecimal digits, a reason, and names.
_BLOCK_SIZE: Final = 4 * 1024 * 1024
_CSV_TYPES: Final = {
    **dict.fromkeys(COLUMNS, pa.string()),
    "discarded_us": pa.int64(),
    "status": pa.int32(),
    "attempts": pa.int32(),
    "size": pa.int64(),
}
_ARROW: Final = to_arrow_schema(DISCARDS, timezone="UTC")


def undelivered(session: SparkSession, database_url: str, scope: JobScope) -> DataFrame:
    """Return the discards in `scope` (columns `DISCARDS`). Tasks read them when they run."""
    options = {
        # Pass the URL of the database in the option `password`, because Spark does not show the
        # value of this option.
        "password": database_url,
        "start": scope.start.isoformat(),
        "end": scope.end.isoformat(),
        "scope": json.dumps({"topic": scope.topic, "subscription": scope.subscription}),
    }
    return session.read.format(UndeliveredSource.name()).options(**options).load()


class UndeliveredSource(DataSource):
    """A Spark data source with the table of undelivered messages, read in ranges of ids."""

    @classmethod
    def name(cls) -> str:
        """Return the name by which Spark finds this data source."""
        return "angelia_undelivered"

    def schema(self) -> StructType:
        """Return the columns of the rows."""
        return DISCARDS

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader for the topic, subscription and time that the options name."""
        del schema  # ignore `schema`: there is only one
        scope = JobScope(
            start=datetime.fromisoformat(self.options["start"]),
            end=datetime.fromisoformat(self.options["end"]),
            **json.loads(self.options["scope"]),
        )
        return _UndeliveredReader(self.options["password"], scope)


@dataclass(frozen=True)
class _IdRange(InputPartition):
    first: int
    end: int


class _UndeliveredReader(DataSourceReader):
    def __init__(self, database_url: str, scope: JobScope) -> None:
        self._url = database_url
        self._scope = scope

    def partitions(self) -> list[_IdRange]:
        # Return at least one partition, because Spark requires one.
        return [_IdRange(*ids) for ids in self._ranges() or [(0, 0)]]

    def _ranges(self) -> Sequence[tuple[int, int]]:
        return undelivered_ranges(self._url, self._scope)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, _IdRange):
            raise TypeError(f"No range of ids: {partition}")
        ids = (partition.first, partition.end)
        with undelivered_csv(self._url, ids, self._scope) as rows:
            if not rows.peek(1):
                return  # return no rows: the CSV reader refuses an empty file
            for batch in _batches(rows):
                yield pa.RecordBatch.from_arrays(
                    [
                        column.cast(field.type)
                        for column, field in zip(batch.columns, _ARROW, strict=True)
                    ],
                    schema=_ARROW,
                )


def _batches(rows: object) -> csv.CSVStreamingReader:
    return csv.open_csv(
        rows,
        read_options=csv.ReadOptions(
            column_names=COLUMNS, block_size=_BLOCK_SIZE, use_threads=False
        ),
        parse_options=csv.ParseOptions(newlines_in_values=True),
        # Read the CSV that COPY writes. In this CSV, an empty value means NULL, and an empty text
        # is written with quotation marks.
        convert_options=csv.ConvertOptions(
            column_types=_CSV_TYPES,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
