"""Spark where files have the names of our modules, or of Python's."""

import subprocess
import sys
from pathlib import Path

import pytest

from app.cli.python import python_environment
from app.config import Settings
from tests.fakes.hostile_directory import HostileDirectory
from tests.servers import java

PATIENCE_S = 280
# For one small query: nothing is compiled that does not pay before the test ends.
FRUGAL_JAVA = {"JAVA_TOOL_OPTIONS": " ".join(java.OPTIONS)}
PROGRAM = """
from app.config import Settings
from spark.session import new_session
session = new_session(Settings())
rows = session.range(3).mapInPandas(lambda frames: frames, "id long").collect()
print([row.id for row in rows])
session.stop()
"""


@pytest.mark.timeout(300)
@pytest.mark.long
def test_python_workers_run_nothing_of_it(tmp_path: Path) -> None:
    hostile = HostileDirectory(tmp_path / "hostile")
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM],
        cwd=hostile.path,
        env={**python_environment(Settings(spark_master="local[1]")), **FRUGAL_JAVA},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.stdout.splitlines() == ["[0, 1, 2]"], done.stderr
    assert hostile.run == ""
