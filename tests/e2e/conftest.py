"""Fixtures of the end-to-end tests."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.cli import Place, wait_until


@pytest.fixture
def place() -> Iterator[Place]:
    """A home and a port of its own; nothing of it may be running at the end of the test."""
    with _deserted_place() as place:
        yield place


@pytest.fixture(scope="package")
def served_place() -> Iterator[Place]:
    """Where `angelia up` runs for all tests that only use it: each with topics of its own name.

    It ends with the tests of this folder: idle, it would take CPU for the rest of the run.
    """
    with _deserted_place() as place, place.started("up") as up:
        up.says("Angelia is ready")
        yield place
        assert up.interrupt() == 0, up.output


@contextmanager
def _deserted_place() -> Iterator[Place]:
    """A place at whose end nothing may be running.

    Not in pytest's directory: another pytest of the same user, when it starts, closes that to the
    user that an embedded PostgreSQL runs as where the tests are run by root.
    """
    with tempfile.TemporaryDirectory(prefix="angelia-test-") as directory:
        place = Place(home=Path(directory) / "home")
        yield place
        wait_until(place.is_deserted, "a process was left behind")
