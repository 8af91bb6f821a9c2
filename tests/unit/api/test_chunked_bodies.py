"""What chunks cost the loop, whatever they hold; no server, and no network."""

import pytest

from app.api.server.request_parts import CHUNKS_MAX, RequestParts
from tests.fakes.api_connection import ApiConnection, Request

SIZE = 60_000
HEAD = b"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
NEXT = b"GET /next HTTP/1.1\r\nHost: h\r\n\r\n"
LAST = b"0\r\nA: b\r\n\r\n"


def chunk(body: bytes) -> bytes:
    return b"%x;x=y\r\n%s\r\n" % (len(body), body)


HOSTILE = {
    "line ends": b"\r\n" * (SIZE // 2),
    "last chunks": b"\r\n0\r\n\r\n" * (SIZE // 7),
    "requests": NEXT * (SIZE // len(NEXT)),
}


def parts_of(said: bytes, size: int) -> list[bytes]:
    """Of a body in chunks that comes in reads of that size."""
    parts = RequestParts()
    parts.cut(HEAD, 0)
    parts.head_ended(None)
    found = []
    for start in range(0, len(said), size):
        read, at = said[start : start + size], 0
        while at < len(read):
            end = parts.cut(read, at)
            found.append(read[at:end])
            at = end
    return found


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_a_chunk_is_one_part_whatever_it_holds(body: bytes) -> None:
    said = chunk(body) + LAST
    assert parts_of(said + NEXT, len(said + NEXT))[0] == said
    assert len(parts_of(said, 4_096)) == -(-len(said) // 4_096)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7])
def test_a_part_ends_behind_the_last_chunk_wherever_reads_end(size: int) -> None:
    said = chunk(b"\r\n0\r\n\r\n") + b"0b\r\n0\r\n\r\n0\r\n\r\n0\r\n000;x\r\nA: b\r\nC: d\r\n\r\n"
    parts = parts_of(said + NEXT, size)
    ends = [sum(map(len, parts[: place + 1])) for place in range(len(parts))]
    assert len(said) in ends


def test_a_part_holds_a_bounded_number_of_chunks() -> None:
    parts = parts_of(chunk(b"a") * 3 * CHUNKS_MAX + LAST, SIZE)
    assert [part.count(b";") for part in parts] == [CHUNKS_MAX] * 3 + [0]


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
async def test_what_a_chunk_holds_is_read_at_once(body: bytes) -> None:
    connection = ApiConnection()
    await connection.say([HEAD + chunk(body) + LAST + NEXT])
    assert connection.requests == [Request("POST", "/a", body), Request("GET", "/next", b"")]
    assert connection.statuses == [201, 201]
    assert len(connection.pieces) <= 3
    await connection.end()


@pytest.mark.parametrize("size", [4_000, SIZE])
async def test_many_chunks_are_looked_at_in_turns(size: int) -> None:
    said = HEAD + b"1\r\na\r\n" * (SIZE // 6) + LAST + NEXT
    connection = ApiConnection()
    await connection.say(said[start : start + size] for start in range(0, len(said), size))
    body = b"a" * (SIZE // 6)
    assert connection.requests == [Request("POST", "/a", body), Request("GET", "/next", b"")]
    assert connection.statuses == [201, 201]
    # Each turn lets the application read.
    assert max(connection.pieces) <= 2 * CHUNKS_MAX
    assert connection.socket.reads
    await connection.end()


async def test_nothing_is_read_behind_many_chunks_that_the_application_has_not_read() -> None:
    connection = ApiConnection()
    connection.hold_bodies()
    said = HEAD + chunk(b"a" * 100_000) + b"1\r\na\r\n" * 3 * CHUNKS_MAX
    await connection.say([said])
    for _ in range(10):
        await connection.settle()
    reads = [connection.socket.reads]
    connection.release()
    await connection.settle()
    assert [*reads, connection.socket.reads] == [False, True]
    await connection.say([LAST])
    assert connection.requests == [Request("POST", "/a", b"a" * (100_000 + 3 * CHUNKS_MAX))]
    await connection.end()


async def test_garbage_behind_many_chunks_is_refused_and_nothing_more_is_read() -> None:
    connection = ApiConnection()
    connection.hold_bodies()
    await connection.say([HEAD + b"1\r\na\r\n" * 3 * CHUNKS_MAX + LAST + b"\x00 garbage\r\n\r\n"])
    for _ in range(10):
        await connection.settle()
    assert (connection.statuses, connection.socket.reads) == ([], False)
    connection.release()
    await connection.settle()
    assert (connection.statuses, connection.closed) == ([201, 400], True)
    await connection.end()
