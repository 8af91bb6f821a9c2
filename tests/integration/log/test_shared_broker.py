"""The broker that the processes of a test run share."""

from pathlib import Path

import psutil
import pytest
from kafka import KafkaAdminClient

from tests.e2e.cli import wait_until
from tests.servers.kafka import shared_broker


@pytest.mark.long
def test_the_first_starts_it_and_the_last_ends_it(tmp_path: Path) -> None:
    home = tmp_path / "kafka"
    with shared_broker(home) as first:
        with shared_broker(home) as second:
            assert second == first
        client = KafkaAdminClient(bootstrap_servers=first.bootstrap)
        try:
            assert client.list_topics() == []
        finally:
            client.close()
    wait_until(lambda: not psutil.pid_exists(first.pid), "it goes on")
    assert not (home / "broker").exists()
