"""Where requests begin and end in the bytes of a connection; no server, and no network."""

from collections.abc import Iterator
from itertools import pairwise

import pytest

from tests.fakes.api_connection import ApiConnection, Request

UPGRADES = {
    "java": b"Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAEAAEAA\r\nUpgrade: h2c\r\n",
    "websocket": b"Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n",
    "two lines": b"Connection: upgrade\r\nUpgrade: h2c\r\nUpgrade: TLS/1.0\r\n",
}
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n"
LENGTH = b"Content-Length: %d\r\n\r\n%s" % (len(SMUGGLED), SMUGGLED)
CHUNKS = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(SMUGGLED), SMUGGLED)
NEXT = b"GET /next HTTP/1.1\r\nHost: h\r\n\r\n"


def request(fields: bytes = b"", *, method: bytes = b"POST", version: bytes = b"HTTP/1.1") -> bytes:
    return b"%s /a %s\r\nHost: h\r\n%s" % (method, version, fields)


def splits(said: bytes) -> Iterator[list[bytes]]:
    """As one part, in two at every place, and byte by byte."""
    yield [said]
    for place in range(1, len(said)):
        yield [said[:place], said[place:]]
    yield [said[start:end] for start, end in pairwise(range(len(said) + 1))]


async def served(parts: list[bytes]) -> tuple[list[Request], list[int], bool]:
    connection = ApiConnection()
    await connection.say(parts)
    seen = (connection.requests, connection.statuses, connection.closed)
    await connection.end()
    return seen


@pytest.mark.parametrize("body", [LENGTH, CHUNKS], ids=["length", "chunks"])
@pytest.mark.parametrize("upgrade", UPGRADES.values(), ids=UPGRADES)
@pytest.mark.parametrize("method", [b"POST", b"PUT"])
async def test_a_request_that_asks_for_another_protocol_is_served_like_any_other(
    method: bytes, upgrade: bytes, body: bytes
) -> None:
    said = request(upgrade + body, method=method)
    expected = [Request(method.decode(), "/a", SMUGGLED), Request("GET", "/next", b"")]
    for parts in splits(said + NEXT):
        assert await served(parts) == (expected, [201, 201], False)


async def test_many_that_ask_for_another_protocol_may_be_sent_ahead() -> None:
    said = request(UPGRADES["java"] + LENGTH) + request(UPGRADES["websocket"] + b"\r\n")
    requests, statuses, closed = await served([said * 40])
    assert statuses == [201] * 80
    assert [each.body for each in requests] == [SMUGGLED, b""] * 40
    assert not closed


async def test_a_request_that_asks_for_another_protocol_and_to_close_is_the_last_one() -> None:
    said = request(b"Connection: Upgrade, close\r\nUpgrade: h2c\r\n" + LENGTH)
    for parts in splits(said + NEXT):
        assert await served(parts) == ([Request("POST", "/a", SMUGGLED)], [201], True)


async def test_fields_behind_a_body_are_no_headers_of_the_request() -> None:
    trailers = b"Host: evil\r\nAuthorization: Bearer x\r\n\r\n"
    connection = ApiConnection()
    await connection.say([request(CHUNKS[:-2] + trailers), NEXT])
    assert connection.statuses == [201, 201]
    assert connection.fields == [
        [(b"host", b"h"), (b"transfer-encoding", b"chunked")],
        [(b"host", b"h")],
    ]
    await connection.end()


SIZES = b"Transfer-Encoding: chunked\r\n\r\n%s;x=y\r\nx\r\n%s\r\n\r\n"
REFUSED = {
    "no host": b"POST /a HTTP/1.1\r\n" + LENGTH,
    "two hosts": request(b"Host: i\r\n" + LENGTH),
    "the same host twice": request(b"host: h\r\n" + LENGTH),
    "two hosts in 1.0": request(b"Host: i\r\n" + LENGTH, version=b"HTTP/1.0"),
    "0.9": request(LENGTH, version=b"HTTP/0.9"),
    "2.0": request(LENGTH, version=b"HTTP/2.0"),
    "1.2": request(LENGTH, version=b"HTTP/1.2"),
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "chunks in 1.0": request(CHUNKS, version=b"HTTP/1.0"),
    "an unknown coding": request(CHUNKS.replace(b"chunked", b"gzip, chunked")),
    "two codings": request(b"Transfer-Encoding: identity\r\n" + CHUNKS),
    "chunks and a length": request(b"Content-Length: 5\r\n" + CHUNKS),
    "a length and an upgrade to 2.0": request(UPGRADES["java"] + LENGTH, version=b"HTTP/2.0"),
    "a length of 21 digits": request(b"Content-Length: %021d\r\n\r\n%s" % (1, b"x")),
    "a chunk's size of 21 digits": request(SIZES % (b"%021d" % 1, b"0")),
    "the last chunk's size of 21 digits": request(SIZES % (b"1", b"%021d" % 0)),
    "another protocol": request(LENGTH, version=b"RTSP/1.0"),
    "a protocol with a method of its own": b"SOURCE /a ICE/1.0\r\nHost: h\r\n" + LENGTH,
    "two spaces before the version": request(LENGTH, version=b" HTTP/1.1"),
    "two spaces behind the method": request(LENGTH, method=b"POST "),
    "two lengths": request(b"Content-Length: 1\r\n" + LENGTH),
    "a tunnel": b"CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n" + SMUGGLED,
    "a tunnel to a path": b"CONNECT /a HTTP/1.1\r\nHost: h\r\n" + LENGTH,
    "a tunnel with chunks": b"CONNECT h:1 HTTP/1.1\r\nHost: h\r\n" + CHUNKS,
    "a fragment": b"POST /a#b HTTP/1.1\r\nHost: h\r\n" + LENGTH,
    "a fragment behind a query": b"POST /a?b#c HTTP/1.1\r\nHost: h\r\n" + LENGTH,
    "a fragment of a URL": b"POST http://h/a# HTTP/1.1\r\nHost: h\r\n" + LENGTH,
    "a fragment and an upgrade": b"POST /a#b HTTP/1.1\r\nHost: h\r\n" + UPGRADES["java"] + LENGTH,
    "garbage": b"\x16\x03\x01\x00\xc8" + SMUGGLED,
}


@pytest.mark.parametrize("said", REFUSED.values(), ids=REFUSED)
async def test_what_could_be_read_in_two_ways_is_refused_and_ends_the_connection(
    said: bytes,
) -> None:
    for parts in splits(said + NEXT):
        assert await served(parts) == ([], [400], True)


async def test_a_trailer_that_says_to_close_ends_the_connection_behind_the_answer() -> None:
    said = request(CHUNKS[:-2] + b"Connection: close\r\n\r\n")
    for parts in splits(said + NEXT):
        assert await served(parts) == ([Request("POST", "/a", SMUGGLED)], [201], True)


async def test_a_request_of_the_old_version_needs_no_host() -> None:
    said = b"POST /a HTTP/1.0\r\n" + LENGTH
    assert await served([said]) == ([Request("POST", "/a", SMUGGLED)], [201], True)


@pytest.mark.parametrize(("version", "statuses"), [(b"1.1", [100, 201]), (b"1.0", [201])])
async def test_only_a_client_of_the_newer_version_is_told_to_continue(
    version: bytes, statuses: list[int]
) -> None:
    connection = ApiConnection()
    said = request(b"Expect: 100-continue\r\n" + LENGTH, version=b"HTTP/" + version)
    await connection.say([said])
    assert connection.statuses == statuses
    await connection.end()


GARBAGE = {
    "no request": b"\x00 garbage\r\n\r\n",
    "a head that is refused": b"POST /b HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
    "a body that is none": b"POST /b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nxyz",
}


MALFORMED = {
    "of another protocol": b"GET /b RTSP/1.0\r\nHost: h\r\n\r\n",
    "with two spaces": b"GET /b  HTTP/1.1\r\nHost: h\r\n\r\n",
}
BEFORE = {
    "a length": request(LENGTH),
    "chunks": request(CHUNKS),
    "fields behind chunks": request(CHUNKS[:-2] + b"A: b\r\nC: d\r\n\r\n"),
    "an upgrade with chunks": request(UPGRADES["java"] + CHUNKS),
    "an upgrade without a body": request(UPGRADES["websocket"] + b"\r\n", method=b"GET"),
    "no body": request(b"\r\n", method=b"GET") + b"\r\n\r\n",
}


@pytest.mark.parametrize("malformed", MALFORMED.values(), ids=MALFORMED)
@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
async def test_a_first_line_is_looked_at_wherever_the_request_before_it_ends(
    before: bytes, malformed: bytes
) -> None:
    for parts in splits(before + malformed + NEXT):
        requests, statuses, closed = await served(parts)
        assert (len(requests), statuses, closed) == (1, [201, 400], True)


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
@pytest.mark.parametrize("ahead", [1, 3])
async def test_requests_before_garbage_get_their_own_answers(garbage: bytes, ahead: int) -> None:
    said = request(LENGTH) * ahead + garbage
    for parts in splits(said + NEXT):
        connection = ApiConnection()
        connection.hold()
        await connection.say(parts)
        assert (connection.statuses, connection.closed) == ([], False)
        connection.release()
        await connection.settle()
        assert connection.statuses == [*[201] * ahead, 400]
        assert connection.closed
        assert connection.requests == [Request("POST", "/a", SMUGGLED)] * ahead
        await connection.end()


async def test_a_body_that_cannot_be_read_refuses_its_request() -> None:
    said = request(b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nxyz\r\n")
    for parts in splits(said + NEXT):
        assert await served(parts) == ([], [400], True)


async def test_the_size_of_a_chunk_may_have_as_many_digits_as_others_read() -> None:
    said = request(SIZES % (b"%020d" % 1, b"%020d" % 0))
    for parts in splits(said + NEXT):
        assert (await served(parts))[1:] == ([201, 201], False)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            REFUSED["a chunk's size of 21 digits"],
            b"This is no HTTP: The size of a chunk must have at most 20 digits.",
        ),
        (REFUSED["no host"], b"There must be one Host header, not 0."),
        (REFUSED["two hosts"], b"There must be one Host header, not 2."),
        (REFUSED["a fragment"], b"The target must have no fragment: write # as %23."),
        (REFUSED["2.0"], b"The version of HTTP must be 1.1 or 1.0, not 2.0."),
        (REFUSED["chunks in 1.0"], b"HTTP/1.0 has no Transfer-Encoding: send a Content-Length."),
        (
            REFUSED["an unknown coding"],
            b"Transfer-Encoding must be chunked: no other one is understood.",
        ),
    ],
)
async def test_a_refusal_says_what_is_wrong(said: bytes, reason: bytes) -> None:
    connection = ApiConnection()
    await connection.say([said])
    assert connection.socket.written.endswith(b"\r\n\r\n" + reason)
    await connection.end()
