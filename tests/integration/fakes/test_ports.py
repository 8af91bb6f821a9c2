"""Ports that are kept for a process that is not there yet, or is started again."""

import errno
import socket

import pytest

from tests.servers.ports import free_port


def test_a_server_may_listen_on_it_again_and_again_and_nobody_listens_meanwhile() -> None:
    port = free_port()
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        with socket.create_server(("127.0.0.1", port)) as server:
            socket.create_connection(("127.0.0.1", port)).close()
            server.accept()[0].close()


def test_nobody_who_does_not_ask_for_it_gets_it() -> None:
    port = free_port()
    # As the system sees it, which chooses among what is free: it is in use.
    with socket.socket() as other, pytest.raises(OSError, match="in use") as refused:
        other.bind(("127.0.0.1", port))
    assert refused.value.errno == errno.EADDRINUSE
