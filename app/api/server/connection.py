"""One HTTP/1.1 connection of the server, which nobody can hold or fill by sending without end."""

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar, Final

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.api.server.open_connections import OpenConnections
from app.api.server.request_head import content_length, head_problem, without_upgrade
from app.api.server.request_parts import CHUNKS_MAX, RequestParts
from app.api.server.unread_answers import UnreadAnswers

# What may come in a row without the end of a request's head, or any body.
BARREN_BYTES_MAX: Final = 64 * 1024
# So much is looked at of what has come at once before it is asked whether a request waits already:
# a few dozen of the smallest requests. Of a body that has begun it is more: it may be large.
_LOOKED_AT: Final = 4 * 1024
_LOOKED_AT_OF_BODY: Final = 64 * 1024
_FULL: Final = b"Too many connections are open and at work: try again soon."
_REFUSAL_OF_ONE_MORE: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n"
    b"Content-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n\r\n%s" % (len(_FULL), _FULL)
)


class _Held(FlowControl):
    """Reads on only while nothing that has come waits, whoever asks for it.

    Applications do, when they want a body that is there already.
    """

    def __init__(self, transport: asyncio.Transport, *, waits: Callable[[], bool]) -> None:
        super().__init__(transport)
        self._waits = waits

    def resume_reading(self) -> None:
        """Unless something waits."""
        if not self._waits():
            super().resume_reading()


class _HeadRefusedError(Exception):
    """Raised within the parser, which then stops; the text is for the client."""


class BoundedConnection(HttpToolsProtocol):
    """Uvicorn's own protocol, with bounds on what it waits for and keeps.

    It is closed when a client takes longer than PATIENCE_S for its first byte, for the head of a
    request, or for the rest of a request that is answered already (a body is the routes' to time);
    and when the head grows beyond about BARREN_BYTES_MAX. Between requests uvicorn's keep-alive
    time holds.

    It is cut when its client reads less than READ_MIN in PATIENCE_S of the answers that keep it at
    work, or open though it is closed.

    Requests that are sent ahead wait unread behind the one that is answered, but for a few: whoever
    sends thousands takes no more of the loop for it than one who sends a few. After some hundred
    chunks of a body the rest waits for the next turn of the loop, for the same reason.

    A wish for another protocol is ignored, and the request is served (RFC 9110, section 7.8). After
    bytes that are no request it is closed: the requests before them get their answers first.
    """

    PATIENCE_S: ClassVar[float] = 30.0

    def __init__(
        self,
        *given: Any,  # noqa: ANN401 - as uvicorn makes it
        among: OpenConnections | None = None,
        **named: Any,  # noqa: ANN401 - the same
    ) -> None:
        super().__init__(*given, **named)
        self._among = among
        self._barren_bytes = 0
        self._waiting_since: float | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._unread_answers = UnreadAnswers()
        # What has come and was not looked at: at most what one read brings, as none follows it.
        self._unread = b""
        # It is looked at in the next turn of the loop.
        self._goes_on = False
        self._in_body = False
        self._parts = RequestParts()
        # The head of a request that asks for another protocol has come.
        self._upgrading = False
        # Why nothing is read any more, to be said once all that came before is answered.
        self._refusal: str | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn
        """Watch it from now on."""
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
        """Watch it no more."""
        if self._among is not None:
            self._among.closed(self)
        if self._watch:
            self._watch.cancel()
        self._unread = b""
        super().connection_lost(exc)

    def make_room(self) -> None:
        """Close at once, for another connection; no request is under way."""
        if self.transport.get_write_buffer_size():
            # It would stay open until its client has read all that.
            self.transport.abort()
        else:
            self.transport.close()

    def resume_writing(self) -> None:
        """The client has read nearly all."""
        self._unread_answers.moved()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Take in what came, as far as no other request waits to be answered."""
        if self._refusal is not None:
            return
        if len(data) <= _LOOKED_AT and not self._unread and not self.pipeline:  # nearly always
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
        """Read nothing more while something waits."""
        if self._waits() and not self.transport.is_closing():
            self.flow.pause_reading()
            if not self.pipeline:
                # It is no answer that is waited for.
                self._go_on_soon()

    def _go_on_soon(self) -> None:
        """In a turn of its own: others have theirs between."""
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
        """Whether the application has much of a body to read, and reads on when it has."""
        cycle = self.cycle
        return not cycle.response_complete and len(cycle.body) > HIGH_WATER_LIMIT

    def _take(self, data: bytes) -> None:
        """Look at it, unless nothing has come of it for too long."""
        # The callbacks below say when something does.
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
                # The parser has left out the body, if there is one: it is to read it all again.
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
        """Read nothing more, and close when all that is under way is answered."""
        self._refusal, self._unread, self._waiting_since = reason, b"", None
        self.flow.pause_reading()
        if not self._in_body:
            # None before the first request, whatever uvicorn declares.
            if self.cycle is None or self.cycle.response_complete:  # type: ignore[redundant-expr]
                self.send_400_response(reason)
        elif self.pipeline:
            # The newest one, of which the body cannot be read.
            self.pipeline.popleft()
        else:
            self._refuse_current(reason)

    def _refuse_current(self, reason: str) -> None:
        """The same, of the body of the request that is being answered."""
        if self.cycle.response_complete:
            self.transport.close()
        elif self.cycle.response_started:
            self.cycle.keep_alive = False
        else:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            self.send_400_response(reason)

    def on_message_begin(self) -> None:
        """A head begins, and must end in time."""
        self._barren_bytes = 0
        self._waiting_since = self.loop.time()
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field of the head; fields behind the body are left out (RFC 9110, section 6.5.1).

        A proxy that sets a field in the head, or removes it, may pass on one behind the body.
        """
        if not self._in_body:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """From here on it is the application that waits, for the body.

        Raises:
            _HeadRefusedError: others may read another request in it than we do.
        """
        parser = self.parser
        problem = head_problem(parser.get_method(), parser.get_http_version(), self.headers)
        if problem:
            raise _HeadRefusedError(problem)
        if parser.should_upgrade():
            self._upgrading = True
            return
        self._barren_bytes = 0
        self._waiting_since = None
        self._parts.head_ended(content_length(self.headers))
        super().on_headers_complete()
        self._in_body = True
        if self._among is not None:
            self._among.began(self)

    def on_body(self, body: bytes) -> None:
        """A part of a body, which the application bounds."""
        self._barren_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is there."""
        if self._upgrading:
            return
        self._barren_bytes = 0
        self._waiting_since = None
        self._in_body = False
        self._parts.ended()
        if not self.parser.should_keep_alive():
            # Or else a trailer says so: the parser reads nothing behind it.
            self.cycle.keep_alive = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """It is answered; what is left of it is read, and thrown away, for a while."""
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
            # It is not the client who is waited for: the rest of that head may have come. (What
            # waits for a turn says nothing: a client may send without end.)
            self._waiting_since = now
        since = self._waiting_since
        if since is not None and now - since > self.PATIENCE_S:
            self.transport.close()
        # Also of a closed one, which is open until its client has read the answers.
        self._watch = self.loop.call_later(self.PATIENCE_S / 4, self._look_again)

    def _unread_s(self, now: float) -> float:
        """For how long the client has read too little, though it is waited for."""
        # Nothing is written meanwhile, so what is left shrinks as soon as something is read.
        waits_for_client = self.flow.write_paused or self.transport.is_closing()
        left = self.transport.get_write_buffer_size() if waits_for_client else 0
        return self._unread_answers.unmoved_s(left, now)


def _reason(error: httptools.HttpParserError) -> str:
    """What the client is told, who may have sent anything."""
    if isinstance(error.__context__, _HeadRefusedError):
        return str(error.__context__)
    if isinstance(error, httptools.HttpParserCallbackError):
        return "The target must be a path, or a URL."
    return f"This is no HTTP: {error}."
