"""What the tests of Kafka alone need: the log, and other people's clients beside it."""

from collections.abc import AsyncIterator, Iterator

import pytest
from kafka import KafkaAdminClient

from app.log.interface import MessageLog
from app.log.kafka import kafka_log
from tests.servers.kafka import SharedBroker


@pytest.fixture
async def log(kafka_broker: SharedBroker, kafka_namespace: str) -> AsyncIterator[MessageLog]:
    """The log, with a namespace of its own."""
    async with kafka_log(kafka_broker.bootstrap, namespace=kafka_namespace) as opened:
        yield opened


@pytest.fixture
def admin(kafka_broker: SharedBroker) -> Iterator[KafkaAdminClient]:
    """Kafka's own administration, to see what we did there."""
    client = KafkaAdminClient(bootstrap_servers=kafka_broker.bootstrap)
    try:
        yield client
    finally:
        client.close()
