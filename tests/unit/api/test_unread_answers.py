"""Clients that do not read their answers hold no connection; no server, and no network."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from app.api.server.connection import BoundedConnection
from app.api.server.open_connections import OpenConnections
from app.api.server.unread_answers import READ_MIN
from tests.fakes.api_connection import ApiConnection
from tests.fakes.moved_time import MovedTime

REQUEST = b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n1"
LARGE = 8 * 1024 * 1024
LONG_S = 2 * BoundedConnection.PATIENCE_S


class Clients:
    """Connections at one time, which end with the test, whatever comes of it."""

    def __init__(self, ends: AsyncExitStack) -> None:
        self.time = MovedTime()
        self._ends = ends

    def connect(self, among: OpenConnections | None = None) -> ApiConnection:
        connection = ApiConnection(among, time=self.time)
        self._ends.push_async_callback(connection.end)
        return connection


@pytest.fixture
async def clients() -> AsyncIterator[Clients]:
    async with AsyncExitStack() as ends:
        yield Clients(ends)


async def test_one_that_is_at_work_only_because_nothing_is_read_is_cut(clients: Clients) -> None:
    among = OpenConnections(1)
    stuck = clients.connect(among)
    stuck.leave_unread(LARGE)
    await stuck.say([REQUEST * 2])
    assert (len(stuck.requests), stuck.statuses) == (1, [])
    assert clients.connect(among).statuses == [503]
    clients.time.passes(LONG_S)
    assert stuck.gone
    await stuck.end()
    publisher = clients.connect(among)
    await publisher.say([REQUEST])
    assert publisher.statuses == [201]


async def test_for_a_new_connection_one_that_reads_nothing_is_really_closed(
    clients: Clients,
) -> None:
    among = OpenConnections(1)
    idle = clients.connect(among)
    await idle.say([REQUEST])
    idle.leave_unread(1)
    clients.connect(among)
    assert idle.gone


async def test_a_closed_one_of_which_nothing_is_read_is_cut(clients: Clients) -> None:
    connection = clients.connect()
    # Uvicorn closes it when no other request follows in time.
    await connection.say([REQUEST])
    connection.leave_unread(1)
    clients.time.passes(BoundedConnection.PATIENCE_S / 2)
    assert (connection.closed, connection.gone) == (True, False)
    clients.time.passes(LONG_S)
    assert connection.gone


async def test_one_that_never_finished_a_head_is_watched_after_it_is_closed(
    clients: Clients,
) -> None:
    connection = clients.connect()
    await connection.say([REQUEST + REQUEST[:9]])
    connection.leave_unread(1)
    clients.time.passes(LONG_S)
    assert connection.closed
    clients.time.passes(LONG_S)
    assert connection.gone


async def test_a_slow_client_that_reads_on_gets_all_however_long_it_takes(clients: Clients) -> None:
    slow = clients.connect()
    slow.leave_unread(LARGE)
    await slow.say([REQUEST])
    for read in range(1, 100):
        slow.leave_unread(LARGE - read * READ_MIN)
        clients.time.passes(BoundedConnection.PATIENCE_S * 0.7)
    assert not slow.closed
    slow.leave_unread(0)
    await slow.settle()
    assert slow.statuses == [201]


@pytest.mark.parametrize("closed", [True, False])
async def test_one_that_reads_a_byte_now_and_then_is_cut(clients: Clients, *, closed: bool) -> None:
    slow = clients.connect()
    said = REQUEST.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") if closed else REQUEST
    slow.leave_unread(READ_MIN if closed else LARGE)
    await slow.say([said])
    for read in range(1, 10):
        slow.leave_unread((READ_MIN if closed else LARGE) - read)
        clients.time.passes(BoundedConnection.PATIENCE_S * 0.7)
    assert slow.gone


async def test_one_that_reads_a_large_answer_between_two_looks_is_not_cut_for_the_next(
    clients: Clients,
) -> None:
    client = clients.connect()
    client.hold()
    await client.say([REQUEST])
    for _ in range(10):
        # The same size is left each time it is looked at.
        client.leave_unread(LARGE)
        clients.time.passes(BoundedConnection.PATIENCE_S * 0.7)
        client.leave_unread(0)
    assert not client.closed
