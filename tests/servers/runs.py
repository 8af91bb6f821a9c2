"""The folder that the processes of one test run share."""

import os
from pathlib import Path

import pytest


def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the test run, which is the same in each process of pytest-xdist."""
    base = tmp_path_factory.getbasetemp()
    # Each process of pytest-xdist has a folder of its own in the folder of the run.
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
