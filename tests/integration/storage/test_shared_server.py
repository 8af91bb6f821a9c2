"""The PostgreSQL that the processes of a test run share."""

import tempfile
from pathlib import Path

import psycopg
import pytest

from tests.servers.postgres import TEMPLATE, shared_server, url_of


@pytest.mark.long
def test_the_first_starts_it_and_the_last_removes_it() -> None:
    with tempfile.TemporaryDirectory(prefix="angelia-test-") as directory:
        home, turns = Path(directory) / "home", Path(directory) / "turn"
        with shared_server(home, turns) as first:
            with shared_server(home, turns) as second:
                assert second == first
            with psycopg.connect(url_of(first, TEMPLATE)) as connection:
                assert connection.execute("SELECT count(*) FROM topics").fetchone() == (0,)
        assert not home.exists()
