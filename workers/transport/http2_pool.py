"""The HTTP/2 connections of one origin."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from math import ceil
from typing import Final

import httpx

from workers.transport.answer import RawAnswer
from workers.transport.deadline_timer import DeadlineTimer
from workers.transport.dialer import ConnectionOrigin, Dialer
from workers.transport.exchange import Exchange, PendingExchange
from workers.transport.http2 import Http2Connection
from workers.transport.http2_stream import NotProcessedError
from workers.transport.late_start import MayStart
from workers.transport.limits import STREAMS_MAX, TransportLimits
from workers.transport.pool import OriginPool
from workers.transport.used_connection import goes_by

_CLOSED: Final = "the transport is closed"
# How often the same request may be sent, if the other side reports each time that it did not
# process the request.
_SENT_MAX: Final = 3
# How long it is remembered that an origin supports only HTTP/1.1, or had a malformed answer.
_KEPT_S: Final = 300.0
_CHOICES_MAX: Final = 10_000


class Choices:
    """How connections to origins are used, as their answers have shown.

    Origins that support only HTTP/1.1 are remembered, because each try of HTTP/2 costs a handshake.
    An origin with a malformed answer gets only one request on a connection. Otherwise such answers
    to one subscription would fail the requests of the others, because the library h2 ends the whole
    connection then.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._http1_until: OrderedDict[ConnectionOrigin, float] = OrderedDict()
        self._one_request_until: OrderedDict[ConnectionOrigin, float] = OrderedDict()

    def chose_http1(self, origin: ConnectionOrigin) -> None:
        """Remember for some time that the origin chose HTTP/1.1."""
        self._remember(self._http1_until, origin)

    def is_http1(self, origin: ConnectionOrigin) -> bool:
        """Whether the origin is known to support only HTTP/1.1, so that HTTP/2 is not tried."""
        return self._loop.time() < self._http1_until.get(origin, 0.0)

    def malformed(self, origin: ConnectionOrigin) -> None:
        """Remember for some time that an answer of the origin was malformed."""
        self._remember(self._one_request_until, origin)

    def streams_max(self, origin: ConnectionOrigin) -> int:
        """Return how many requests a connection to the origin may have at a time."""
        return 1 if self._loop.time() < self._one_request_until.get(origin, 0.0) else STREAMS_MAX

    def _remember(self, until: OrderedDict[ConnectionOrigin, float], key: ConnectionOrigin) -> None:
        until[key] = self._loop.time() + _KEPT_S
        until.move_to_end(key)
        if len(until) > _CHOICES_MAX:
            until.popitem(last=False)


class Http2Pool:
    """The connections of one origin: as few as possible by HTTP/2, or connections by HTTP/1.1.

    HTTP/1.1 is used if the origin chooses it. When all HTTP/2 connections are full, one more is
    opened, and only one at a time. Meanwhile requests wait in order, each until its deadline. If
    the new connection cannot be opened, all waiting requests fail, too.
    """

    def __init__(
        self,
        origin: ConnectionOrigin,
        *,
        dialer: Dialer,
        deadline_timer: DeadlineTimer,
        limits: TransportLimits,
        choices: Choices,
        on_empty: Callable[[ConnectionOrigin], None],
    ) -> None:
        self._origin = origin
        self._dialer = dialer
        self._deadline_timer = deadline_timer
        self._connections_max = limits.connections_max
        self._idle_expiry_s = limits.idle_expiry.total_seconds()
        self._age_s = limits.connection_age.total_seconds()
        self._choices = choices
        self._on_empty = on_empty
        self._loop = asyncio.get_running_loop()
        self._connections: dict[Http2Connection, None] = {}
        self._queue: deque[asyncio.Future[None]] = deque()
        self._senders = 0
        self._dialing = False
        self._closed = False
        credentials = origin.credentials._replace(http2=False)
        self._http1 = OriginPool(
            origin._replace(credentials=credentials),
            dialer=dialer,
            deadline_timer=deadline_timer,
            limits=limits,
            on_empty=lambda _: self._forget(),
        )

    def __len__(self) -> int:
        return len(self._connections) + len(self._http1)

    @property
    def idle(self) -> int:
        """The number of connections without a request."""
        return sum(each.idle for each in self._connections) + self._http1.idle

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a connection."""
        return len(self._queue) + self._http1.waiting

    def begin(self, exchange: PendingExchange) -> bool:
        """Write the request to an idle connection, if the origin is known to use HTTP/1.1.

        For a request by HTTP/2, the caller must await `send` instead, because it may have to be
        sent again.

        Returns:
            Whether the request was written.
        """
        return self._choices.is_http1(self._origin) and self._http1.begin(exchange)

    async def send(
        self, payload: bytes, deadline: float, may_start: MayStart | None = None
    ) -> RawAnswer:
        """Send `payload` and return its response by `deadline`; otherwise raise an httpx exception.

        The request is sent again only if the other side reports that it did not process the
        request. If the request had to wait for its connection, `may_start` is called before the
        request is written, and decides whether it may be written.
        """
        self._senders += 1
        try:
            for _ in range(_SENT_MAX - 1):
                with suppress(NotProcessedError):
                    return await self._send(payload, deadline, may_start)
            return await self._send(payload, deadline, may_start)
        finally:
            self._senders -= 1
            self._forget()

    def released(self, connection: Http2Connection) -> None:
        """Use the connection's space for waiting requests. If it has no request, keep it idle."""
        if self._closed:
            if connection.idle:
                connection.close()
            return
        now = self._loop.time()
        if now >= connection.retires_at:
            connection.retire()
            self._wake(1)
            return
        self._wake(connection.room)
        if connection.idle:
            until = now + self._idle_expiry_s
            connection.rest(ceil(until))

    def discard(self, connection: Http2Connection) -> None:
        """Remove a closed connection. The request that has waited longest may open another one."""
        if connection in self._connections:
            del self._connections[connection]
            self._wake(1)
            self._forget()

    @property
    def streams_max(self) -> int:
        """How many requests a connection may have at a time."""
        return self._choices.streams_max(self._origin)

    def malformed(self) -> None:
        """Called when an answer was malformed. All requests of its connection fail with it."""
        self._choices.malformed(self._origin)

    def chose_http1(self) -> None:
        """Called when the other side has demanded HTTP/1.1 for a request."""
        self._choices.chose_http1(self._origin)

    def close(self) -> None:
        """Close idle connections, refuse waiting requests, and let requests in flight finish."""
        self._closed = True
        self._refuse(httpx.ConnectError(_CLOSED))
        for connection in tuple(self._connections):
            connection.retire()
        self._http1.close()

    def abort(self) -> None:
        """Fail the requests in flight, and close all connections immediately."""
        for connection in tuple(self._connections):
            connection.fail(httpx.ReadError(_CLOSED))
        self._http1.abort()

    async def _send(self, payload: bytes, deadline: float, may_start: MayStart | None) -> RawAnswer:
        connection = self._with_room()
        waits = connection is None
        if connection is None:
            connection = await self._connection(deadline)
        if connection is None:
            return await self._http1.send(payload, deadline, may_start)
        exchange = Exchange(
            payload, deadline, self._loop.create_future(), may_start=may_start if waits else None
        )
        if exchange.is_still_allowed():
            goes_by(connection.peer)
            connection.start(exchange)
        else:
            self.released(connection)
        try:
            answer = await exchange.answer
        except asyncio.CancelledError:
            exchange.cancel()
            raise
        if not connection.learnt:
            connection.learnt = True
            await self._dialer.learn(self._origin, connection.tls)
        return answer

    def _with_room(self) -> Http2Connection | None:
        return next((each for each in self._connections if each.room), None)

    async def _connection(self, deadline: float) -> Http2Connection | None:
        """Return a connection with space for a request; None if the origin chose HTTP/1.1."""
        while not self._choices.is_http1(self._origin):
            found = self._with_room()
            if found is not None:
                return found
            if self._closed:
                raise httpx.ConnectError(_CLOSED)
            if not self._dialing and len(self._connections) < self._connections_max:
                return await self._dial(deadline)
            await self._turn(deadline)
        return None

    async def _dial(self, deadline: float) -> Http2Connection | None:
        connection = Http2Connection(self, self._deadline_timer)
        self._connections[connection] = None
        self._dialing, dialled = True, False
        try:
            await self._dialer.dial(self._origin, connection, deadline=deadline)
            dialled = True
        except httpx.TransportError as exc:
            self._refuse(exc)
            raise
        finally:
            self._dialing = False
            if not dialled:
                # Remove the connection from the pool if it was not opened, also if the opening was
                # cancelled.
                connection.abort()
        return self._dialled(connection)

    def _dialled(self, connection: Http2Connection) -> Http2Connection | None:
        if connection.speaks_http2:
            if not connection.usable:
                connection.abort()
                raise httpx.ConnectError("the connection was closed as soon as it was opened")
            connection.retires_at = self._loop.time() + self._age_s
            self._wake(connection.room)
            return connection
        self._choices.chose_http1(self._origin)
        connection.close()
        self._wake(len(self._queue))
        return None

    async def _turn(self, deadline: float) -> None:
        turn: asyncio.Future[None] = self._loop.create_future()
        self._queue.append(turn)
        try:
            async with asyncio.timeout_at(deadline):
                await turn
        except TimeoutError as exc:
            self._pass_on(turn)
            if not any(each.usable for each in self._connections):
                message = f"no connection to {self._origin.host}:{self._origin.port} in time"
                raise httpx.ConnectTimeout(message) from exc
            raise httpx.PoolTimeout("no connection became free in time") from exc
        except asyncio.CancelledError:
            self._pass_on(turn)
            raise

    def _pass_on(self, turn: asyncio.Future[None]) -> None:
        """Let the next waiting request continue, because the request of this `turn` has ended."""
        if turn in self._queue:
            self._queue.remove(turn)
        elif turn.done() and not turn.cancelled() and turn.exception() is None:
            self._wake(1)

    def _wake(self, count: int) -> None:
        while self._queue and count > 0:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                count -= 1

    def _refuse(self, error: httpx.TransportError) -> None:
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_exception(error)

    def _forget(self) -> None:
        if not (self._senders or self._connections or len(self._http1)):
            self._on_empty(self._origin)
