"""Fixtures for all tests: the real servers."""

pytest_plugins = ["tests.servers.postgres", "tests.servers.kafka", "tests.servers.service"]
