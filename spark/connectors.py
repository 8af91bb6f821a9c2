"""The jars that Spark needs for Kafka and for S3, if these are configured."""

import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pyspark

from app.config import Settings

# From Maven Central at the start of a session; the version of PySpark, and of its Scala.
KAFKA: Final = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
# The version of Hadoop in PySpark, and of the SDK with which it was built.
HADOOP: Final = "3.5.0"
_SDK: Final = "2.35.4"
S3: Final = (
    f"org.apache.hadoop:hadoop-aws:{HADOOP}",
    f"software.amazon.awssdk:s3-transfer-manager:{_SDK}",
    f"software.amazon.awssdk:sts:{_SDK}",
)
# One jar of 650 MB with all of Amazon's services, of which only a few small jars are needed for S3;
# and what Spark already has.
S3_WITHOUT: Final = ("software.amazon.awssdk:bundle", "io.netty:*", "org.slf4j:*")


def connectors(settings: Settings) -> Mapping[str, str]:
    """Return the configuration of a session for these jars; empty if none is needed."""
    wanted = ",".join(_packages(settings))
    if not wanted:
        return {}
    if settings.spark_jars is not None:
        jars = sorted(settings.spark_jars.glob("*.jar"))
        return {"spark.jars": ",".join(str(each) for each in jars)}
    excluded = {"spark.jars.excludes": ",".join(S3_WITHOUT)} if settings.spark_on_s3 else {}
    return {"spark.jars.packages": wanted} | excluded | _fetched_to()


def _fetched_to() -> dict[str, str]:
    """By default Ivy keeps jars in the home of the user; in containers and units nobody may."""
    if os.access(Path.home(), os.W_OK):
        return {}
    # Of a name that nobody knows before: others must not put jars there.
    return {"spark.jars.ivy": tempfile.mkdtemp(prefix="angelia-ivy-")}


def _packages(settings: Settings) -> Iterator[str]:
    if settings.kafka_bootstrap is not None:
        yield KAFKA
    if settings.spark_on_s3:
        yield from S3
