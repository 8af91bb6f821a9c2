"""Amazon's login at its Kafka for Java, as jars for tests: those that a runner fetches.

`python -m tests.servers.spark_msk install` gets them once (Maven, Java 17 or newer), and keeps them
under `build/`. Nothing is skipped when a part is missing: it fails with the line that installs it.
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
    """The jars, fetched by the first who asks; MissingError."""
    return _CONNECTOR.fetched()


if __name__ == "__main__":
    command(jars, install=_CONNECTOR.install)
