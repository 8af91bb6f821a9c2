"""Single commands that are started where files have the names of our modules, or of Python's.

`test_cli_up.py` starts the whole service there.
"""

from dataclasses import replace

import pytest

from tests.e2e.cli import Place
from tests.fakes.hostile_directory import HostileDirectory


@pytest.fixture
def hostile(place: Place) -> HostileDirectory:
    return HostileDirectory(place.home.parent / "hostile")


@pytest.mark.long
def test_single_processes_run_nothing_of_it(place: Place, hostile: HostileDirectory) -> None:
    there = replace(place, directory=hostile.path)
    migrated = there.run("migrate")
    assert migrated.returncode == 0, migrated.stderr
    with there.started("api") as process:
        process.says("Uvicorn running")
        process.interrupt()
    with there.started("worker", "--processes", "2") as workers:
        second = workers.says("worker_starting", after=workers.says("worker_starting"))
        assert second
        workers.interrupt()
    assert hostile.run == ""
