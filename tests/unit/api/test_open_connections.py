"""A bound on open connections, which protects those at work."""

import resource

from app.api.server.open_connections import OpenConnections, connections_allowed
from tests.fakes.api_connection import ApiConnection

REQUEST = b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n1"


async def ended(*connections: ApiConnection) -> None:
    for each in connections:
        await each.end()


async def test_for_a_new_connection_the_one_that_is_idle_longest_is_closed() -> None:
    among = OpenConnections(3)
    first, second, third = (ApiConnection(among) for _ in range(3))
    # Each has asked something, the first one last.
    for each in (second, third, first):
        await each.say([REQUEST])
    fourth = ApiConnection(among)
    assert [each.closed for each in (first, second, third, fourth)] == [False, True, False, False]
    await fourth.say([REQUEST])
    assert fourth.statuses == [201]
    await second.end()
    assert len(among) == 3
    await ended(first, third, fourth)
    assert len(among) == 0


async def test_those_that_never_asked_anything_go_before_those_that_did() -> None:
    among = OpenConnections(3)
    publisher = ApiConnection(among)
    await publisher.say([REQUEST])
    silent = [ApiConnection(among) for _ in range(100)]
    # Half of a head is no request.
    await silent[-1].say([REQUEST[:20]])
    assert [each.closed for each in silent] == [True] * 98 + [False] * 2
    await publisher.say([REQUEST])
    assert publisher.statuses == [201, 201]
    await ended(publisher, *silent)
    assert len(among) == 0


async def test_where_all_are_at_work_a_new_one_is_told_to_come_again() -> None:
    among = OpenConnections(2)
    busy = [ApiConnection(among) for _ in range(2)]
    for each in busy:
        each.hold()
        await each.say([REQUEST])
    refused = ApiConnection(among)
    assert refused.closed
    assert refused.statuses == [503]
    assert b"\r\nRetry-After: 1\r\n" in refused.socket.written
    await refused.say([REQUEST])
    await refused.end()
    busy[0].release()
    await busy[0].settle()
    late = ApiConnection(among)
    await late.say([REQUEST])
    assert (late.statuses, [each.closed for each in busy]) == ([201], [True, False])
    await ended(late, *busy)
    assert len(among) == 0


async def test_one_with_requests_waiting_is_at_work_until_the_last_is_answered() -> None:
    among = OpenConnections(1)
    busy = ApiConnection(among)
    busy.hold()
    await busy.say([REQUEST * 3])
    assert ApiConnection(among).statuses == [503]
    busy.release()
    await busy.settle()
    assert busy.statuses == [201] * 3
    late = ApiConnection(among)
    assert busy.closed
    await ended(busy, late)


def test_no_more_are_allowed_than_the_system_allows_files() -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        assert connections_allowed(10) == 10
        assert connections_allowed(1 << 40) < 1 << 40
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
