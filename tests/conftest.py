"""Fixtures for all tests: the real servers."""

import gc

from hypothesis import settings

pytest_plugins = [
    "tests.dealing",
    "tests.servers.postgres",
    "tests.servers.kafka",
    "tests.servers.service",
]

# Tests are run at every step; `make test` takes its time.
settings.register_profile("quick", max_examples=25)
settings.register_profile("thorough", max_examples=100)
settings.load_profile("quick")


def pytest_collection_finish() -> None:
    """What was imported stays: the collector need not go through it every few tests."""
    gc.collect()
    gc.freeze()
