"""Configurations of the service: on the embedded log, and on a real Kafka."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.fakes.keys import KEY
from tests.servers.kafka import SharedBroker
from tests.servers.old_postgres import OLD_POSTGRESES, VERSIONS

# Settings of all services. Tests of keys and secrets replace them.
_COMMON: Final = {"ANGELIA_AUTH": "off", "ANGELIA_SECRET_KEY": KEY}


@pytest.fixture
def on_embedded_log(postgres_url: str) -> Mapping[str, str]:
    """The configuration of a service that keeps its log in PostgreSQL."""
    return {"ANGELIA_DATABASE_URL": postgres_url, **_COMMON}


@pytest.fixture
def on_kafka(
    postgres_url: str, kafka_broker: SharedBroker, kafka_namespace: str
) -> Mapping[str, str]:
    """The configuration of a service on a real Kafka of the newest version."""
    return _on(kafka_broker, postgres_url, kafka_namespace)


@pytest.fixture
def on_old_kafka(
    request: pytest.FixtureRequest, postgres_url: str, kafka_namespace: str
) -> Mapping[str, str]:
    """The configuration of a service on an older Kafka. The parameter names its fixture."""
    return _on(request.getfixturevalue(request.param), postgres_url, kafka_namespace)


def _on(broker: SharedBroker, postgres_url: str, namespace: str) -> Mapping[str, str]:
    return {
        "ANGELIA_DATABASE_URL": postgres_url,
        "ANGELIA_KAFKA_BOOTSTRAP": broker.bootstrap,
        "ANGELIA_NAMESPACE": namespace,
        **_COMMON,
    }


# For tests of behaviour that does not depend on the log: `make test` runs them on Kafka only, and
# `make test-long` on both logs.
_ONE_LOG: Final = ("kafka", pytest.param("embedded", marks=pytest.mark.long))
ONE_LOG: Final = pytest.mark.parametrize("configuration", _ONE_LOG, indirect=True)
# The same as ONE_LOG, and also the embedded log on each older PostgreSQL.
ONE_LOG_AND_OLD_POSTGRES: Final = pytest.mark.parametrize(
    "configuration", [*_ONE_LOG, *OLD_POSTGRESES], indirect=True
)


@pytest.fixture(params=["embedded", "kafka"])
def configuration(request: pytest.FixtureRequest) -> Iterator[Mapping[str, str]]:
    """Yield a configuration: each test that uses this fixture runs on each kind of log."""
    if request.param not in VERSIONS:
        yield request.getfixturevalue("on_kafka" if request.param == "kafka" else "on_embedded_log")
        return
    server = request.getfixturevalue(request.param)
    with server.database() as name:
        yield {"ANGELIA_DATABASE_URL": server.verified(name), **_COMMON}


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Return the folder for the output of a service's processes."""
    return tmp_path
