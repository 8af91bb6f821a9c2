"""Sessions of Spark on this machine."""

import gc
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from spark.session import prepared


def test_workers_begin_with_what_they_need_imported_and_compiled(spark: SparkSession) -> None:
    def seen(_: int) -> tuple[str, bool]:
        return pyspark.__file__, gc.get_freeze_count() > 0

    [(place, frozen)] = spark.sparkContext.parallelize([0], 1).map(seen).collect()
    assert place == pyspark.__file__
    assert frozen


class Session:
    """What is set in a session, and registered with it."""

    def __init__(self) -> None:
        self.conf: Any = self
        self.dataSource: Any = self
        self.settings: dict[str, str] = {}
        self.sources: list[type] = []

    def set(self, name: str, value: str) -> None:
        self.settings[name] = value

    def isModifiable(self, name: str) -> bool:  # noqa: N802 - PySpark's name
        return name.startswith("spark.sql.")

    def register(self, source: type) -> None:
        self.sources.append(source)


def test_times_are_in_utc_wherever_spark_runs() -> None:
    session = Session()
    given: Any = session
    assert prepared(given) is given
    assert session.settings["spark.sql.session.timeZone"] == "UTC"
    # It cannot be changed any more.
    assert "spark.speculation" not in session.settings
    assert len(session.sources) == 4
