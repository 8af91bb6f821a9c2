"""Reads traces of deliveries as a data frame, in slices of time. Each slice has its own task.

Like `spark.records`, this module needs no jar, and works with an embedded PostgreSQL.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from app.domain.job import JobScope
from app.storage.spark.trace_rows import When, slices, traced_rows
from spark.batches import Batches, batch_of
from spark.schemas import TRACED

# The longest time from a message's first attempt to its end. A time to live is at most two hours,
# and the last attempt may take some time.
LOOK_BACK: Final = timedelta(hours=3)
_ARROW: Final = to_arrow_schema(TRACED, timezone="UTC")


def traced(session: SparkSession, database_url: str, scope: JobScope) -> DataFrame:
    """Return the traces of deliveries in the time of `scope`, and in the time LOOK_BACK before.

    The result has the columns `TRACED`.
    """
    options = {
        # Pass the URL of the database in the option `password`, because Spark does not show the
        # value of this option.
        "password": database_url,
        "start": scope.start.isoformat(),
        "end": scope.end.isoformat(),
        "scope": json.dumps({"topic": scope.topic, "subscription": scope.subscription}),
    }
    return session.read.format(TracesSource.name()).options(**options).load()


def looked_at(scope: JobScope) -> When:
    """Return the time range of the trace entries to read.

    It begins LOOK_BACK before the time of `scope`, and has the same end.
    """
    return scope.start - LOOK_BACK, scope.end


class TracesSource(DataSource):
    """A Spark data source with traces of deliveries, read in slices of time."""

    @classmethod
    def name(cls) -> str:
        """Return the name by which Spark finds this data source."""
        return "angelia_traces"

    def schema(self) -> StructType:
        """Return the columns of the rows."""
        return TRACED

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader for the topic, subscription and time that the options name."""
        del schema  # ignore `schema`: there is only one
        start, end = (datetime.fromisoformat(self.options[name]) for name in ("start", "end"))
        scope = JobScope(start=start, end=end, **json.loads(self.options["scope"]))
        return _TracesReader(self.options["password"], scope)


@dataclass(frozen=True)
class _Slice(InputPartition):
    first: datetime
    end: datetime


class _TracesReader(DataSourceReader):
    def __init__(self, database_url: str, scope: JobScope) -> None:
        self._url = database_url
        self._scope = scope

    def partitions(self) -> Sequence[InputPartition]:
        return [_Slice(*when) for when in slices(*looked_at(self._scope))]

    def read(self, partition: InputPartition) -> Batches:
        if not isinstance(partition, _Slice):
            raise TypeError(f"No slice of time: {partition}")
        for rows in traced_rows(self._url, self._scope, (partition.first, partition.end)):
            yield batch_of(rows, _ARROW)
