"""The HTTP/1.1 connections of one origin."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from math import ceil
from typing import Final

import httpx

from workers.transport.answer import RawAnswer, UsualAnswer
from workers.transport.connection import Connection
from workers.transport.deadline_timer import DeadlineTimer
from workers.transport.dialer import ConnectionOrigin, Dialer
from workers.transport.exchange import Exchange, PendingExchange
from workers.transport.late_start import MayStart
from workers.transport.limits import TransportLimits
from workers.transport.used_connection import goes_by

_CLOSED: Final = "the transport is closed"


class _Waiting:
    """A request that waits for a connection, at most until its deadline.

    When the wait ends, `turn` gets a result. It is a connection that the request must open itself.
    It is None if the request was written to a connection that became free.
    """

    __slots__ = ("deadline", "exchange", "turn")

    def __init__(self, exchange: Exchange, turn: "asyncio.Future[Connection | None]") -> None:
        self.exchange = exchange
        self.deadline = exchange.deadline
        self.turn = turn

    def expire(self) -> None:
        """Called at the deadline: let the request fail."""
        self.fail(httpx.PoolTimeout("no connection became free in time"))

    def fail(self, error: httpx.TransportError) -> None:
        """Let the request fail with `error`, if it still waits."""
        if not self.turn.done():
            self.turn.set_exception(error)


class OriginPool:
    """Keep-alive connections to one origin.

    Of several idle connections, the one that was used last is taken, so that connections that are
    not needed expire. If `connections_max` connections are busy, requests wait in order, each until
    its deadline. `on_empty` is called when the last connection is gone and no request waits.
    """

    def __init__(
        self,
        origin: ConnectionOrigin,
        *,
        dialer: Dialer,
        deadline_timer: DeadlineTimer,
        limits: TransportLimits,
        on_empty: Callable[[ConnectionOrigin], None],
    ) -> None:
        self._origin = origin
        self._dialer = dialer
        self._deadline_timer = deadline_timer
        self._connections_max = limits.connections_max
        self._idle_expiry_s = limits.idle_expiry.total_seconds()
        self._age_s = limits.connection_age.total_seconds()
        self._idle_grain_s = min(1.0, self._idle_expiry_s)
        self._on_empty = on_empty
        self._loop = asyncio.get_running_loop()
        self._usual = UsualAnswer()
        # All connections of this pool that are open or being opened.
        self._connections: set[Connection] = set()
        # The idle connections. The one that was used last is at the end.
        self._idle: dict[Connection, None] = {}
        self._queue: OrderedDict[_Waiting, None] = OrderedDict()
        self._closed = False

    def __len__(self) -> int:
        return len(self._connections)

    @property
    def idle(self) -> int:
        """The number of connections that wait for a request."""
        return len(self._idle)

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a connection."""
        return len(self._queue)

    async def send(
        self, payload: bytes, deadline: float, may_start: MayStart | None = None
    ) -> RawAnswer:
        """Write `payload` once and return its response by `deadline`.

        If there is no response by then, raise an httpx exception. If the request had to wait for
        its connection, `may_start` is called before the request is written, and decides whether it
        may be written.

        If the call is cancelled, the connection of its request is closed, so no response can reach
        the wrong request.
        """
        exchange = Exchange(payload, deadline, self._loop.create_future(), may_start=may_start)
        connection = self._take_idle()
        try:
            if connection is None:
                return await self._answer_by_another(exchange)
            goes_by(connection.peer)
            connection.start(exchange)
            return await exchange.answer
        except asyncio.CancelledError:
            exchange.cancel()
            raise
        except httpx.TransportError as error:
            # Break a reference cycle: the exchange refers to the error, and the traceback of the
            # error refers to the exchange.
            del exchange
            raise error.with_traceback(None)  # noqa: B904 - the same error is raised again

    def begin(self, exchange: PendingExchange) -> bool:
        """Write the request to an idle connection, if there is one.

        Return whether the request was written.
        """
        connection = self._take_idle()
        if connection is None:
            return False
        connection.start(exchange)
        return True

    def release(self, connection: Connection) -> None:
        """Give `connection` to the request that has waited longest; if none waits, keep it idle."""
        if self._closed:
            connection.close()
            return
        now = self._loop.time()
        if now >= connection.retires_at:
            # Close it later, because this is called while its last answer is read.
            self._loop.call_soon(connection.close)
            return
        while self._queue:
            waiting, _ = self._queue.popitem(last=False)
            if not waiting.turn.done():
                waiting.turn.set_result(None)
                if waiting.exchange.is_still_allowed():
                    connection.start(waiting.exchange)
                    return
        self._idle[connection] = None
        # Round up the time until which the connection is kept, so that thousands of idle
        # connections need at most one timer per second.
        until = now + self._idle_expiry_s
        connection.rest(ceil(until / self._idle_grain_s) * self._idle_grain_s)

    def discard(self, connection: Connection) -> None:
        """Remove a closed connection. The request that has waited longest may open another one."""
        if connection not in self._connections:
            return
        self._connections.remove(connection)
        self._idle.pop(connection, None)
        while self._queue:
            waiting, _ = self._queue.popitem(last=False)
            if not waiting.turn.done():
                waiting.turn.set_result(self._reserved())
                return
        if not self._connections:
            self._on_empty(self._origin)

    def close(self) -> None:
        """Close idle connections, refuse waiting requests, and let requests in flight finish."""
        self._closed = True
        while self._queue:
            waiting, _ = self._queue.popitem()
            waiting.fail(httpx.ConnectError(_CLOSED))
        for connection in tuple(self._idle):
            connection.close()

    def abort(self) -> None:
        """Fail the requests in flight, and close all connections immediately."""
        for connection in tuple(self._connections):
            connection.fail(httpx.ReadError(_CLOSED))

    def _take_idle(self) -> Connection | None:
        while self._idle:
            connection, _ = self._idle.popitem()
            if self._loop.time() >= connection.retires_at:
                connection.close()
                continue
            if connection.usable:
                return connection
            # The other side has closed this idle connection. Take another one, because nothing was
            # written yet.
            connection.abort()
        return None

    def _reserved(self) -> Connection:
        connection = Connection(self, self._deadline_timer, self._usual)
        self._connections.add(connection)
        return connection

    async def _answer_by_another(self, exchange: Exchange) -> RawAnswer:
        """Return the response over a new connection, or over the first one that becomes free."""
        if len(self._connections) < self._connections_max:
            connection: Connection | None = self._reserved()
        else:
            connection = await self._turn(exchange)
        if connection is None:
            if exchange.carrier is not None:
                goes_by(exchange.carrier.peer)
            return await exchange.answer
        await self._dial(connection, exchange)
        answer = await exchange.answer
        await self._dialer.learn(self._origin, connection.tls)
        return answer

    async def _dial(self, connection: Connection, exchange: Exchange) -> None:
        try:
            await self._dialer.dial(self._origin, connection, deadline=exchange.deadline)
        except BaseException:
            # Remove the connection from the pool if it cannot be opened, also if the opening was
            # cancelled.
            connection.abort()
            raise
        if not connection.usable:
            connection.abort()
            raise httpx.ConnectError("the connection was closed as soon as it was opened")
        connection.retires_at = self._loop.time() + self._age_s
        if exchange.is_still_allowed():
            connection.start(exchange)
        else:
            connection.watch()
            self.release(connection)

    async def _turn(self, exchange: Exchange) -> Connection | None:
        """Wait until the request may open a connection, and return this connection.

        Return None if the request was written to a connection that became free.
        """
        waiting = _Waiting(exchange, self._loop.create_future())
        self._queue[waiting] = None
        self._deadline_timer.add(waiting)
        try:
            return await waiting.turn
        except asyncio.CancelledError:
            self._give_back(waiting)
            raise
        finally:
            self._queue.pop(waiting, None)
            self._deadline_timer.discard(waiting)

    def _give_back(self, waiting: _Waiting) -> None:
        """Let the next waiting request open a connection, because this request was cancelled."""
        turn = waiting.turn
        if turn.done() and not turn.cancelled() and turn.exception() is None:
            reserved = turn.result()
            if reserved is not None:
                reserved.abort()
