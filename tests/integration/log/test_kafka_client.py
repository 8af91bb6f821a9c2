"""Connections of kafka-python's, to where brokers say that others are."""

from copy import copy

import pytest

from app.log.kafka.bridge import IoThread
from app.log.kafka.client import Client, NotSentError
from tests.integration.log.brokers import PLAIN
from tests.servers.kafka import SharedBroker

ELSEWHERE = 77


@pytest.mark.parametrize(
    ("host", "port"), [("127.0.0.1", 70_000), ("a..b", 9092), ("a" * 64, 9092), ("127.0.0.1", 1)]
)
async def test_nothing_is_sent_to_where_no_broker_can_be(
    kafka_broker: SharedBroker, host: str, port: int
) -> None:
    io = IoThread("test")

    async def ask() -> None:
        client = Client(
            io, kafka_broker.bootstrap, credentials=PLAIN, name="test", request_timeout=3.0
        )
        try:
            await client.ready()
            cluster = client.manager.cluster
            (known,) = cluster.brokers()
            other = copy(known)
            other.node_id, other.host, other.port = ELSEWHERE, host, port
            cluster._brokers[ELSEWHERE] = other  # noqa: SLF001 - as a broker would say
            await client.send(ELSEWHERE, None)
        finally:
            client.close()

    try:
        with pytest.raises(NotSentError):
            await io.run(ask)
    finally:
        await io.close()
