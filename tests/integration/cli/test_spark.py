import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.cli.commands.spark import missing_for_spark

PATIENCE_S = 60


def a_java(home: Path, version: str) -> Path:
    """A folder with a Java that says no more than its version."""
    command = home / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho '{version}' >&2\n")
    command.chmod(0o755)
    return home


@pytest.mark.parametrize(
    "version", ['openjdk version "17.0.15" 2025-04-15', 'java version "21" 2023-09-19 LTS']
)
def test_a_machine_with_java_and_pyspark_lacks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path, version)))
    assert list(missing_for_spark()) == []


@pytest.mark.parametrize(
    ("version", "found"),
    [
        ('openjdk version "11.0.2"', "The Java found is 11"),
        ('java version "1.8.0_401"', "The Java found is 8"),
        ("cannot execute binary file", "No Java was found"),
    ],
)
def test_a_java_that_is_too_old_or_none_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, found: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path, version)))
    [line] = missing_for_spark()
    assert line.startswith(found)
    assert "17 or newer" in line


def test_the_command_says_what_to_install_where_java_is_missing(tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ANGELIA_")}
    environment |= {"JAVA_HOME": str(tmp_path), "ANGELIA_HOME": str(tmp_path / "home")}
    ended = subprocess.run(
        [sys.executable, "-m", "app.cli.main", "spark"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 1
    assert "No Java was found: Spark needs 17 or newer. To install it: " in ended.stderr
    assert not (tmp_path / "home").exists()
