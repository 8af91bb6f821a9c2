"""The jars of Spark's connector for Kafka, for tests.

`python -m tests.servers.spark_kafka install` fetches them once (with Maven and Java 17 or newer),
and stores them under `build/`. If they cannot be fetched, the tests fail with the line to run: they
are not skipped.
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
    # The token provider has an older version, because some mirrors lack the newest one. For a
    # broker without passwords, any version works.
    jars=(
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{_VERSION}",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.2",
        "org.apache.commons:commons-pool2:2.13.1",
    ),
    # Fetch no dependencies, because Spark has the other jars.
    excluded=("*:*",),
)


def jars() -> Sequence[Path]:
    """Return the jars. The first process that calls this fetches them.

    Raises:
        MissingError: The jars cannot be fetched; the message has the line to run.
    """
    return _CONNECTOR.fetched()


if __name__ == "__main__":
    command(jars, install=_CONNECTOR.install)
