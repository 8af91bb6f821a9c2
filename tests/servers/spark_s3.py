"""Hadoop's connector for S3, as jars for tests: those that a runner fetches.

`python -m tests.servers.spark_s3 install` gets them once (Maven, Java 17 or newer), and keeps them
under `build/`. Nothing is skipped when a part is missing: it fails with the line that installs it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from spark.connectors import HADOOP, S3, S3_WITHOUT
from tests.servers.spark_jars import Connector, command

_CONNECTOR: Final = Connector(
    name="spark-s3",
    version=HADOOP,
    what="Hadoop's connector for S3",
    install="python -m tests.servers.spark_s3 install",
    jars=S3,
    excluded=S3_WITHOUT,
)


def jars() -> Sequence[Path]:
    """The jars, fetched by the first who asks; MissingError."""
    return _CONNECTOR.fetched()


if __name__ == "__main__":
    command(jars, install=_CONNECTOR.install)
