"""Runs the contract suite over every log."""

from collections.abc import AsyncIterator, Iterator

import pytest

from app.log.interface import MessageLog
from tests.contract.harness import (
    Harness,
    KafkaHarness,
    MemoryHarness,
    PostgresHarness,
    SimulatedHarness,
)
from tests.servers.old_kafka import OLD_KAFKAS, VERSIONS
from tests.servers.old_postgres import VERSIONS as OLD_POSTGRES

# Besides these, `make test` has tests/contract/kafka/test_secured.py.
SECURED = [pytest.param(name, marks=pytest.mark.long) for name in ("sasl_ssl", "mutual", "oauth")]

# Servers as companies have them, by TLS and with a password, beside the embedded one.
COMPANIES = ("debian_postgres", *OLD_POSTGRES)
_LONG = [pytest.param(name, marks=pytest.mark.long) for name in COMPANIES]


@pytest.fixture(params=["memory", "simulated", "postgres", "kafka", *OLD_KAFKAS, *_LONG, *SECURED])
def harness(request: pytest.FixtureRequest) -> Iterator[Harness]:
    """A log of each kind; only the server that is asked for is started."""
    if request.param not in COMPANIES:
        yield _harness(request)
        return
    server = request.getfixturevalue(request.param)
    with server.database() as name:
        yield PostgresHarness(server.verified(name))


def _harness(request: pytest.FixtureRequest) -> Harness:
    if request.param == "simulated":
        return SimulatedHarness()
    if request.param == "postgres":
        return PostgresHarness(request.getfixturevalue("postgres_url"))
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
