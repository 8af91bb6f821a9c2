"""Fixtures of the tests on Spark."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.spark.small import small_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One session for all tests that want one, started by the first."""
    with small_session(tmp_path_factory.mktemp("spark")) as session:
        yield session
