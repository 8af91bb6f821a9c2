"""Parses a response: bytes in, one final response out. No I/O. The input may be hostile."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import httptools
import httpx

from workers.transport.head_forms import accepted_form, may_be_other
from workers.transport.limits import BODY_MAX, HEAD_MAX, INTERIM_MAX, RECEIVED_MAX

_PARSE_ERRORS: Final = (httptools.HttpParserError, httptools.HttpParserUpgrade)
_FIRST_STATUS: Final = 100
_FIRST_FINAL_STATUS: Final = 200
# The maximum size of a response that is remembered. A longer body is unlikely to come again.
_USUAL_MAX: Final = 2_048
# The maximum number of digits of a Content-Length. Leading zeros count, as in h11 and in the API,
# because other parsers may read such a number differently.
_LENGTH_DIGITS_MAX: Final = 20


# Header names and values as received.
RawHeaders = Sequence[tuple[bytes, bytes]]


class RawAnswer(NamedTuple):
    """A final response as received.

    `truncated` means that only the first part of the body was read.
    """

    status: int
    headers: RawHeaders
    body: bytes
    truncated: bool


class UsualAnswer:
    """The last response that came in one piece: its bytes, and the parsed response.

    Responses of an origin are often equal byte for byte while their `Date` is the same. So an equal
    response is not parsed again, because parsing takes as long as sending a request.
    """

    __slots__ = ("answer", "data")

    def __init__(self) -> None:
        self.data = b""
        self.answer: RawAnswer | None = None

    def keep(self, data: bytes, answer: RawAnswer) -> None:
        """Store `answer`, which was parsed from `data`, for later responses with equal bytes.

        Call this only if the connection can carry another response after this one.
        """
        if len(data) <= _USUAL_MAX:
            self.data, self.answer = data, answer


class AnswerReader:
    """Parses the responses of one connection, one after the other.

    Call `feed` until it returns that the response is complete, then `take` it. Interim (1xx)
    responses are dropped. The sizes of headers, body and whole response are bounded, and the number
    of interim responses (`workers.transport.limits`). All connections to an origin may share
    `usual`.
    """

    __slots__ = (
        "_body",
        "_body_size",
        "_complete",
        "_head",
        "_headers",
        "_in_one_piece",
        "_interim",
        "_parser",
        "_received",
        "_status",
        "_truncated",
        "_usual",
        "_usual_again",
        "reusable",
    )

    def __init__(self, usual: UsualAnswer | None = None) -> None:
        self._usual = usual or UsualAnswer()
        self._usual_again: RawAnswer | None = None
        # The bytes of the present response, if all came at once. Otherwise empty.
        self._in_one_piece = b""
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        # The bytes of the present response that came before the head was complete.
        self._head = b""
        self._status = 0
        self._headers: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._body_size = 0
        self._received = 0
        self._interim = 0
        self._complete = False
        self._truncated = False
        # Whether the connection may carry another request after this response.
        self.reusable = False

    def feed(self, data: bytes) -> bool:
        """Parse `data`. Return whether the response is complete.

        Raises:
            httpx.RemoteProtocolError: The data is not a valid HTTP response, or exceeds the limits.
        """
        if self._parser is None:
            return self._feed_refused_head(data)
        # Compare the bytes with the last response only at the start of a response. In the middle of
        # a response, equal bytes may be a part of its body.
        if not self._received and data == self._usual.data:
            self._usual_again = self._usual.answer
            self._complete = self.reusable = True
            return True
        self._in_one_piece = b"" if self._received else data
        self._received += len(data)
        problem = ""
        try:
            self._parser.feed_data(data)
        except _PARSE_ERRORS as exc:
            problem = self._problem(exc)
        if not self._complete:
            if not self._status:
                self._head += data
            if problem:
                self._parse_refused_head(problem)
            self._check_bounds()
        return self._complete

    def end(self) -> None:
        """Called when the connection was closed, which completes a response without a length.

        Raises:
            httpx.RemoteProtocolError: The response is not complete.
        """
        self.reusable = False
        if not self._received:
            raise httpx.RemoteProtocolError("the connection was closed without an answer")
        if self._status < _FIRST_FINAL_STATUS or not self._ends_with_connection():
            raise httpx.RemoteProtocolError("the connection was closed within the answer")

    def take(self) -> RawAnswer:
        """Return the complete response, and prepare for the next one."""
        if self._usual_again is not None:
            again, self._usual_again = self._usual_again, None
            self._complete = False
            return again
        answer = RawAnswer(self._status, self._headers, b"".join(self._body), self._truncated)
        self._status = self._body_size = self._received = self._interim = 0
        self._headers, self._body, self._head = [], [], b""
        self._complete = self._truncated = False
        if self._in_one_piece and self.reusable:
            self._usual.keep(self._in_one_piece, answer)
        return answer

    def close(self) -> None:
        """Drop the parser.

        The parser refers to methods of this object, and this object refers to the parser. This
        reference cycle would stay until the garbage collector runs.
        """
        self._parser, self._head = None, b""

    def _feed_refused_head(self, data: bytes) -> bool:
        """Feed more of a response whose head was refused before it was complete."""
        if not self._head:
            raise httpx.RemoteProtocolError("the reader is closed")
        self._in_one_piece = b""
        self._received += len(data)
        self._head += data
        self._parse_refused_head()
        if not self._complete:
            self._check_bounds()
        return self._complete

    def _parse_refused_head(self, problem: str = "") -> None:
        """Parse a response again, in another form of its head, or refuse it for its `problem`.

        If the head is not complete, there is no parser until it is.
        """
        if problem and (self._status or not may_be_other(self._head)):
            raise _refusal(problem)
        self._parser = None
        if (form := accepted_form(self._head)) is None:
            return
        self._parser = httptools.HttpResponseParser(self)
        self._headers, self._interim = [], 0
        try:
            self._parser.feed_data(form)
        except _PARSE_ERRORS as exc:
            problem = self._problem(exc)
            if not self._complete:
                raise _refusal(problem) from exc

    def _problem(self, error: Exception) -> str:
        self.reusable = False
        return str(error.__context__ or error)

    # The following methods are called by the parser, within `feed_data`.

    def on_message_begin(self) -> None:
        """Handle a second response to one request: ignore it, and do not reuse the connection."""
        if self._complete:
            self.reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header. Drop trailers, which are headers after the body."""
        if self._status:
            return
        if len(value) > _LENGTH_DIGITS_MAX and name.lower() == b"content-length":
            raise ValueError(f"a Content-Length of more than {_LENGTH_DIGITS_MAX} digits")
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Store the status."""
        if not self._complete and self._parser is not None:
            self._status = self._parser.get_status_code()
            if self._status < _FIRST_STATUS:
                # Refuse a status below 100. The parser would treat such a response as an interim
                # one, and would take its body for a part of the final response.
                raise ValueError(f"a status below {_FIRST_STATUS}")
            if self._status < _FIRST_FINAL_STATUS and self._announces_body():
                # Refuse an interim response with a body. Interim responses have no body (RFC 9110,
                # section 15.2), but the parser would take this one for a part of the final
                # response.
                raise ValueError("a body of an interim answer")

    def on_body(self, data: bytes) -> None:
        """Store the body up to BODY_MAX bytes.

        At this limit the response counts as complete, because the status is known, and the body is
        not needed in full.
        """
        if self._complete:
            return
        self._body_size += len(data)
        if self._body_size <= BODY_MAX:
            self._body.append(data)
            return
        self._body.append(data[: BODY_MAX - self._body_size])
        self._cut()

    def on_message_complete(self) -> None:
        """Complete a final response. Drop an interim response, and wait for the next."""
        if self._complete or self._parser is None:
            return
        if self._status >= _FIRST_FINAL_STATUS:
            self._complete = True
            self.reusable = self._parser.should_keep_alive() and (
                self._parser.get_http_version() != "1.0" or self._keeps_an_old_one()
            )
            return
        self._interim += 1
        if self._interim > INTERIM_MAX:
            raise ValueError(f"more than {INTERIM_MAX} interim answers")
        self._headers, self._status = [], 0

    def _check_bounds(self) -> None:
        if not self._status and self._received > HEAD_MAX:
            message = f"more than {HEAD_MAX} bytes of headers"
            raise httpx.RemoteProtocolError(message)
        if self._received > RECEIVED_MAX:
            # End the response here, because it is too large. Its framing is much larger than its
            # body, which looks like an attack.
            self._cut()

    def _cut(self) -> None:
        self._complete = self._truncated = True
        self.reusable = False

    def _keeps_an_old_one(self) -> bool:
        """Whether a response by HTTP/1.0 lets the connection stay open."""
        options = [value.lower() for name, value in self._headers if name.lower() == b"connection"]
        coded = any(name.lower() == b"transfer-encoding" for name, _ in self._headers)
        # If the response has both "close" and "keep-alive", "close" counts (RFC 9112, section 9.3).
        # A response with a transfer coding closes the connection, too, because HTTP/1.0 has no such
        # codings (section 6.1).
        return not coded and not any(b"close" in value for value in options)

    def _announces_body(self) -> bool:
        """Whether the headers announce a body. A chunked body that is announced may be empty."""
        fields = {name.lower(): value for name, value in self._headers}
        return b"transfer-encoding" in fields or bool(
            fields.get(b"content-length", b"").strip(b"0")
        )

    def _ends_with_connection(self) -> bool:
        """Whether this body ends when the connection closes (RFC 9112, section 6.3)."""
        names = {name.lower(): value.lower() for name, value in self._headers}
        return b"content-length" not in names and b"chunked" not in names.get(
            b"transfer-encoding", b""
        )


def _refusal(problem: str) -> httpx.RemoteProtocolError:
    return httpx.RemoteProtocolError(f"not an HTTP answer: {problem}")
