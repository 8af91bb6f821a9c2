"""What the tests of Kafka alone need: the log, and other people's clients beside it."""

from collections.abc import AsyncIterator, Iterator

import pytest
from kafka import KafkaAdminClient

from app.log.interface import MessageLog
from app.log.kafka import kafka_log
from tests.servers.kafka import KafkaBroker, SharedBroker, running_broker
from tests.servers.old_kafka import OLD_KAFKAS


@pytest.fixture(params=["kafka_broker", *OLD_KAFKAS])
def each_kafka(request: pytest.FixtureRequest) -> SharedBroker:
    """A broker of each version that the test is about."""
    broker: SharedBroker = request.getfixturevalue(request.param)
    return broker


@pytest.fixture
async def log(each_kafka: SharedBroker, kafka_namespace: str) -> AsyncIterator[MessageLog]:
    """The log, with a namespace of its own."""
    async with kafka_log(each_kafka.bootstrap, namespace=kafka_namespace) as opened:
        yield opened


@pytest.fixture(scope="package")
def brokers() -> Iterator[tuple[KafkaBroker, KafkaBroker]]:
    """A cluster of two, each in a rack of its own; the first is its controller and stays up."""
    with running_broker() as first, running_broker(joins=first) as second:
        yield first, second


@pytest.fixture
def admin(each_kafka: SharedBroker) -> Iterator[KafkaAdminClient]:
    """Kafka's own administration, to see what we did there."""
    client = KafkaAdminClient(bootstrap_servers=each_kafka.bootstrap)
    try:
        yield client
    finally:
        client.close()
