"""The jars that Spark needs for Kafka and for S3, if Kafka or S3 is configured."""

import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pyspark

from app.config import Settings

# The name of Spark's Kafka connector at Maven Central. The connector must have the same version as
# PySpark, and must be built for the same version of Scala as Spark.
KAFKA: Final = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
# The version of Hadoop that PySpark contains.
HADOOP: Final = "3.5.0"
# The version of the Amazon SDK with which this version of Hadoop was built.
_SDK: Final = "2.35.4"
S3: Final = (
    f"org.apache.hadoop:hadoop-aws:{HADOOP}",
    f"software.amazon.awssdk:s3-transfer-manager:{_SDK}",
    f"software.amazon.awssdk:sts:{_SDK}",
)
# The jar for the login to Amazon's Kafka, and the dependencies of this jar that are left out
# because Spark already has them.
MSK_IAM: Final = "software.amazon.msk:aws-msk-iam-auth:2.3.5"
MSK_IAM_WITHOUT: Final = ("com.fasterxml.jackson.core:*", "io.netty:*", "org.slf4j:*")
# The dependencies of the S3 connector that are left out: jars that Spark already has, and a jar of
# 650 MB with all of Amazon's services. S3 needs only a few small jars of these services.
S3_WITHOUT: Final = ("software.amazon.awssdk:bundle", "io.netty:*", "org.slf4j:*")


def connectors(settings: Settings) -> Mapping[str, str]:
    """Return the Spark settings that load the jars for Kafka and S3; empty if none are needed."""
    wanted = ",".join(_packages(settings))
    if not wanted:
        return {}
    if settings.spark_jars is not None:
        jars = sorted(settings.spark_jars.glob("*.jar"))
        return {"spark.jars": ",".join(str(each) for each in jars)}
    excluded = ",".join(dict.fromkeys(_excluded(settings)))
    without = {"spark.jars.excludes": excluded} if excluded else {}
    return {"spark.jars.packages": wanted} | without | _fetched_to()


def _fetched_to() -> dict[str, str]:
    """Return the Spark setting for the folder into which Spark downloads jars.

    The result is empty if Spark's default can be used. The default is in the user's home folder,
    which is often not writable in containers and systemd units.
    """
    if os.access(Path.home(), os.W_OK):
        return {}
    # Download jars into a folder whose name nobody can guess, so that other users cannot put jars
    # there.
    return {"spark.jars.ivy": tempfile.mkdtemp(prefix="angelia-ivy-")}


def _packages(settings: Settings) -> Iterator[str]:
    if settings.kafka_bootstrap is not None:
        yield KAFKA
        if settings.kafka_security.by_msk_iam:
            yield MSK_IAM
    if settings.spark_on_s3:
        yield from S3


def _excluded(settings: Settings) -> Iterator[str]:
    if settings.spark_on_s3:
        yield from S3_WITHOUT
    if MSK_IAM in _packages(settings):
        yield from MSK_IAM_WITHOUT
