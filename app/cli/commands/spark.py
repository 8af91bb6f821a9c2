"""`angelia spark`: a process that runs Spark jobs, and what executors need for them."""

import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import typer

from app.cli import output
from app.cli.errors import CliError
from app.cli.replacement import become
from app.cli.settings import settings_with
from app.config import java_command

JAVA_MIN: Final = 17
PACKAGES: Final = ("pandas>=2.2,<3", "pyarrow>=18,<27", "pyspark==4.2.0")

_APT: Final = "sudo apt-get install -y openjdk-17-jre-headless"
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_ANSWER_TIMEOUT_S: Final = 20


spark = typer.Typer(add_completion=False)


@spark.callback(invoke_without_command=True)
def run(context: typer.Context) -> None:
    """Run one Spark runner, which does the requested jobs.

    Needs Java 17 or newer and PySpark, and reports how to install what is missing.
    """
    if context.invoked_subcommand is not None:
        return
    settings = settings_with()
    _require(missing_for_spark())
    output.err.print(f"Doing Spark jobs on {settings.spark_master}; Ctrl-C stops it.")
    become("spark", settings)


@spark.command()
def pack(
    target: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File to write; default: named for version and platform."
        ),
    ] = None,
) -> None:
    """Write an archive of Angelia for executors, so that nothing is installed on them.

    It fits executors with the platform and the version of Python of this machine. Prints the
    lines for spark-defaults.conf that use the archive.
    """
    from app.cli.executor_archive import archive_name, uses_of, write_archive  # noqa: PLC0415 - `angelia up` does not need it

    _require(_missing_packages())
    path = (target or Path(archive_name())).absolute()
    try:
        size = write_archive(path)
    except OSError as exc:
        raise CliError(f"{path} cannot be written: {exc.strerror}") from exc
    output.err.print(f"{path} has {size / 1e6:,.0f} MB. For spark-defaults.conf:")
    output.write_text("\n".join(f"{name:30}{value}" for name, value in uses_of(path).items()))


def _require(missing: Iterator[str]) -> None:
    """Raise CliError if `missing` has anything that Spark jobs need."""
    if hints := list(missing):
        raise CliError("Spark jobs cannot run here.", hint="\n".join(hints))


def missing_for_spark() -> Iterator[str]:
    """Yield what this machine lacks for a Spark runner, each with a command to install it."""
    command = java_command()
    found = None if command is None else _java_version(command)
    if found is None or found < JAVA_MIN:
        what = "No Java was found" if found is None else f"The Java found is {found} ({command})"
        how = _APT if shutil.which("apt-get") else "install a Java runtime, and set JAVA_HOME to it"
        yield f"{what}: Spark needs {JAVA_MIN} or newer. To install it: {how}"
    yield from _missing_packages()


def _missing_packages() -> Iterator[str]:
    absent = [each for each in PACKAGES if importlib.util.find_spec(_module(each)) is None]
    if absent:
        wanted = " ".join(f"'{each}'" for each in PACKAGES)
        yield f"PySpark is not installed. To install it: {sys.executable} -m pip install {wanted}"


def _module(requirement: str) -> str:
    return re.split(r"[<>=]", requirement)[0]


def _java_version(command: str) -> int | None:
    """Return the major version of the Java at `command`; None if the command fails."""
    try:
        answer = subprocess.run(  # noqa: S603 - the Java that Spark itself would start
            [command, "-version"],
            capture_output=True,
            text=True,
            timeout=_ANSWER_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(answer.stderr + answer.stdout)
    return int(found[1]) if found else None
