"""What the processes of one test run have in common."""

import os
from pathlib import Path

import pytest


def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the test run, the same in each process of pytest-xdist."""
    base = tmp_path_factory.getbasetemp()
    # Each of those processes has a folder of its own in that of the run.
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
