"""Fixtures for all tests: the real servers."""

import gc

from hypothesis import settings

pytest_plugins = ["tests.servers.postgres", "tests.servers.kafka", "tests.servers.service"]

# For `make unit`, which is to be run at every step.
settings.register_profile("quick", max_examples=25)


def pytest_collection_finish() -> None:
    """What was imported stays: the collector need not go through it every few tests."""
    gc.collect()
    gc.freeze()
