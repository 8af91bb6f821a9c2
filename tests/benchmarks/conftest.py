"""Fixtures of the benchmarks."""

from collections.abc import Iterator

import pytest

from tests.benchmarks import cores
from tests.servers.kafka import SharedBroker


@pytest.fixture
def broker_aside(kafka_broker: SharedBroker) -> Iterator[None]:
    """Keep the broker off the core of what is measured."""
    cores.move(kafka_broker.pid, cores.OTHERS)
    yield
    cores.move(kafka_broker.pid, cores.MEASURED | cores.OTHERS)
