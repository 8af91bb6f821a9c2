"""One HTTP/1.1 connection of the server, protected from clients that send data without end."""

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar, Final, cast

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.api.server.open_connections import OpenConnections
from app.api.server.request_head import content_length, head_problem, without_upgrade
from app.api.server.request_parts import CHUNKS_MAX, RequestParts
from app.api.server.unread_answers import UnreadAnswers

# The maximum number of bytes that a client may send without completing the head of a request or a
# part of a body.
BARREN_BYTES_MAX: Final = 64 * 1024
# How many received bytes are parsed before the connection checks whether a request waits: a few
# dozen of the smallest requests.
_LOOKED_AT: Final = 4 * 1024
# How many bytes of the rest of a body are parsed before the connection checks whether a request
# waits.
_LOOKED_AT_OF_BODY: Final = 64 * 1024
# The application sets this key in the scope of a request whose response has no end. Such a response
# ends when the server stops.
ENDS_AT_SHUTDOWN: Final = "angelia.ends_at_shutdown"
_FULL: Final = b"Too many connections are open and at work: try again soon."
_REFUSAL_OF_ONE_MORE: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n"
    b"Content-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n\r\n%s" % (len(_FULL), _FULL)
)


class _Held(FlowControl):
    """Flow control that resumes reading only when all received data is parsed.

    Applications resume reading when they want a body. But the data may already be received, and
    only wait to be parsed.
    """

    def __init__(self, transport: asyncio.Transport, *, waits: Callable[[], bool]) -> None:
        super().__init__(transport)
        self._waits = waits

    def resume_reading(self) -> None:
        """Resume reading, unless received data waits."""
        if not self._waits():
            super().resume_reading()

    def end(self) -> None:
        """Never resume reading again, and forget the connection.

        Otherwise both would refer to each other, and be freed only by the garbage collector.
        """
        self._waits = _forever


def _forever() -> bool:
    return True


class _HeadRefusedError(Exception):
    """Raised inside the parser, to stop it. The error's text is for the client."""


class BoundedConnection(HttpToolsProtocol):
    """Uvicorn's own protocol with limits for waiting and for memory.

    The connection is closed when a client takes longer than PATIENCE_S for its first byte, for the
    head of a request, or for the rest of an answered request (routes limit the time for a body).
    The connection is also closed when a head is larger than about BARREN_BYTES_MAX. Between
    requests, uvicorn's keep-alive time applies.

    The connection is aborted when the client reads less than READ_MIN of waiting responses in
    PATIENCE_S, also after the connection was closed.

    A client may send further requests before the first one is answered. Only a few of them are read
    before the current one is answered. So a client that sends thousands of requests takes no more
    time of the event loop than one that sends a few. For the same reason, only some hundred HTTP
    chunks of a body are parsed in one turn of the loop, and further chunks in the next turns.

    A request to upgrade the protocol is served without the upgrade (RFC 9110, section 7.8). After
    invalid bytes the connection is closed, but earlier requests get their responses first.
    """

    PATIENCE_S: ClassVar[float] = 30.0

    def __init__(
        self,
        *given: Any,  # noqa: ANN401 - uvicorn's arguments, passed on
        among: OpenConnections | None = None,
        **named: Any,  # noqa: ANN401 - uvicorn's arguments, passed on
    ) -> None:
        super().__init__(*given, **named)
        self._among = among
        self._barren_bytes = 0
        self._waiting_since: float | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._unread_answers = UnreadAnswers()
        # Received data that is not parsed yet. It comes from one read at most, because reading then
        # pauses.
        self._unread = b""
        # Whether the unparsed data is parsed in the next turn of the event loop.
        self._goes_on = False
        self._in_body = False
        self._parts = RequestParts()
        # Whether the head of a request with a protocol upgrade was received.
        self._upgrading = False
        # The reason why nothing more is read from the client. The client gets the reason after the
        # responses to all earlier requests.
        self._refusal: str | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn narrows the type too
        """Start to watch the connection."""
        super().connection_made(transport)
        self.flow = _Held(transport, waits=self._waits)
        if self._among is not None and not self._among.opened(self):
            self._refusal = ""
            transport.write(_REFUSAL_OF_ONE_MORE)
            transport.close()
            return
        self._waiting_since = self.loop.time()
        self._look_again()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop watching the connection."""
        if self._among is not None:
            self._among.closed(self)
        if self._watch:
            self._watch.cancel()
        self._unread = b""
        super().connection_lost(exc)
        cast("_Held", self.flow).end()

    def shutdown(self) -> None:
        """Let the current request end. If its response would never end, end it now."""
        super().shutdown()
        # Uvicorn's attribute `cycle` is None before the first request, although its annotation does
        # not say so.
        if self.cycle is not None and self.cycle.scope.get(ENDS_AT_SHUTDOWN):  # type: ignore[redundant-expr]
            self.transport.close()

    def make_room(self) -> None:
        """Close immediately to make space for another connection. No request is in flight."""
        if self.transport.get_write_buffer_size():
            # The connection is aborted. Otherwise it would stay open until its client has read
            # everything.
            self.transport.abort()
        else:
            self.transport.close()

    def resume_writing(self) -> None:
        """Remember that the client has read nearly all waiting responses."""
        self._unread_answers.moved()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Parse received data, unless another request waits for its response."""
        if self._refusal is not None:
            return
        if len(data) <= _LOOKED_AT and not self._unread and not self.pipeline:  # most data is short
            self._parts.chunks = 0
            self._take(data)
            self._rest()
            return
        self._unread += data
        self._take_unread()

    def _take_unread(self) -> None:
        self._parts.chunks = 0
        while self._may_take():
            size = _LOOKED_AT_OF_BODY if self._in_body else _LOOKED_AT
            part, self._unread = self._unread[:size], self._unread[size:]
            self._take(part)
        self._rest()

    def _may_take(self) -> bool:
        if self.pipeline or self.transport.is_closing():
            return False
        return bool(self._unread) and self._parts.chunks < CHUNKS_MAX

    def _waits(self) -> bool:
        return bool(self._unread or self.pipeline)

    def _rest(self) -> None:
        """Stop reading from the client while received data waits to be parsed."""
        if self._waits() and not self.transport.is_closing():
            self.flow.pause_reading()
            if not self.pipeline:
                # The data is parsed soon, because it does not wait for an earlier response.
                self._go_on_soon()

    def _go_on_soon(self) -> None:
        """Continue in a later turn of the event loop, so that other work runs in between."""
        if not self._goes_on:
            self._goes_on = True
            self.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._goes_on = False
        if self.transport.is_closing():
            return
        self._take_unread()
        if self._refusal is None and not self._is_ahead():
            self.flow.resume_reading()

    def _is_ahead(self) -> bool:
        """Whether the client has sent much more of the body than the application has read.

        Then this connection reads nothing more from the client. When the application has read the
        body, it lets the connection read again.
        """
        cycle = self.cycle
        return not cycle.response_complete and len(cycle.body) > HIGH_WATER_LIMIT

    def _take(self, data: bytes) -> None:
        """Parse data.

        Refuse a client that has sent too much without completing a head or a part of a body.
        """
        # All bytes are first counted as bytes that complete nothing. The parser's callbacks set the
        # count back to 0 if the bytes completed a head or a part of a body.
        self._barren_bytes += len(data)
        self._unset_keepalive_if_required()
        try:
            self._parse(data)
        except httptools.HttpParserError as error:
            self._refuse(_reason(error))
            return
        if self._barren_bytes > BARREN_BYTES_MAX:
            self._refuse("The head of the request is too large.")

    def _parse(self, data: bytes) -> None:
        start, left, parts = 0, -1, self._parts
        while start < len(data):
            if parts.chunks >= CHUNKS_MAX:
                self._unread = data[start:] + self._unread
                return
            end = parts.cut(data, start)
            try:
                self.parser.feed_data(data[start:end])
            except httptools.HttpParserUpgrade as upgrade:
                # The parser has skipped the body of a request with an upgrade. So the parser gets
                # the body again.
                rest = data[start + upgrade.args[0] :]
                if len(rest) == left:
                    raise httptools.HttpParserError("the same head again") from None
                start, left, data = 0, len(rest), self._head_again() + rest
            else:
                start = end
            if parts.problem:
                raise httptools.HttpParserError(parts.problem)

    def _head_again(self) -> bytes:
        version = self.parser.get_http_version().encode()
        first_line = b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, version)
        self._upgrading = False
        self._parts.ended()
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return without_upgrade(first_line, self.headers)

    def _refuse(self, reason: str) -> None:
        """Read nothing more, and close when all requests in flight are answered."""
        self._refusal, self._unread, self._waiting_since = reason, b"", None
        self.flow.pause_reading()
        if not self._in_body:
            # Uvicorn's attribute `cycle` is None before the first request, although its annotation
            # does not say so.
            if self.cycle is None or self.cycle.response_complete:  # type: ignore[redundant-expr]
                self.send_400_response(reason)
        elif self.pipeline:
            # The newest request is dropped, because its body cannot be parsed.
            self.pipeline.popleft()
        else:
            self._refuse_current(reason)

    def _refuse_current(self, reason: str) -> None:
        """Refuse the body of the current request. The connection is closed after the response."""
        if self.cycle.response_complete:
            self.transport.close()
        elif self.cycle.response_started:
            self.cycle.keep_alive = False
        else:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            self.send_400_response(reason)

    def on_message_begin(self) -> None:
        """Remember that the head of a request has started, because the head must end in time."""
        self._barren_bytes = 0
        self._waiting_since = self.loop.time()
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Handle a field of the head. Fields after the body are ignored (RFC 9110, section 6.5.1).

        Proxies set or remove some fields of the head. A field after the body could have the name of
        such a field.
        """
        if not self._in_body:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Check the complete head of a request. From here on, the application waits for the body.

        Raises:
            _HeadRefusedError: Other servers might read the request differently.
        """
        parser = self.parser
        method, version = parser.get_method(), parser.get_http_version()
        problem = head_problem(method, version, self.headers, target=self.url)
        if problem:
            raise _HeadRefusedError(problem)
        if parser.should_upgrade():
            self._upgrading = True
            return
        if version == "1.0":
            # Such a client does not know interim answers (RFC 9110, section 10.1.1).
            self.expect_100_continue = False
        self._barren_bytes = 0
        self._waiting_since = None
        self._parts.head_ended(content_length(self.headers))
        super().on_headers_complete()
        self._in_body = True
        if self._among is not None:
            self._among.began(self)

    def on_body(self, body: bytes) -> None:
        """Handle a part of a body. The application limits its size."""
        self._barren_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Remember the end of the request."""
        if self._upgrading:
            return
        self._barren_bytes = 0
        self._waiting_since = None
        self._in_body = False
        self._parts.ended()
        if not self.parser.should_keep_alive():
            # The connection is closed after this request. Otherwise a field after the body could
            # keep the connection open, although the parser would read no further request.
            self.cycle.keep_alive = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Remember that the response is complete.

        The rest of the request is read and dropped for a while.
        """
        if self.cycle.more_body and self.cycle.response_complete:
            self._waiting_since = self.loop.time()
        last = not self.pipeline
        super().on_response_complete()
        if last and self._among is not None:
            self._among.ended(self)
        if self._refusal is not None:
            if last and not self.transport.is_closing():
                self.send_400_response(self._refusal)
        elif self._unread:
            self._go_on_soon()
        else:
            self.flow.resume_reading()

    def _look_again(self) -> None:
        now = self.loop.time()
        if self._unread_s(now) > self.PATIENCE_S:
            self.transport.abort()
            return
        if self._waiting_since is not None and self._waits() and not self._goes_on:
            # While received data waits for the application, the client's time does not run: the
            # client may already have sent all of its next head. If the data waits only for a later
            # turn of the event loop, the time runs, because a client may send without end.
            self._waiting_since = now
        since = self._waiting_since
        if since is not None and now - since > self.PATIENCE_S:
            self.transport.close()
        # The connection is watched even after `close`, because the socket stays open until its
        # client has read the responses.
        self._watch = self.loop.call_later(self.PATIENCE_S / 4, self._look_again)

    def _unread_s(self, now: float) -> float:
        """Return for how many seconds the client has read too little of the waiting responses."""
        # The time is measured only while the application writes nothing. Then the number of waiting
        # bytes becomes smaller as soon as the client reads.
        waits_for_client = self.flow.write_paused or self.transport.is_closing()
        left = self.transport.get_write_buffer_size() if waits_for_client else 0
        return self._unread_answers.unmoved_s(left, now)


def _reason(error: httptools.HttpParserError) -> str:
    """Return a reason for the client, without a quotation of the data that the client sent."""
    if isinstance(error.__context__, _HeadRefusedError):
        return str(error.__context__)
    if isinstance(error, httptools.HttpParserCallbackError):
        return "The target must be a path, or a URL."
    return f"This is no HTTP: {error}."
