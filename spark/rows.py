"""Spark data sources with rows of the database, which tasks read with psycopg as Arrow batches.

A data source of this module needs no jar. It also works with an embedded PostgreSQL, which only has
a Unix socket. Every task reads its own range of rows.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from spark.batches import Batches, batch_of


@dataclass(frozen=True)
class Part(InputPartition):
    """The rows that one task reads. Each kind of rows uses some of the fields.

    Attributes:
        first: Where the rows begin: an offset, an id, or a time as an ISO text. None for no limit.
        end: Where the rows end, in the same form. The row at `end` is left out.
        partition: The index of the partition of the topic.
        ranges: Several ranges of rows, which the task reads one after the other.
    """

    first: Any = 0
    end: Any = 0
    partition: int = 0
    ranges: tuple[Any, ...] = ()


class RowsReader(DataSourceReader):
    """Reads one kind of rows. The class variable `columns` has the columns of these rows."""

    columns: StructType

    def __init__(self, database_url: str, given: Mapping[str, Any]) -> None:
        self._url = database_url
        self._given = given

    def partitions(self) -> Sequence[InputPartition]:
        """Return the range of rows of each task."""
        # Return at least one partition, because Spark needs one.
        return self.parts() or [Part()]

    def parts(self) -> list[Part]:
        """Return the range of rows of each task. The list may be empty."""
        raise NotImplementedError

    def slices(self, part: Part) -> Iterator[Iterable[Sequence[Any]]]:
        """Yield the rows of the range `part` in several slices, one after the other."""
        raise NotImplementedError

    def read(self, partition: InputPartition) -> Batches:
        """Yield the rows of a range as Arrow batches.

        Raises:
            TypeError: The partition is not a range of this source.
        """
        if not isinstance(partition, Part):
            raise TypeError(f"No range: {partition}")
        schema = to_arrow_schema(self.columns, timezone="UTC")
        for rows in self.slices(partition):
            yield batch_of(rows, schema)


class KindsSource(DataSource):
    """A data source with several kinds of rows. The option `kind` says which kind is read."""

    readers: ClassVar[Mapping[str, type[RowsReader]]]

    def schema(self) -> StructType:
        """Return the columns of the rows."""
        return self.readers[self.options["kind"]].columns

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader for the kind of rows that the option `kind` names."""
        del schema  # not used: there is only one schema
        reader = self.readers[self.options["kind"]]
        return reader(self.options["password"], json.loads(self.options["given"]))


def rows_of(
    session: SparkSession,
    source: type[KindsSource],
    database_url: str,
    *,
    kind: str,
    given: Mapping[str, Any],
) -> DataFrame:
    """Return the rows of one kind as a data frame. Tasks read the rows when they run.

    `given` has the further arguments of the reader.
    """
    options = {
        # Pass the URL of the database in the option `password`, because Spark does not show the
        # value of this option.
        "password": database_url,
        "kind": kind,
        "given": json.dumps(given),
    }
    return session.read.format(source.name()).options(**options).load()
