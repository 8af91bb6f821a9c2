"""What the targets of the Makefile would run."""

import os
import re
import subprocess
from typing import Final

import pytest

from tests.architecture.tree import ROOT

HISTORY: Final = "tests.servers.previous install"
INTERPRETED: Final = "ANGELIA_INTERPRETED=1 .venv/bin/python -m pytest"
# What a `make` that runs the tests says to another one.
OF_MAKE: Final = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "ARGS", "NATIVE", "MINUTES")


def run_by(*words: str) -> str:
    """The commands that `make` would run, which it only prints."""
    environment = {name: value for name, value in os.environ.items() if name not in OF_MAKE}
    command = ["make", "--dry-run", *words]
    return subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


@pytest.mark.parametrize(
    "target", ["test", "test-native", "test-image", "test-s3", "test-msk", "bench"]
)
def test_what_is_run_at_every_step_needs_no_history(target: str) -> None:
    assert HISTORY not in run_by(target)


def test_long_tests_have_the_version_before_at_hand() -> None:
    assert HISTORY in run_by("test-long")


@pytest.mark.parametrize(
    "target", ["test", "unit", "test-long", "test-image", "test-s3", "test-msk"]
)
def test_tests_run_the_sources(target: str) -> None:
    assert INTERPRETED in run_by(target)


@pytest.mark.parametrize("target", ["tests", "unit", "test-long"])
def test_tests_run_what_is_compiled_where_they_are_told_to(target: str) -> None:
    commands = run_by(target, "NATIVE=1")
    assert "build_ext" in commands
    assert INTERPRETED not in commands


@pytest.mark.parametrize("arguments", ["-k 'a and b'", '-k "a and b"', "-x"])
def test_long_tests_that_are_chosen_are_run_alone(arguments: str) -> None:
    commands = run_by("test-long", f"ARGS={arguments}")
    assert commands.splitlines()[-1].endswith(arguments)


def test_all_long_tests_end_with_those_of_what_is_compiled() -> None:
    assert "tests/integration/worker" in run_by("test-long")


def test_the_first_package_of_tests_is_uv_as_the_lock_names_it() -> None:
    lines = run_by("--assume-new=requirements-dev.lock", "unit").splitlines()
    chosen = next(line for line in lines if line.startswith("sed ")).partition("|")[0]
    named = subprocess.run(
        ["/bin/sh", "-c", chosen], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    assert re.findall(r"^(\w+)==[\w.]+ \\$", named, re.MULTILINE) == ["uv"]
    assert "--hash=sha256:" in named


def test_what_users_run_is_installed_by_pip_alone() -> None:
    commands = run_by("--assume-new=requirements.lock", "setup")
    assert "-m pip" in commands
    assert "bin/uv" not in commands


def test_long_tests_ask_for_a_compiler_before_they_run_anything() -> None:
    commands = run_by("test-long")
    assert commands.index("python3-dev") < commands.index("openjdk")


@pytest.mark.parametrize(
    ("words", "minutes"), [(["soak"], 120), (["soak", "MINUTES=10"], 10), (["fuzz"], 10)]
)
def test_what_takes_minutes_takes_as_many_as_it_is_told(words: list[str], minutes: int) -> None:
    assert run_by(*words).splitlines()[-1].rstrip().endswith(f"--minutes {minutes}")
