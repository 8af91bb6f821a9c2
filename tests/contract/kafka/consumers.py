"""Kafka's own consumer, without what it leaves behind."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafka import KafkaConsumer


@contextmanager
def consuming(bootstrap: str, **options: Any) -> Iterator[KafkaConsumer]:  # noqa: ANN401 - as kafka-python has them
    """A consumer inside of the block; after it, its sockets are closed.

    kafka-python closes a connection when its last request is sent, such as the one to leave the
    group, but ends the loop that would send it. Then the socket stays open until it is collected,
    in the middle of another test.
    """
    client = KafkaConsumer(bootstrap_servers=bootstrap, **options)
    try:
        yield client
    finally:
        client.close()
        for left in list(client._manager._conns.values()):  # noqa: SLF001 - no other way leads there
            if left.transport is not None:
                left.transport._close()  # noqa: SLF001 - `close` does nothing a second time
