"""Sessions of Spark on this machine."""

import gc

import pyspark
from pyspark.sql import SparkSession


def test_workers_begin_with_what_they_need_imported_and_compiled(spark: SparkSession) -> None:
    def seen(_: int) -> tuple[str, bool]:
        return pyspark.__file__, gc.get_freeze_count() > 0

    [(place, frozen)] = spark.sparkContext.parallelize([0], 1).map(seen).collect()
    assert place == pyspark.__file__
    assert frozen
