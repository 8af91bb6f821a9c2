"""Runs the contract suite over every log."""

from collections.abc import AsyncIterator

import pytest

from app.log.interface import MessageLog
from tests.contract.harness import Harness, KafkaHarness, MemoryHarness, PostgresHarness
from tests.servers.old_kafka import OLD_KAFKAS, VERSIONS

# Besides these, `make test` has tests/contract/kafka/test_secured.py.
SECURED = [pytest.param(name, marks=pytest.mark.long) for name in ("sasl_ssl", "mutual", "oauth")]


# A server of a company's, by TLS and with a password, beside the embedded one.
DEBIAN = pytest.param("debian", marks=pytest.mark.long)


@pytest.fixture(params=["memory", "postgres", "kafka", *OLD_KAFKAS, DEBIAN, *SECURED])
def harness(request: pytest.FixtureRequest) -> Harness:
    """A log of each kind; only the server that is asked for is started."""
    if request.param == "postgres":
        return PostgresHarness(request.getfixturevalue("postgres_url"))
    if request.param == "debian":
        server = request.getfixturevalue("debian_postgres")
        return PostgresHarness(server.verified(request.getfixturevalue("debian_database")))
    if request.param in {"kafka", *VERSIONS}:
        name = "kafka_broker" if request.param == "kafka" else request.param
        return KafkaHarness(request.getfixturevalue(name).bootstrap)
    if request.param != "memory":
        broker = request.getfixturevalue("kafka_broker")
        if request.param == "oauth":
            tokens = request.getfixturevalue("tokens")
            return KafkaHarness(broker.bootstrap, broker.secured.at("oauth", oauth=tokens.oauth))
        return KafkaHarness(broker.bootstrap, broker.secured.at(request.param))
    return MemoryHarness()


@pytest.fixture
async def log(harness: Harness) -> AsyncIterator[MessageLog]:
    """One process's view of the log."""
    async with harness.opened() as opened:
        yield opened
