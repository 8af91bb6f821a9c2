"""Fixtures of the tests on Spark."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from app.storage.database import Database
from tests.contract.harness import Harness, KafkaHarness, PostgresHarness
from tests.spark.retransmissions import Bench, a_bench
from tests.spark.small import small_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One session for all tests that want one, started by the first."""
    with small_session(tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.fixture(params=["postgres", "kafka"])
def harness(request: pytest.FixtureRequest) -> Harness:
    """Either log; only one for tests that are EMBEDDED or ONE_LOG."""
    if request.param == "kafka":
        return KafkaHarness(request.getfixturevalue("kafka_broker").bootstrap)
    return PostgresHarness(request.getfixturevalue("postgres_url"))


@pytest.fixture
async def bench(
    spark: SparkSession, database: Database, harness: Harness, postgres_url: str, tmp_path: Path
) -> AsyncIterator[Bench]:
    """A topic in that log, a subscription, and what jobs about them need."""
    async with a_bench(spark, database, harness, url=postgres_url, output=tmp_path) as made:
        yield made
