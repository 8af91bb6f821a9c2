"""HTTP/2 (RFC 9113): many requests at once on one connection. The library h2 handles the frames."""

import asyncio
import re
import ssl
from collections.abc import Iterable
from contextlib import suppress
from math import inf
from typing import Final, Protocol, cast

import httpx
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    InformationalResponseReceived,
    RemoteSettingsChanged,
    ResponseReceived,
    StreamEnded,
    StreamReset,
)
from h2.exceptions import H2Error, StreamClosedError
from h2.settings import SettingCodes, Settings
from hyperframe.exceptions import HyperframeError

from workers.transport.deadline_timer import DeadlineTimer
from workers.transport.exchange import PendingExchange
from workers.transport.http2_frames import FloodError, FrameBudget, GoAway, GoAways
from workers.transport.http2_stream import NotProcessedError, Stream
from workers.transport.limits import (
    BODY_MAX,
    HEAD_MAX,
    INTERIM_MAX,
    UNREAD_MAX,
)
from workers.transport.tls import tls_problem
from workers.transport.used_connection import peer_of
from workers.transport.wire import Header, fields_of

# The highest number that an HTTP/2 stream on a connection gets. A number is used only once, so a
# connection is replaced when it has used this number.
_LAST_STREAM: Final = 2**30
# How many seconds the other side has to read the reason, before the connection is closed.
_FAREWELL_S: Final = 1.0
_NOT_PROCESSED: Final = frozenset({ErrorCodes.REFUSED_STREAM, ErrorCodes.HTTP_1_1_REQUIRED})
_STATUS: Final = re.compile(rb"[2-9][0-9][0-9]")


class Http2ConnectionOwner(Protocol):
    """The pool that a connection reports to."""

    def released(self, connection: "Http2Connection") -> None:
        """Called when a request has ended. The connection may have space for another one."""

    def discard(self, connection: "Http2Connection") -> None:
        """Called, perhaps more than once, when the connection is closed."""

    @property
    def streams_max(self) -> int:
        """How many requests a connection may have at a time."""

    def malformed(self) -> None:
        """Called when an answer was malformed. All requests of its connection fail with it."""

    def chose_http1(self) -> None:
        """Called when the other side has demanded HTTP/1.1 for a request."""


class Http2Connection(asyncio.Protocol):
    """A connection to one origin, with several requests at a time.

    The limits of received data are the same as with HTTP/1.1 (`workers.transport.limits`). If a
    body is too large, or if there are too many interim responses, only the HTTP/2 stream of this
    response is reset, and the connection continues. A connection with too many small frames is
    closed (`FrameBudget`). The deadline timer watches the connection for the end of its idle time.
    """

    def __init__(self, owner: Http2ConnectionOwner, deadline_timer: DeadlineTimer) -> None:
        self._owner = owner
        self._deadline_timer = deadline_timer
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._http2 = H2Connection(H2Configuration(client_side=True, header_encoding=None))
        self._budget = FrameBudget(self._loop.time())
        self._go_aways = GoAways(self._budget)
        self._streams: dict[int, Stream] = {}
        self._received_at = 0.0
        self._retired = False
        self._gone = False
        self._paused = False
        self.deadline = inf
        # The loop time from which the connection takes no more requests.
        self.retires_at = inf
        self.peer = ""
        self.tls: ssl.SSLObject | None = None
        # Whether this connection's TLS session was already stored, so that later connections can
        # resume it.
        self.learnt = False

    @property
    def usable(self) -> bool:
        """Whether the connection is open and accepts requests."""
        transport = self._transport
        return (
            transport is not None
            and not self._gone
            and not self._retired
            and not transport.is_closing()
        )

    @property
    def room(self) -> int:
        """How many more requests the connection accepts now."""
        if not self.usable:
            return 0
        allowed = min(self._owner.streams_max, self._http2.remote_settings.max_concurrent_streams)
        return max(0, allowed - len(self._streams))

    @property
    def idle(self) -> bool:
        """Whether the connection has no request."""
        return not self._streams

    def start(self, exchange: PendingExchange) -> None:
        """Send the request. Call this only if the connection has space for it (`room`).

        Raises:
            httpx.LocalProtocolError: HTTP/2 cannot carry the request.
        """
        method, target, headers, body = fields_of(exchange.payload)
        number = self._http2.get_next_available_stream_id()
        fields = _fields(method, target, headers)
        try:
            self._http2.send_headers(number, fields, end_stream=not body)
        except H2Error as exc:
            # Send no more requests on this connection. The library h2 has kept a part of the
            # refused request, and would treat its stream as open.
            self.retire()
            raise httpx.LocalProtocolError(str(exc)) from exc
        stream = Stream(self, exchange, number=number, begun_at=self._loop.time())
        self._streams[number] = stream
        self._budget.requested()
        exchange.carrier = stream
        stream.unsent = body
        self.deadline = inf
        self._deadline_timer.add(self)
        self._deadline_timer.add(stream)
        self._send_bodies((stream,))
        self._write()
        if number >= _LAST_STREAM:
            self.retire()

    def rest(self, until: float) -> None:
        """Keep the idle connection for another request, until the loop time `until` at most."""
        self.deadline = until
        self._deadline_timer.add(self)

    def retire(self) -> None:
        """Accept no more requests, and close the connection when no request is in flight."""
        self._retired = True
        if self.idle:
            self.close()

    def close(self) -> None:
        """Close the connection gracefully. Call this only if the connection has no request."""
        transport = self._transport
        if transport is not None and not self._gone:
            if self.speaks_http2:
                self._http2.close_connection()
                self._write()
            # Close later, because this may be called while received bytes are parsed. uvloop then
            # reads the end of the TLS connection inside `transport.close`, and raises an error.
            self._loop.call_soon(transport.close)
        self._leave()

    def abort(self) -> None:
        """Close the connection immediately. Requests in flight get no response."""
        self._leave()
        if self._transport is not None:
            self._transport.abort()

    def fail(self, error: httpx.TransportError) -> None:
        """Close the connection immediately, and fail all requests in flight with `error`."""
        streams = self._take_streams()
        self.abort()
        for stream in streams:
            stream.exchange.fail(error)

    def expire(self) -> None:
        """Close the connection after its idle time."""
        if self.idle:
            self.close()

    def expire_stream(self, stream: Stream) -> None:
        """End a request after its deadline."""
        if self._received_at < stream.begun_at:
            # Send no more requests on this connection. Nothing was received since this request was
            # sent, so the next request would probably time out, too.
            self._retired = True
        self._reset(stream, httpx.ReadTimeout("the answer was not complete in time"))

    def cancel(self, stream: Stream) -> None:
        """End a request that was cancelled, and tell the other side."""
        if self._streams.get(stream.id) is stream:
            self._remove(stream, ErrorCodes.CANCEL)
            self._stream_ended()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start HTTP/2 if the other side has chosen it, unless the opening was cancelled."""
        self._transport = cast("asyncio.Transport", transport)
        self.peer = peer_of(transport)
        self.tls = transport.get_extra_info("ssl_object")
        if self._gone:
            self._transport.abort()
        elif self.speaks_http2:
            self._http2.local_settings = Settings(
                client=True,
                initial_values={
                    SettingCodes.ENABLE_PUSH: 0,
                    SettingCodes.MAX_HEADER_LIST_SIZE: HEAD_MAX,
                },
            )
            self._http2.initiate_connection()
            self._write()

    @property
    def speaks_http2(self) -> bool:
        """Whether the other side has chosen HTTP/2 (ALPN, RFC 7301)."""
        return self.tls is not None and self.tls.selected_alpn_protocol() == "h2"

    def data_received(self, data: bytes) -> None:
        """Parse received bytes, and send what the library h2 replies."""
        if self._gone:
            return
        self._received_at = self._loop.time()
        self._budget.refill(self._received_at)
        try:
            for part in self._go_aways.parts(data):
                self._read(part)
        except FloodError as exc:
            self._flee(httpx.RemoteProtocolError(f"a flood of HTTP/2: {exc}"))
            return
        except (H2Error, HyperframeError) as exc:
            self._owner.malformed()
            self._write()
            self.fail(httpx.RemoteProtocolError(f"not HTTP/2: {exc}"))
            return
        # Send bodies only after all received events are handled. The library h2 has read all events
        # already, and refuses data for streams that have ended.
        self._send_bodies(tuple(self._streams.values()))
        self._write()
        transport = self._transport
        if transport is not None and transport.get_write_buffer_size() > UNREAD_MAX:
            # Fail all requests, because too many bytes are not sent yet. These bytes are replies to
            # frames of the other side, which sends frames and reads nothing.
            self.fail(httpx.RemoteProtocolError("it asks much and reads nothing"))

    def pause_writing(self) -> None:
        """Stop sending bodies, because the other side does not read fast enough."""
        self._paused = True

    def resume_writing(self) -> None:
        """Continue sending bodies, because the other side has read enough."""
        self._paused = False
        self._send_bodies(tuple(self._streams.values()))
        self._write()

    def eof_received(self) -> None:
        """Called when the other side has closed the connection."""
        self.fail(httpx.RemoteProtocolError("the connection was closed within the answer"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Release everything that belonged to the closed socket."""
        if isinstance(exc, ssl.SSLError):
            self.fail(httpx.ReadError(tls_problem(exc)))
        elif exc is not None:
            self.fail(httpx.ReadError(f"the connection broke: {exc}"))
        else:
            self.fail(httpx.RemoteProtocolError("the connection was closed within the answer"))
        self._deadline_timer.discard(self)

    def _read(self, part: bytes | GoAway) -> None:
        if isinstance(part, GoAway):
            self._on_go_away(part)
            return
        for event in self._http2.receive_data(part):
            if not self._gone:
                self._on_event(event)

    def _flee(self, error: httpx.TransportError) -> None:
        """Tell the other side that it sends too much, close the connection, fail all requests."""
        transport = cast("asyncio.Transport", self._transport)
        streams = self._take_streams()
        with suppress(H2Error):
            self._http2.close_connection(ErrorCodes.ENHANCE_YOUR_CALM)
        self._write()
        for stream in streams:
            stream.exchange.fail(error)
        self._loop.call_soon(transport.close)  # later, as in `close`
        # Also abort the connection after a second. Otherwise it would stay open if the other side
        # never reads.
        self._loop.call_later(_FAREWELL_S, transport.abort)
        self._leave()

    def _on_event(self, event: Event) -> None:
        match event:
            case RemoteSettingsChanged():
                self._on_settings()
            case DataReceived():
                self._on_body(event)
            case ResponseReceived():
                self._on_response(event)
            case InformationalResponseReceived():
                self._on_interim(event)
            case StreamEnded():
                self._on_end(event)
            case StreamReset():
                self._on_reset(event)
            case _:
                pass  # ignore other events: h2 has replied where needed

    def _on_response(self, event: ResponseReceived) -> None:
        stream = self._streams.get(event.stream_id)
        if stream is not None:
            fields = [(bytes(each[0]), bytes(each[1])) for each in event.headers]
            status = dict(fields).get(b":status", b"")
            if not _STATUS.fullmatch(status):
                self._reset(stream, httpx.RemoteProtocolError("not an HTTP answer"))
                return
            stream.status = int(status)
            stream.headers = [each for each in fields if not each[0].startswith(b":")]

    def _on_interim(self, event: InformationalResponseReceived) -> None:
        stream = self._streams.get(event.stream_id)
        if stream is None:
            return
        stream.interim += 1
        if stream.interim > INTERIM_MAX:
            message = f"more than {INTERIM_MAX} interim answers"
            self._reset(stream, httpx.RemoteProtocolError(message))

    def _on_body(self, event: DataReceived) -> None:
        # Acknowledge received data even if its request has ended. All requests of the connection
        # use the same flow-control window.
        self._http2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        stream = self._streams.get(event.stream_id)
        if stream is None:
            return
        if event.data:
            stream.body.append(event.data[: BODY_MAX - stream.read])
        stream.read += len(event.data)
        if stream.read > BODY_MAX:
            self._succeed(stream, truncated=True)

    def _on_end(self, event: StreamEnded) -> None:
        stream = self._streams.get(event.stream_id)
        if stream is not None:
            self._succeed(stream)

    def _on_reset(self, event: StreamReset) -> None:
        stream = self._streams.get(event.stream_id)
        if stream is None:
            return
        message = f"the request was reset: {_spelled(event.error_code or 0)}"
        refused = event.error_code in _NOT_PROCESSED
        if event.error_code == ErrorCodes.HTTP_1_1_REQUIRED:
            self._owner.chose_http1()
            self._retired = True
        self._remove(stream, None)
        stream.exchange.fail(
            NotProcessedError(message) if refused else httpx.RemoteProtocolError(message)
        )
        self._stream_ended()

    def _on_settings(self) -> None:
        if self.room:
            self._owner.released(self)

    def _on_go_away(self, go_away: GoAway) -> None:
        self._retired = True
        message = f"the connection was ended: {_spelled(go_away.code)}"
        for stream in [each for each in self._streams.values() if each.id > go_away.last_stream]:
            self._remove(stream, None)
            stream.exchange.fail(NotProcessedError(message))
        if self.idle:
            self.close()

    def _succeed(self, stream: Stream, *, truncated: bool = False) -> None:
        code = ErrorCodes.CANCEL if truncated else ErrorCodes.NO_ERROR if stream.unsent else None
        self._remove(stream, code)
        stream.exchange.succeed(stream.answer(truncated=truncated))
        self._stream_ended()

    def _reset(self, stream: Stream, error: httpx.TransportError) -> None:
        self._remove(stream, ErrorCodes.CANCEL)
        stream.exchange.fail(error)
        self._stream_ended()

    def _remove(self, stream: Stream, code: ErrorCodes | None) -> None:
        """Remove the HTTP/2 stream of a request. A `code` is sent to the other side."""
        self._streams.pop(stream.id, None)
        self._deadline_timer.discard(stream)
        if code is not None:
            with suppress(StreamClosedError):
                self._http2.reset_stream(stream.id, code)
            self._write()

    def _stream_ended(self) -> None:
        """Release the connection after a stream was removed. If it is retired and idle, close it.

        Set the outcome of the stream's exchange first. An error here would leave it without one.
        """
        if self._retired and self.idle:
            self.close()
        elif not self._gone:
            self._owner.released(self)

    def _send_bodies(self, streams: tuple[Stream, ...]) -> None:
        """Send as much of the bodies as the other side allows."""
        http2 = self._http2
        for stream in streams:
            while stream.unsent and not self._paused and stream.id in self._streams:
                window = http2.local_flow_control_window(stream.id)
                size = min(window, http2.max_outbound_frame_size, len(stream.unsent))
                if size <= 0:
                    break
                part, stream.unsent = stream.unsent[:size], stream.unsent[size:]
                http2.send_data(stream.id, part, end_stream=not stream.unsent)
                self._budget.sent(size)
                self._write()

    def _write(self) -> None:
        transport = self._transport
        if transport is not None and not transport.is_closing():
            data = self._http2.data_to_send()
            if data:
                transport.write(data)

    def _take_streams(self) -> list[Stream]:
        streams = list(self._streams.values())
        self._streams.clear()
        for stream in streams:
            self._deadline_timer.discard(stream)
        return streams

    def _leave(self) -> None:
        self._gone = True
        self._take_streams()
        self.deadline = inf
        self._owner.discard(self)


def _fields(method: bytes, target: bytes, headers: Iterable[Header]) -> list[Header]:
    """Return the header fields for HTTP/2; the parts of the request line are fields too."""
    fields = [(name.lower(), value) for name, value in headers]
    authority = dict(fields).get(b"host", b"")
    return [
        (b":method", method),
        (b":scheme", b"https"),
        (b":authority", authority),
        (b":path", target),
        *(field for field in fields if field[0] != b"host"),
    ]


def _spelled(code: int) -> str:
    with suppress(ValueError):
        return ErrorCodes(code).name
    return str(code)
