"""One connection: writes a request and waits for its response."""

import asyncio
import ssl
from math import inf
from typing import Protocol, cast

import httpx

from workers.transport.answer import AnswerReader, UsualAnswer
from workers.transport.deadline_timer import DeadlineTimer
from workers.transport.exchange import PendingExchange
from workers.transport.tls import tls_problem
from workers.transport.used_connection import peer_of


class ConnectionOwner(Protocol):
    """The pool that a connection reports to."""

    def release(self, connection: "Connection") -> None:
        """Called when the connection is free for another request."""

    def discard(self, connection: "Connection") -> None:
        """Called, perhaps more than once, when the connection cannot carry another request."""


class Connection(asyncio.Protocol):
    """A connection to one origin, with at most one request at a time.

    The deadline timer watches the connection from its first request, or from the first time that it
    is idle. The timer then enforces the deadline of the request, or the end of the idle time.
    """

    __slots__ = (
        "_answer",
        "_deadline_timer",
        "_exchange",
        "_gone",
        "_owner",
        "_transport",
        "_watched",
        "deadline",
        "peer",
        "retires_at",
        "tls",
    )

    def __init__(
        self,
        owner: ConnectionOwner,
        deadline_timer: DeadlineTimer,
        usual: UsualAnswer | None = None,
    ) -> None:
        self._owner = owner
        self._deadline_timer = deadline_timer
        self._answer = AnswerReader(usual)
        self._transport: asyncio.Transport | None = None
        self._exchange: PendingExchange | None = None
        self._gone = False
        self._watched = False
        self.deadline = inf
        # The loop time from which the connection takes no more requests.
        self.retires_at = inf
        # The remote side as `host:port`. It is read once for the connection, and not for each
        # request.
        self.peer = ""
        # The TLS object, once the connection is open. None for a connection without TLS.
        self.tls: ssl.SSLObject | None = None

    @property
    def usable(self) -> bool:
        """Whether a request may be written.

        The connection is then open and has no request, and nothing shows that it is closing.
        """
        transport = self._transport
        return (
            transport is not None
            and self._exchange is None
            and not self._gone
            and not transport.is_closing()
        )

    def start(self, exchange: PendingExchange) -> None:
        """Write the request.

        The request is never written a second time. If its response does not come, it fails.
        """
        self._exchange = exchange
        exchange.carrier = self
        self.deadline = exchange.deadline
        if self._watched:
            self._deadline_timer.notice(exchange.deadline)
        else:
            self.watch()
        cast("asyncio.Transport", self._transport).write(exchange.payload)

    def watch(self) -> None:
        """Let the deadline timer watch the connection. Call this when the connection is open."""
        # The connection is watched only after it was opened. Some event loops (uvloop) do not
        # report the end of a connection whose opening was cancelled, so the timer would watch it
        # forever.
        self._watched = True
        self._deadline_timer.add(self)

    def rest(self, until: float) -> None:
        """Keep the idle connection for another request, until the loop time `until` at most."""
        self.deadline = until
        self._deadline_timer.notice(until)

    def close(self) -> None:
        """Close the connection gracefully. Call this only if the connection has no request."""
        self._leave()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection immediately. A request in flight gets no response."""
        self._leave()
        if self._transport is not None:
            self._transport.abort()
        else:
            # Close the parser here, because `connection_lost` is not called for a connection that
            # was never opened.
            self._answer.close()

    def fail(self, error: httpx.TransportError) -> None:
        """Close the connection immediately. A request in flight fails with `error`."""
        exchange = self._exchange
        self.abort()
        if exchange is not None:
            exchange.fail(error)

    def expire(self) -> None:
        """End a request after its deadline, or an idle connection after its time."""
        if self._exchange is None:
            self.close()
        else:
            self.fail(httpx.ReadTimeout("the answer was not complete in time"))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take over the opened socket. Close it if the opening was cancelled meanwhile."""
        self._transport = cast("asyncio.Transport", transport)
        self.peer = peer_of(transport)
        self.tls = transport.get_extra_info("ssl_object")
        if self._gone:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Parse received bytes."""
        if self._exchange is None:
            # Close the connection, because data came without a request. Otherwise these bytes would
            # be taken for the response to the next request.
            self.abort()
            return
        try:
            complete = self._answer.feed(data)
        except httpx.RemoteProtocolError as exc:
            self.fail(exc)
            return
        if complete:
            self._finish(self._exchange)

    def eof_received(self) -> None:
        """Called when the other side has closed the connection.

        This completes a response that ends with the connection. Otherwise the request fails.
        """
        self._end(None)
        self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Release everything that belonged to the closed socket."""
        self._end(exc)
        self._leave()
        self._deadline_timer.discard(self)
        self._answer.close()

    def _finish(self, exchange: PendingExchange) -> None:
        answer = self._answer.take()
        self._exchange = None
        if self._answer.reusable and self._is_sent():
            self._owner.release(self)
        else:
            self.abort()
        exchange.succeed(answer)

    def _is_sent(self) -> bool:
        """Whether the whole request was sent. False if the response came earlier."""
        transport = cast("asyncio.Transport", self._transport)
        return not transport.get_write_buffer_size() and not transport.is_closing()

    def _end(self, exc: Exception | None) -> None:
        exchange = self._exchange
        if exchange is None:
            return
        if isinstance(exc, ssl.SSLError):
            self.fail(httpx.ReadError(tls_problem(exc)))
            return
        if exc is not None:
            self.fail(httpx.ReadError(f"the connection broke: {exc}"))
            return
        try:
            self._answer.end()
        except httpx.RemoteProtocolError as error:
            self.fail(error)
            return
        self._finish(exchange)

    def _leave(self) -> None:
        self._gone = True
        self._exchange = None
        self.deadline = inf
        self._owner.discard(self)
