"""Compares how h11 and Angelia's server read HTTP requests. Some differences are allowed."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import h11

from tests.fakes.api_connection import ApiConnection

_CREATED: Final = 201
_REFUSED: Final = 400
_CONTINUE: Final = 100

_BODY: Final = b"Content-Length: 6\r\n\r\nfoobar"
_CHUNKS: Final = b"Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nfoo\r\n3\r\nbar\r\n0\r\nT: t\r\n\r\n"
_HEAD: Final = b"POST /topics/a.b HTTP/1.1\r\nHost: h\r\n"
GOOD_REQUESTS: Final = (
    _HEAD + _BODY,
    _HEAD + _CHUNKS,
    _HEAD + b"Connection: Upgrade\r\nUpgrade: h2c\r\n" + _BODY,
    _HEAD
    + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: A\r\n"
    + _CHUNKS,
    _HEAD + b"Expect: 100-continue\r\n" + _BODY,
    _HEAD + _BODY + b"GET /status HTTP/1.1\r\nhost:h\r\n\r\n" + _HEAD + _CHUNKS,
    _HEAD + _CHUNKS + b"PUT /a?b=%20c HTTP/1.1\r\nHost: h\r\nConnection: close\r\n" + _BODY,
    b"POST /a HTTP/1.0\r\nX: \t y \r\n" + _BODY,
    b"DELETE http://h/a HTTP/1.1\r\nHost: h\r\n\r\n",
)

_VERSION: Final = "h11 takes any version; ours are 1.0 and 1.1"
_EARLY: Final = "h11 waits for the end of the head, or of the chunk, before it refuses it"
_METHOD: Final = "h11 takes any method; no other one is served"
_TARGET: Final = "h11 takes any target without spaces; ours is a path or a URL (3.2)"
_LINE_END: Final = "h11 takes LF for the end of a line, which 2.2 allows and does not ask for"
_FIELD: Final = "h11 takes folded lines and control characters; 5.2 and 5.5 allow to refuse them"
_LENGTH: Final = "h11 takes the same length twice, and prefers chunks to a length (6.1, 6.3)"
_CHUNK: Final = "h11 does not look at extensions of chunks and takes spaces before them (7.1.1)"

# Why Angelia's server refuses requests that h11 accepts, or has not refused yet. The keys are the
# beginnings of the server's error. The numbers are sections of RFC 9112.
STRICTER: Final = {
    "There must be one Host header": "h11 asks for it in 1.1 only, and takes several in none",
    "HTTP/1.0 has no Transfer-Encoding": "6.1: such a request is to be taken for faulty",
    "CONNECT is for proxies": "a tunnel is none of ours, h11 leaves it to its user",
    "The target must": _TARGET,
    "The version of HTTP must be": _VERSION,
    "This is no HTTP: Invalid HTTP version": _VERSION,
    "This is no HTTP: Pause on PRI/Upgrade": _VERSION,
    "This is no HTTP: Invalid method": _METHOD,
    "This is no HTTP: Expected space after method": _METHOD,
    "This is no HTTP: Expected SOURCE method for ICE/x.x request": _METHOD,
    "This is no HTTP: Invalid method for": _METHOD,
    "This is no HTTP: Invalid char in url": _TARGET,
    "This is no HTTP: Invalid characters in url": _TARGET,
    "This is no HTTP: Unexpected char in url": _TARGET,
    "This is no HTTP: Unexpected start char in url": _TARGET,
    "This is no HTTP: Unexpected whitespace after header value": _FIELD,
    "This is no HTTP: Unexpected space after start line": _FIELD,
    "This is no HTTP: Invalid header": _FIELD,
    "This is no HTTP: Missing expected CR after": _LINE_END,
    "This is no HTTP: Missing expected LF after": _EARLY,
    "This is no HTTP: Expected LF after": _EARLY,
    "This is no HTTP: Expected CRLF": _LINE_END,
    "This is no HTTP: Expected HTTP/": _EARLY,
    "This is no HTTP: Expected method, target and version": _EARLY,
    "This is no HTTP: Expected dot": _EARLY,
    "This is no HTTP: Invalid major version": _EARLY,
    "This is no HTTP: Invalid minor version": _EARLY,
    "This is no HTTP: Duplicate Content-Length": _LENGTH,
    "This is no HTTP: Content-Length can't be present with": _LENGTH,
    "This is no HTTP: Transfer-Encoding can't be present with": _LENGTH,
    "This is no HTTP: Invalid character in Content-Length": _LENGTH,
    "This is no HTTP: Empty Content-Length": _EARLY,
    "This is no HTTP: Empty Transfer-Encoding": _EARLY,
    "This is no HTTP: Content-Length overflow": _EARLY,
    "This is no HTTP: Invalid `Transfer-Encoding`": _LENGTH,
    "This is no HTTP: Request has invalid `Transfer-Encoding`": _LENGTH,
    "This is no HTTP: Invalid character in chunk": _CHUNK,
    "This is no HTTP: Chunk size overflow": _EARLY,
    "This is no HTTP: Expected LF after chunk": _EARLY,
}


class Reading(NamedTuple):
    """The requests that were read on a connection, each with its method and body.

    Attributes:
        requests: The requests.
        refused: Whether a further request was refused.
        closed: Whether the connection is closed.
        problem: Why the request was refused.
    """

    requests: list[tuple[str, bytes]]
    refused: bool
    closed: bool
    problem: str = ""

    @property
    def outcome(self) -> tuple[object, ...]:
        """The result without the text of the problem."""
        return self.requests, self.refused, self.closed


def read_by_h11(said: bytes) -> Reading:
    """Read these bytes with h11, and answer each request with 201."""
    requests: list[tuple[str, bytes]] = []
    while True:
        # Skip empty lines before a request (RFC 9112, section 2.2), because h11 refuses them.
        said = said.lstrip(b"\r\n")
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 16)
        connection.receive_data(said)
        try:
            request = _request(connection)
        except h11.RemoteProtocolError as error:
            return Reading(requests, refused=True, closed=True, problem=str(error))
        if request is None:
            return Reading(requests, refused=False, closed=False)
        requests.append(request)
        if request[0] == "CONNECT":
            # After a CONNECT, the bytes are not HTTP.
            return Reading(requests, refused=False, closed=True)
        connection.send(h11.Response(status_code=201, headers=[("Content-Length", "0")]))
        connection.send(h11.EndOfMessage())
        if connection.our_state is not h11.DONE:
            return Reading(requests, refused=False, closed=True)
        said = connection.trailing_data[0]


def _request(connection: h11.Connection) -> tuple[str, bytes] | None:
    """Return the method and body of the next complete request; None if there is none."""
    method, body = "", b""
    while True:
        match connection.next_event():
            case h11.Request() as request:
                method = request.method.decode()
            case h11.Data() as data:
                body += bytes(data.data)
            case h11.EndOfMessage():
                return method, body
            case _:
                return None


async def read_by_us(said: bytes, cuts: Sequence[int]) -> tuple[Reading, list[int]]:
    """Read these bytes with Angelia's server, in parts that are cut at these places.

    Return the result, and the statuses of the server's answers.
    """
    connection = ApiConnection()
    places = sorted({0, len(said), *(cut % (len(said) + 1) for cut in cuts)})
    await connection.say(said[start:end] for start, end in pairwise(places))
    statuses = [status for status in connection.statuses if status != _CONTINUE]
    reading = Reading(
        [(each.method, each.body) for each in connection.requests],
        refused=statuses[-1:] == [_REFUSED],
        closed=connection.closed,
        problem=connection.socket.written.rpartition(b"\r\n")[2].decode(),
    )
    await connection.end()
    return reading, statuses


async def difference(said: bytes, cuts: Sequence[int]) -> str | None:
    """Return how the results of Angelia's server and of h11 differ; None if they are equal.

    The server gets the bytes in parts. Differences that are known and allowed also give None.
    """
    ours, statuses = await read_by_us(said, cuts)
    if statuses != [_CREATED] * len(ours.requests) + [_REFUSED] * ours.refused:
        return f"answers {statuses} to {ours}"
    theirs = read_by_h11(said)
    if ours.outcome == theirs.outcome or _explained(ours, theirs):
        return None
    if ours.closed and ours.requests == theirs.requests[: len(ours.requests)]:
        # h11 ignores a trailer `Connection: close`, but the server closes the connection.
        trailer = re.search(rb"\r\n0\r\n(.+\r\n)*connection:[^\r]*close", said, re.IGNORECASE)
        return None if trailer else f"{ours}, by h11 {theirs}"
    return f"{ours}, by h11 {theirs}"


def _explained(ours: Reading, theirs: Reading) -> bool:
    is_stricter = ours.refused and ours.requests == theirs.requests[: len(ours.requests)]
    return is_stricter and any(ours.problem.startswith(known) for known in STRICTER)
