"""Settings and fixtures for all tests."""

import gc
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from app import native
from app.main import COLLECT_AFTER
from tests.fakes.compiled_statements import share_compiled_statements
from tests.fakes.logging_before import log_plain_tracebacks, logging_as_before

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

# Say that the module `sniffio` is not installed. Otherwise httpcore searches the whole path for it
# four times for each request, which takes a third of the CPU time of a client.
sys.modules.setdefault("sniffio", None)  # type: ignore[arg-type] # None: an import fails
# Say that this module is not installed, either. Its import takes a second: it makes 38 parsers for
# formats that no schema of the tests has.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type] # None: an import fails

share_compiled_statements()
log_plain_tracebacks()

# Set no time limit for an example, because the machine may be busy with other work.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# `make test` tries fewer examples, because it runs often; `make test-long` tries more.
settings.register_profile("quick", settings.get_profile("patient"), max_examples=25)
settings.register_profile("thorough", settings.get_profile("patient"), max_examples=100)
settings.load_profile("quick")


def pytest_report_header() -> str:
    """Print whether the modules that run for each message are compiled."""
    return f"hot path: {'compiled' if native.is_compiled() else 'interpreted'}"


def pytest_collection() -> None:
    """Switch the garbage collector off during the imports.

    It would take a quarter of their time.
    """
    gc.disable()


def pytest_collection_finish() -> None:
    """Let the garbage collector skip the imported objects, and run as seldom as in an API process.

    With Python's defaults it takes more than twice the CPU time.
    """
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Restore the configuration of logging after each test: a command may have changed it."""
    with logging_as_before():
        yield
