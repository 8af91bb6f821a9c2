import socket
from pathlib import Path

import pytest

from app.cli.commands.up.lock import only_one
from app.cli.commands.up.port import free_port
from app.cli.errors import CliError

HOST = "127.0.0.1"


def test_a_taken_port_is_refused_and_another_one_named() -> None:
    with socket.create_server((HOST, 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(CliError, match=f"Port {port} on {HOST} is in use") as caught:
            free_port(HOST, port)
    assert "--port" in caught.value.hint


def test_a_free_port_is_left_free() -> None:
    port = free_port(HOST, 0)
    assert free_port(HOST, port) == port
    with socket.create_server((HOST, port)):
        pass


def test_an_address_that_is_not_ours_is_refused_in_words() -> None:
    with pytest.raises(CliError, match="Cannot listen"):
        free_port("192.0.2.1", 8090)


def test_a_second_one_in_the_same_home_is_told_where_the_first_is(tmp_path: Path) -> None:
    with (
        only_one(tmp_path / "home", "http://127.0.0.1:1234"),
        pytest.raises(CliError, match=r"http://127\.0\.0\.1:1234"),
        only_one(tmp_path / "home", "http://127.0.0.1:5678"),
    ):
        pass


def test_a_home_is_free_again_afterwards(tmp_path: Path) -> None:
    for _ in range(2):
        with only_one(tmp_path, "http://127.0.0.1:1234"):
            pass
