"""Jars that a Spark of tests needs, fetched once and kept under `build/`."""

import fcntl
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.servers.kafka import MissingError, fetch_jars, require_commands

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
    """`jars` of a `version` without what is `excluded` (`group:name[:version]`) of theirs.

    `install` is the command that gets them; `what` they are, it says when it cannot.
    """

    name: str
    version: str
    what: str
    install: str
    jars: Iterable[str]
    excluded: Iterable[str]

    def fetched(self) -> Sequence[Path]:
        """The jars, fetched by the first who asks (Maven, Java 17 or newer); MissingError."""
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
    """What `install` does: get the jars and say where they are."""
    if sys.argv[1:] != ["install"]:
        sys.exit(f"usage: {install}")
    try:
        print(*jars(), sep="\n")  # noqa: T201 - this is a command
    except MissingError as error:
        sys.exit(str(error))
