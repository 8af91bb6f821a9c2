"""Runs what needs a database of the test run on each version of PostgreSQL that we support."""

import pytest

from tests.servers.old_postgres import OLD_POSTGRESES

_EACH = [pytest.param("", id="embedded"), *OLD_POSTGRESES]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Begin with the embedded one; `make test-long` has the others, too."""
    if "postgres_session_url" in metafunc.fixturenames:
        metafunc.parametrize("postgres_session_url", _EACH, indirect=True, scope="session")
