"""Fetches jars that Spark needs in tests, once, and stores them under `build/`."""

import fcntl
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.servers.jars import MissingError, fetch_jars, require_commands

BUILD: Final = Path(__file__).resolve().parents[2] / "build"
_POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>angelia.tests</groupId>
<artifactId>{name}</artifactId><version>1</version>
<dependencies>{dependencies}</dependencies></project>"""
_DEPENDENCY: Final = """<dependency><groupId>{}</groupId><artifactId>{}</artifactId>
<version>{}</version><exclusions>{}</exclusions></dependency>"""
_EXCLUSION: Final = "<exclusion><groupId>{}</groupId><artifactId>{}</artifactId></exclusion>"


@dataclass(frozen=True, kw_only=True)
class Connector:
    """A set of jars with their dependencies, to fetch with Maven.

    Attributes:
        name: The name of the folder under `build/`.
        version: The version, which is a part of the folder's name.
        what: The description of the jars in error messages.
        install: The command that fetches the jars, for error messages.
        jars: The jars, each as `group:name:version`.
        excluded: Dependencies of the jars that are not fetched, each as `group:name`.
    """

    name: str
    version: str
    what: str
    install: str
    jars: Iterable[str]
    excluded: Iterable[str]

    def fetched(self) -> Sequence[Path]:
        """Return the jars. The first process that calls this fetches them, with Maven and Java.

        Raises:
            MissingError: The jars cannot be fetched; the message has the line to run.
        """
        cache = BUILD / f"{self.name}-{self.version}"
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (cache / "complete").exists():
                require_commands("java", "mvn")
                fetch_jars(cache, self._pom(), what=self.what, install=self.install)
        return sorted((cache / "libs").glob("*.jar"))

    def _pom(self) -> str:
        excluded = "".join(_EXCLUSION.format(*each.split(":")) for each in self.excluded)
        wanted = "".join(_DEPENDENCY.format(*each.split(":"), excluded) for each in self.jars)
        return _POM.format(name=self.name, dependencies=wanted)


def command(jars: Callable[[], Sequence[Path]], *, install: str) -> None:
    """Run the command line `install`: fetch the jars, and print their paths."""
    if sys.argv[1:] != ["install"]:
        sys.exit(f"usage: {install}")
    try:
        print(*jars(), sep="\n")  # noqa: T201 - this is a command
    except MissingError as error:
        sys.exit(str(error))
