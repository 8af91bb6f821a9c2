"""Fetches jars by Maven, and checks for Java.

If a part is missing, tests fail, and name the command to run.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

JAVA_MIN: Final = 17
INSTALL_PACKAGES: Final = "apt-get update && apt-get install -y openjdk-17-jdk-headless maven"


class MissingError(RuntimeError):
    """A program that the tests need is not on this machine; the message has the line to run."""


def require_commands(*commands: str) -> None:
    """Install missing commands if possible. Raise MissingError if a command is still missing."""
    if all(_usable(command) for command in commands):
        return
    if os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["/bin/sh", "-c", INSTALL_PACKAGES], check=False)
    for command in commands:
        if not _usable(command):
            message = f"The tests need {command} (Java ≥ {JAVA_MIN}): {INSTALL_PACKAGES}"
            raise MissingError(message)


def _usable(command: str) -> bool:
    if shutil.which(command) is None:
        return False
    return command != "java" or _java_version() >= JAVA_MIN


def _java_version() -> int:
    answer = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)  # noqa: S607 - java from PATH
    found = re.search(r'version "(\d+)', answer.stderr)
    return int(found.group(1)) if found else 0


def fetch_jars(
    cache: Path,
    pom_text: str,
    *,
    what: str,
    install: str,
    unpack: Callable[[Path], None] = lambda _: None,
) -> None:
    """Let Maven fetch `what`, the dependencies of a POM, to the folder `libs` in `cache`.

    If Maven fails, MissingError names the command `install`, which the user can run. `unpack` is
    called with `cache` for further steps. The file `complete` is written last, so that an
    interrupted fetch is repeated.
    """
    pom = cache / "pom.xml"
    pom.write_text(pom_text)
    command = ["mvn", "--batch-mode", "--quiet", "-f", str(pom), "dependency:copy-dependencies"]
    fetched = subprocess.run(
        [*command, f"-DoutputDirectory={cache / 'libs'}", "-DincludeScope=runtime"],
        capture_output=True,
        text=True,
        check=False,
    )
    if fetched.returncode:
        raise MissingError(f"Maven could not fetch {what}; run: {install}\n{fetched.stdout}")
    unpack(cache)
    (cache / "complete").touch()
