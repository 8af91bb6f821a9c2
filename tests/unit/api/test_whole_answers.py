"""Answers that are written at once: the same bytes as ASGI's two steps, and the same ends."""

import pytest

from tests.fakes.api_connection import ApiConnection

BODY = b"Content-Length: 2\r\n\r\n{}"
REQUESTS = {
    "a kept connection": b"POST /a HTTP/1.1\r\nHost: h\r\n" + BODY,
    "the last request": b"POST /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n" + BODY,
    "1.0": b"POST /a HTTP/1.0\r\n" + BODY,
}
ID = (b"hermes-message-id", b"1-2")


async def answered(said: list[bytes], *, at_once: bool) -> tuple[bytes, bool]:
    connection = ApiConnection(at_once=at_once, headers=[ID])
    await connection.say(said)
    seen = connection.socket.written, connection.closed
    assert all(connection.sent_at_once)
    await connection.end()
    return seen


@pytest.mark.parametrize("said", REQUESTS.values(), ids=REQUESTS)
@pytest.mark.parametrize("count", [1, 3])
async def test_an_answer_is_the_same_at_once_as_in_two_steps(said: bytes, count: int) -> None:
    expected = await answered([said * count], at_once=False)
    assert expected[0]
    assert await answered([said * count], at_once=True) == expected


async def test_a_client_that_waits_to_be_told_to_go_on_gets_its_answer_at_once() -> None:
    said = [
        b"POST /a HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n",
        b"{}",
    ]
    assert await answered(said, at_once=True) == await answered(said, at_once=False)


async def test_an_answer_to_a_client_that_reads_nothing_waits_as_others_do() -> None:
    connection = ApiConnection(at_once=True)
    connection.leave_unread(1 << 20)
    await connection.say([REQUESTS["a kept connection"]])
    assert (connection.sent_at_once, connection.statuses) == ([False], [])
    connection.leave_unread(0)
    await connection.settle()
    assert connection.statuses == [201]
    await connection.end()


@pytest.mark.parametrize("value", [b"1\r\nX-Other: 2", b"1\nX-Other: 2", b"1\rX-Other: 2"])
async def test_no_value_of_a_header_becomes_another_header(value: bytes) -> None:
    connection = ApiConnection(at_once=True, headers=[(b"hermes-message-id", value)])
    await connection.say([REQUESTS["a kept connection"]])
    assert connection.statuses == [500]
    assert b"X-Other" not in connection.socket.written
    await connection.end()


async def test_nothing_is_written_to_a_client_that_is_gone() -> None:
    connection = ApiConnection(at_once=True)
    connection.hold()
    await connection.say([REQUESTS["a kept connection"]])
    await connection.end()
    assert connection.sent_at_once == [False]
    assert connection.socket.written == b""
