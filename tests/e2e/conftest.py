"""Fixtures of the end-to-end tests."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cli import Place, wait_until


@pytest.fixture
def place() -> Iterator[Place]:
    """A home and a port of its own; nothing of it may be running at the end of the test.

    Not in pytest's directory: another pytest of the same user, when it starts, closes that to the
    user that an embedded PostgreSQL runs as where the tests are run by root.
    """
    with tempfile.TemporaryDirectory(prefix="angelia-test-") as directory:
        place = Place(home=Path(directory) / "home")
        yield place
        wait_until(place.is_deserted, "a process was left behind")
