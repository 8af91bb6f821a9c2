"""Other people's producers of Kafka."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from kafka import KafkaProducer

from tests.servers.kafka import SharedBroker


class ForeignProducer:
    """Writes to a topic in Kafka as anybody does, by kafka-python."""

    def __init__(self, broker: SharedBroker, topic: str) -> None:
        """`topic` is its full name."""
        self._bootstrap = broker.bootstrap
        self.topic = topic

    @contextmanager
    def producer(self, **settings: object) -> Iterator[KafkaProducer]:
        """One with these settings of kafka-python's."""
        producer = KafkaProducer(bootstrap_servers=self._bootstrap, linger_ms=50, **settings)
        try:
            yield producer
        finally:
            producer.close()

    def send(
        self, records: Sequence[Mapping[str, object]], *, partition: int = 0, **settings: object
    ) -> None:
        """Records as kafka-python's `send` takes them, all to one partition."""
        with self.producer(**settings) as producer:
            for record in records:
                producer.send(self.topic, partition=partition, **record)
            producer.flush()

    def transact(self, values: list[bytes], *, commit: bool) -> None:
        """Write these in a transaction that is committed, or else aborted."""
        with self.transaction(values) as producer:
            if commit:
                producer.commit_transaction()
            else:
                producer.abort_transaction()

    @contextmanager
    def transaction(self, values: list[bytes]) -> Iterator[KafkaProducer]:
        """A transaction that is open, with these stored."""
        with self.producer(transactional_id=f"{self.topic}-tx") as producer:
            producer.init_transactions()
            producer.begin_transaction()
            for value in values:
                producer.send(self.topic, value=value, partition=0)
            producer.flush()
            yield producer
