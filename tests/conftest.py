"""Fixtures for all tests: the real servers."""

import gc
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from app import native
from app.main import COLLECT_AFTER
from tests.fakes.logging_before import logging_as_before

pytest_plugins = [
    "tests.dealing",
    "tests.servers.postgres",
    "tests.servers.kafka",
    "tests.servers.old_kafka",
    "tests.servers.debian_postgres",
    "tests.servers.old_postgres",
    "tests.servers.previous",
    "tests.servers.service",
]

# For each request httpcore looks four times for a module that is not installed, through all of the
# path: a third of the CPU of a client. Here it is known not to be there.
sys.modules.setdefault("sniffio", None)  # type: ignore[arg-type] # None: ModuleNotFoundError at once
# It makes 38 parsers when it is imported, for formats that no schema of the tests has: a second.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type] # the same

# How long an example takes is the machine's business, which others may use as well.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# Tests are run at every step; `make test-long` takes its time.
settings.register_profile("quick", settings.get_profile("patient"), max_examples=25)
settings.register_profile("thorough", settings.get_profile("patient"), max_examples=100)
settings.load_profile("quick")


def pytest_report_header() -> str:
    """Say which hot path is tested."""
    return f"hot path: {'compiled' if native.is_compiled() else 'interpreted'}"


def pytest_collection() -> None:
    """Leave the collector out until all is imported: it would take a quarter of that time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """What was imported stays: the collector need not go through it every few tests.

    It runs as seldom as in an API process. By Python's defaults it takes more than twice the CPU.
    """
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Undo after each test what a command in this process has configured of logging."""
    with logging_as_before():
        yield
