"""A home in which nothing can be kept is one clear line, whatever command finds it so."""

import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

from app.domain.errors import StorageUnavailableError
from app.storage.embedded.home import require_usable, usable_home
from tests.servers.warm import run_command_line

COMMANDS: Final = (
    ("up",),
    ("api",),
    ("worker",),
    ("worker", "--processes", "2"),
    ("migrate",),
    ("keys", "create", "shop", "--scope", "read"),
    ("check",),
)


@pytest.fixture
def a_file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.touch()
    return path


def run(home: Path, command: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    there = {"ANGELIA_HOME": str(home), "ANGELIA_PORT": "0", "COLUMNS": "1000"}
    return run_command_line(*command, environment={**os.environ, **there}, text=None, timeout=100)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_each_command_says_in_one_line_that_it_cannot_be_used(
    command: tuple[str, ...], a_file: Path
) -> None:
    done = run(a_file, command)
    assert done.returncode == 1
    said = done.stdout + done.stderr
    [line] = [line for line in said.splitlines() if "ANGELIA_HOME cannot be used" in line]
    assert f"{a_file}: It is not a folder" in line
    assert "set ANGELIA_HOME to a folder of your own" in line
    assert "Traceback" not in said
    if command != ("check",):
        assert said.strip() == line


@pytest.mark.parametrize(
    ("below", "problem"),
    [
        ("file/home", "Not a directory"),
        ("x" * 300, "File name too long"),
        ("/".join(["y" * 200] * 30), "File name too long"),
        ("loop", "It is not a folder"),
        ("/proc/angelia", "No such file or directory"),
    ],
)
def test_it_says_what_is_wrong(tmp_path: Path, a_file: Path, below: str, problem: str) -> None:
    (a_file.parent / "loop").symlink_to("loop")
    with pytest.raises(StorageUnavailableError, match=problem) as refused:
        require_usable(tmp_path / below)
    assert "\n" not in refused.value.message
    assert len(refused.value.message) < 350


def test_what_fails_for_lack_of_room_is_told_as_that(tmp_path: Path) -> None:
    def fail(room: int) -> None:
        with usable_home(tmp_path, room_of=lambda _: room):
            raise StorageUnavailableError("could not start server; Examine the log output.")

    with pytest.raises(StorageUnavailableError, match="No space left on device"):
        fail(1_000)
    with pytest.raises(StorageUnavailableError, match="Examine the log"):
        fail(1 << 30)


def test_a_home_is_made_where_there_is_none(tmp_path: Path) -> None:
    with usable_home(tmp_path / "a" / "b") as place:
        assert list(place.iterdir()) == []
