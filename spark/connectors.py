"""The jars that Spark needs beside its own: for Kafka and for S3, each where that is configured."""

from collections.abc import Iterator, Mapping
from typing import Final

import pyspark

from app.config import Settings

# Fetched from Maven Central when a session starts; of PySpark's version, and Scala's.
KAFKA: Final = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
# Of the Hadoop that PySpark has in it, and of the SDK that this one was built with.
HADOOP: Final = "3.5.0"
_SDK: Final = "2.35.4"
S3: Final = (
    f"org.apache.hadoop:hadoop-aws:{HADOOP}",
    f"software.amazon.awssdk:s3-transfer-manager:{_SDK}",
    f"software.amazon.awssdk:sts:{_SDK}",
)
# All of Amazon's services in one jar of 650 MB, of which S3 is in the few of ours; and what Spark
# has itself.
S3_WITHOUT: Final = ("software.amazon.awssdk:bundle", "io.netty:*", "org.slf4j:*")


def connectors(settings: Settings) -> Mapping[str, str]:
    """The configuration that brings them to a session; nothing where nothing is needed."""
    wanted = ",".join(_packages(settings))
    if not wanted:
        return {}
    if settings.spark_jars is not None:
        jars = sorted(settings.spark_jars.glob("*.jar"))
        return {"spark.jars": ",".join(str(each) for each in jars)}
    excluded = {"spark.jars.excludes": ",".join(S3_WITHOUT)} if settings.spark_on_s3 else {}
    return {"spark.jars.packages": wanted} | excluded


def _packages(settings: Settings) -> Iterator[str]:
    if settings.kafka_bootstrap is not None:
        yield KAFKA
    if settings.spark_on_s3:
        yield from S3
