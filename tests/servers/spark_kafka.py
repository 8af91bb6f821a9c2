"""Spark's Kafka connector for tests, as jars.

`python -m tests.servers.spark_kafka install` gets them once (Maven, Java 17 or newer), and keeps
them under `build/`. Nothing is skipped when a part is missing: it fails with the line that installs
it.
"""

import fcntl
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.servers.kafka import MissingError, fetch_jars, require_commands

VERSION: Final = "4.2.0"
CACHE: Final = Path(__file__).resolve().parents[2] / "build" / f"spark-kafka-{VERSION}"
INSTALL: Final = "python -m tests.servers.spark_kafka install"

# Spark brings the rest. Not every mirror has each version of the token provider; any of them does
# for a broker without passwords.
_JARS: Final = {
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13"): VERSION,
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13"): "4.0.0",
    ("org.apache.kafka", "kafka-clients"): "3.9.2",
    ("org.apache.commons", "commons-pool2"): "2.13.1",
}
_DEPENDENCY: Final = """<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>
<version>{version}</version><exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId>
</exclusion></exclusions></dependency>"""
_POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>angelia.tests</groupId>
<artifactId>spark-kafka</artifactId><version>1</version>
<dependencies>{dependencies}</dependencies></project>"""


def jars() -> Sequence[Path]:
    """The jars, fetched by the first who asks; MissingError."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (CACHE / "complete").exists():
            require_commands("java", "mvn")
            fetch_jars(CACHE, _pom(), what="Spark's connector", install=INSTALL)
    return sorted((CACHE / "libs").glob("*.jar"))


def _pom() -> str:
    wanted = "".join(
        _DEPENDENCY.format(group=group, name=name, version=version)
        for (group, name), version in _JARS.items()
    )
    return _POM.format(dependencies=wanted)


if __name__ == "__main__":
    if sys.argv[1:] != ["install"]:
        sys.exit(f"usage: {INSTALL}")
    try:
        print(*jars(), sep="\n")  # noqa: T201 - this is a command
    except MissingError as error:
        sys.exit(str(error))
