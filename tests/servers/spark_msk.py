"""The jars of Amazon's login for Kafka, for tests: the same jars that a Spark runner fetches.

`python -m tests.servers.spark_msk install` fetches them once (with Maven and Java 17 or newer), and
stores them under `build/`. If they cannot be fetched, the tests fail with the line to run: they are
not skipped.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from spark.connectors import MSK_IAM, MSK_IAM_WITHOUT
from tests.servers.spark_jars import Connector, command

_CONNECTOR: Final = Connector(
    name="spark-msk",
    version=MSK_IAM.rpartition(":")[2],
    what="Amazon's login at its Kafka",
    install="python -m tests.servers.spark_msk install",
    jars=(MSK_IAM,),
    excluded=MSK_IAM_WITHOUT,
)


def jars() -> Sequence[Path]:
    """Return the jars. The first process that calls this fetches them.

    Raises:
        MissingError: The jars cannot be fetched; the message has the line to run.
    """
    return _CONNECTOR.fetched()


if __name__ == "__main__":
    command(jars, install=_CONNECTOR.install)
