"""Compares how h11 and Angelia's parser read HTTP answers. Some differences are allowed."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import h11
import httpx

from workers.transport.answer import AnswerReader

_CHUNKED: Final = b"Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nfoo\r\n3\r\nbar\r\n0\r\nT: t\r\n\r\n"
GOOD_ANSWERS: Final = (
    b"HTTP/1.1 200 OK\r\nX: \t y \r\nContent-Length: 6\r\n\r\nfoobar",
    b"HTTP/1.1 200 OK\r\n" + _CHUNKED,
    b"HTTP/1.1 503 No\r\nRetry-After: 7\r\nConnection: close\r\nContent-Length: 6\r\n\r\nfoobar",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: <a>\r\n\r\nHTTP/1.1 201 \r\n"
    + _CHUNKED,
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nX: y,\r\n z\r\nContent-Length: 6, 6\r\n\r\nfoobar",
    b"HTTP/1.1 304 Not Modified\r\nETag: x\r\nContent-Length: 6\r\n\r\n",
    b"HTTP/1.0 200 OK\r\n\r\nuntil the end",
    b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 6\r\n\r\nfoobar",
    b"HTTP/1.1 200 OK\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 6\r\n\r\nfoobar",
)

# A header that llhttp and h11 read differently. llhttp does not recognise the coding if a tab
# follows it, so it reads the body until the connection ends. In this body the chunks have no end,
# and the attempt fails.
_TAB: Final = re.compile(rb"transfer-encoding:[^\r]*chunked *\t", re.IGNORECASE)


class Answer(NamedTuple):
    """An answer as a parser read it.

    Attributes:
        status: The status; None if there is no valid answer.
        body: The body.
        reusable: Whether another answer may follow on the same connection.
        problem: Why there is no valid answer.
    """

    status: int | None
    body: bytes
    reusable: bool
    problem: str = ""


_LINE_END: Final = "h11 takes LF for the end of a line, which 2.2 allows and does not ask for"
_FIELD: Final = "h11 takes control characters; 5.5 allows to refuse them"
_LENGTH: Final = "h11 takes LF between two lengths, and prefers chunks to a length (6.1, 6.3)"
_CHUNK: Final = "h11 does not look at extensions of chunks and takes spaces before them (7.1.1)"

# Why Angelia's parser refuses answers that h11 accepts. The keys are patterns of the parser's
# error. The numbers are sections of RFC 9112.
STRICTER: Final = {
    "Missing expected CR after": _LINE_END,
    "Expected LF after chunk": _LINE_END,
    "Invalid response status": _LINE_END,
    "Unexpected whitespace after header value": _FIELD,
    "Unexpected space after start line": _FIELD,
    "Invalid header": _FIELD,
    "Duplicate Content-Length": _LENGTH,
    "Invalid character in Content-Length": _LENGTH,
    "Empty Content-Length": _LENGTH,
    "Invalid `Transfer-Encoding`": _LENGTH,
    "Content-Length can't be present with": _LENGTH,
    "Transfer-Encoding can't be present with": _LENGTH,
    "Invalid character in chunk": _CHUNK,
    "Invalid HTTP version": "h11 takes any version, and reads it as 1.1",
    "more than 16 interim answers": "h11 takes any number, which a subscriber could send for ever",
    "a body of an interim answer": "h11 does not look at its framing (RFC 9110, 15.2)",
    "Data after `Connection: close`": "an interim answer that ends the connection, and yet another",
}
# Why Angelia's parser accepts answers that h11 refuses. The keys are patterns of h11's error.
LOOSER: Final = {
    "Only Transfer-Encoding: chunked is supported": "another coding ends with the connection (6.3)",
    "multiple Transfer-Encoding headers": "several lines are one list (RFC 9110, 5.3)",
    "illegal status line: .*HTTP/[0-9].[0-9] +[0-9]{3}": "only the reason is wrong, unread",
    "illegal status line: .*b'(RTSP|ICE)/1.[01] ": "llhttp reads both as it reads HTTP",
    r"illegal status line: bytearray\(b'(\\r)+'\)": "llhttp skips CR and LF before an answer",
    "no response line received": "empty lines before an answer, as before a request (2.2)",
    # llhttp does not report the digits of the size. Zeros in front do not change the size, and the
    # number of received bytes is limited.
    "illegal chunk header: .*b'0[0-9A-Fa-f]{20,}": "zeros before the size of a chunk (7.1)",
}


def read_by_h11(said: bytes) -> Answer:
    """Read these bytes with h11, as if the connection was closed after them."""
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 16)
    connection.send(h11.Request(method="POST", target="/", headers=[("Host", "h")]))
    connection.send(h11.EndOfMessage())
    status, body, kept = None, b"", False
    try:
        connection.receive_data(said)
        while True:
            match connection.next_event():
                case h11.Response() as response:
                    status, kept = response.status_code, _keeps_an_old_one(response)
                case h11.Data() as data:
                    body += bytes(data.data)
                case h11.EndOfMessage():
                    break
                case h11.NEED_DATA:
                    connection.receive_data(b"")
                case h11.ConnectionClosed() | h11.PAUSED:
                    return Answer(None, b"", reusable=False, problem="closed")
                case _:
                    pass
    except h11.RemoteProtocolError as error:
        return Answer(None, b"", reusable=False, problem=str(error))
    whole = kept or connection.our_state is connection.their_state is h11.DONE
    # Allow empty lines after the answer, as before a request (section 2.2).
    return Answer(status, body, reusable=whole and not connection.trailing_data[0].strip(b"\r\n"))


def _keeps_an_old_one(response: h11.Response) -> bool:
    """Whether an answer of HTTP/1.0 keeps its connection open (RFC 9112, section 9.3).

    h11 itself never keeps the connection of such an answer.
    """
    fields = dict(response.headers)
    said = b",".join(value for name, value in response.headers if name == b"connection").lower()
    tokens = {token.strip() for token in said.split(b",")}
    framed = b"content-length" in fields or response.status_code in {204, 304}
    return (
        response.http_version == b"1.0"
        and framed
        and b"keep-alive" in tokens
        and b"close" not in tokens
    )


def read_by_us(said: bytes, cuts: Sequence[int]) -> Answer:
    """Read these bytes with Angelia's parser, in parts that are cut at these places."""
    reader = AnswerReader()
    places = sorted({0, len(said), *(cut % (len(said) + 1) for cut in cuts)})
    rest = [said[start:end] for start, end in pairwise(places)]
    try:
        complete = False
        while rest and not complete:
            complete = reader.feed(rest.pop(0))
        if not complete:
            reader.end()
    except httpx.RemoteProtocolError as error:
        return Answer(None, b"", reusable=False, problem=str(error))
    answer = reader.take()
    # Bytes after the answer end the connection, because no further request was sent.
    return Answer(
        answer.status, answer.body, reusable=reader.reusable and not b"".join(rest).strip(b"\r\n")
    )


def difference(said: bytes, cuts: Sequence[int]) -> str | None:
    """Return how the results of Angelia's parser and of h11 differ; None if they are equal.

    The parser gets the bytes in parts. Differences that are known and allowed also give None.
    """
    ours, theirs = read_by_us(said, cuts), read_by_h11(said)
    same = (ours.status, ours.body) == (theirs.status, theirs.body)
    if same and ours.reusable <= theirs.reusable:
        return None
    if ours.status is None and any(re.search(known, ours.problem) for known in STRICTER):
        return None
    if theirs.status is None and any(re.search(known, theirs.problem) for known in LOOSER):
        return None
    if ours.status is None and _TAB.search(said):
        return None
    return f"{ours}, by h11 {theirs}"
