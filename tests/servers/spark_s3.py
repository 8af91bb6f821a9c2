"""Hadoop's connector for S3, as jars for tests: those that a runner fetches.

`python -m tests.servers.spark_s3 install` gets them once (Maven, Java 17 or newer), and keeps them
under `build/`. Nothing is skipped when a part is missing: it fails with the line that installs it.
"""

import fcntl
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from spark.connectors import HADOOP, S3, S3_WITHOUT
from tests.servers.kafka import MissingError, fetch_jars, require_commands

CACHE: Final = Path(__file__).resolve().parents[2] / "build" / f"spark-s3-{HADOOP}"
INSTALL: Final = "python -m tests.servers.spark_s3 install"

_EXCLUSION: Final = "<exclusion><groupId>{}</groupId><artifactId>{}</artifactId></exclusion>"
_DEPENDENCY: Final = """<dependency><groupId>{}</groupId><artifactId>{}</artifactId>
<version>{}</version><exclusions>{exclusions}</exclusions></dependency>"""
_POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>angelia.tests</groupId>
<artifactId>spark-s3</artifactId><version>1</version>
<dependencies>{dependencies}</dependencies></project>"""


def jars() -> Sequence[Path]:
    """The jars, fetched by the first who asks; MissingError."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (CACHE / "complete").exists():
            require_commands("java", "mvn")
            fetch_jars(CACHE, _pom(), what="Hadoop's connector for S3", install=INSTALL)
    return sorted((CACHE / "libs").glob("*.jar"))


def _pom() -> str:
    excluded = "".join(_EXCLUSION.format(*each.split(":")) for each in S3_WITHOUT)
    wanted = (_DEPENDENCY.format(*each.split(":"), exclusions=excluded) for each in S3)
    return _POM.format(dependencies="".join(wanted))


if __name__ == "__main__":
    if sys.argv[1:] != ["install"]:
        sys.exit(f"usage: {INSTALL}")
    try:
        print(*jars(), sep="\n")  # noqa: T201 - this is a command
    except MissingError as error:
        sys.exit(str(error))
