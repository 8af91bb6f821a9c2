"""Configurations of the service: on the embedded log, and on a real Kafka."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.servers.kafka import KafkaBroker


@pytest.fixture
def on_embedded_log(postgres_url: str) -> Mapping[str, str]:
    """The configuration of a service that keeps its log in PostgreSQL."""
    return {"ANGELIA_DATABASE_URL": postgres_url, "ANGELIA_AUTH": "off"}


@pytest.fixture
def on_kafka(
    postgres_url: str, kafka_broker: KafkaBroker, kafka_namespace: str
) -> Mapping[str, str]:
    """The configuration of a service on a real Kafka."""
    return {
        "ANGELIA_DATABASE_URL": postgres_url,
        "ANGELIA_KAFKA_BOOTSTRAP": kafka_broker.bootstrap,
        "ANGELIA_NAMESPACE": kafka_namespace,
        "ANGELIA_AUTH": "off",
    }


@pytest.fixture(params=["embedded", "kafka"])
def configuration(request: pytest.FixtureRequest) -> Mapping[str, str]:
    """Either of them: the test runs on both."""
    name = "on_kafka" if request.param == "kafka" else "on_embedded_log"
    chosen: Mapping[str, str] = request.getfixturevalue(name)
    return chosen


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Where the processes of a service write."""
    return tmp_path
