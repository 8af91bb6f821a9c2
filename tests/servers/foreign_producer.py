"""Foreign producers of Kafka: programs that write records without Angelia."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from kafka import KafkaProducer

from tests.servers.kafka import SharedBroker


class ForeignProducer:
    """Writes to a topic in Kafka as any other program does, with the library kafka-python."""

    def __init__(self, broker: SharedBroker, topic: str) -> None:
        """Prepare to write; `topic` is the full name of the topic in Kafka, with the namespace."""
        self._bootstrap = broker.bootstrap
        self.topic = topic

    @contextmanager
    def producer(self, **settings: object) -> Iterator[KafkaProducer]:
        """Yield a producer of kafka-python with these settings."""
        producer = KafkaProducer(bootstrap_servers=self._bootstrap, linger_ms=50, **settings)
        try:
            yield producer
        finally:
            producer.close()

    def send(
        self, records: Sequence[Mapping[str, object]], *, partition: int = 0, **settings: object
    ) -> None:
        """Send records to one partition. Each record has the arguments of kafka-python's `send`."""
        with self.producer(**settings) as producer:
            for record in records:
                producer.send(self.topic, partition=partition, **record)
            producer.flush()

    def transact(self, values: list[bytes], *, commit: bool) -> None:
        """Write records with these values in one transaction, and commit or abort it."""
        with self.transaction(values) as producer:
            if commit:
                producer.commit_transaction()
            else:
                producer.abort_transaction()

    @contextmanager
    def transaction(self, values: list[bytes]) -> Iterator[KafkaProducer]:
        """Yield a producer that has written these values in a transaction, which is still open."""
        with self.producer(transactional_id=f"{self.topic}-tx") as producer:
            producer.init_transactions()
            producer.begin_transaction()
            for value in values:
                producer.send(self.topic, value=value, partition=0)
            producer.flush()
            yield producer
