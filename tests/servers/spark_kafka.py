"""Spark's Kafka connector for tests, as jars.

`python -m tests.servers.spark_kafka install` gets them once (Maven, Java 17 or newer), and keeps
them under `build/`. Nothing is skipped when a part is missing: it fails with the line that installs
it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.servers.spark_jars import Connector, command

_VERSION: Final = "4.2.0"
_CONNECTOR: Final = Connector(
    name="spark-kafka",
    version=_VERSION,
    what="Spark's connector",
    install="python -m tests.servers.spark_kafka install",
    # Not every mirror has each version of the token provider; any of them does for a broker without
    # passwords.
    jars=(
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{_VERSION}",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.2",
        "org.apache.commons:commons-pool2:2.13.1",
    ),
    # Spark brings the rest.
    excluded=("*:*",),
)


def jars() -> Sequence[Path]:
    """The jars, fetched by the first who asks; MissingError."""
    return _CONNECTOR.fetched()


if __name__ == "__main__":
    command(jars, install=_CONNECTOR.install)
