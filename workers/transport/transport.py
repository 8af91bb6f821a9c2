"""The transport: httpx's interface over Angelia's own connections."""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from app.domain.network.egress import Address, EgressPolicy
from app.domain.network.egress_proxy import EgressProxy
from workers.transport.answer import RawAnswer
from workers.transport.deadline_timer import DeadlineTimer
from workers.transport.dialer import ConnectionOrigin, Dialer, Watch
from workers.transport.exchange import PendingExchange
from workers.transport.late_start import MayStart
from workers.transport.limits import TransportLimits
from workers.transport.pool import OriginPool
from workers.transport.resolver import Resolver
from workers.transport.response import LazyResponse
from workers.transport.tunneler import Tunneler
from workers.transport.wire import one_request

if TYPE_CHECKING:
    from workers.transport.http2_pool import Choices, Http2Pool

# How many seconds the transport waits for its connections to close, after it has aborted them. This
# needs one or two turns of the event loop.
_ABORT_S = 1.0
_BODILESS_ANSWER = frozenset(("HEAD", "CONNECT"))
# The maximum number of cached origins, by URL. To parse a URL takes longer than to find its origin
# in this cache.
_ORIGINS_KNOWN_MAX = 1_000


class DeliveryTransport(httpx.AsyncBaseTransport):
    """Sends requests by HTTP/1.1 over keep-alive connections.

    Create it on the event loop that uses it.

    HTTP/2 is used if the subscription allows it and the origin chooses it.

    * **One deadline.** The `read` value of the request's `timeout` extension, in seconds, is the
      total time for waiting, connecting, TLS, writing, headers and body. It is enforced at most
      `GRAIN_S` (20 ms) late. Other values of this extension are ignored.
    * **One POST.** A request is written at most once. By HTTP/2 it is written again only if the
      other side reports that it did not process the request. Another connection is tried only if
      nothing was written on the first one.
    * **Bounded answers.** At most 64 KiB of body are read. Then the connection is closed, and the
      response has the extension `truncated`. Headers and interim answers are bounded, too.
    * TLS verifies certificates by the system's authorities, and by the authorities in `ca_file`.
    * Only addresses that `egress` allows are reached, whatever a name server answers later. With a
      `proxy`, requests to all addresses outside its direct networks go through tunnels, even
      requests to http:// URLs. An error of the proxy is an httpx.ProxyError.
    * Redirects are not followed, cookies are not kept, and bodies are not decompressed. The caller
      sets the `Host` header, as httpx's client does. The transport sets Content-Length.
    * Only httpx exceptions are raised. A cancelled request closes its connection.
    """

    def __init__(
        self,
        *,
        egress: EgressPolicy,
        limits: TransportLimits | None = None,
        ca_file: Path | None = None,
        proxy: EgressProxy | None = None,
        watch: Watch | None = None,
    ) -> None:
        self._limits = limits or TransportLimits()
        self._timeout_s = self._limits.timeout.total_seconds()
        self._loop = asyncio.get_running_loop()
        self._deadline_timer = DeadlineTimer(self._loop)
        self._dialer = Dialer(
            Resolver(egress), ca_file, Tunneler(proxy) if proxy else None, watch=watch
        )
        self._choices: Choices | None = None
        self._pools: dict[ConnectionOrigin, OriginPool | Http2Pool] = {}
        self._origins: dict[tuple[bytes, bytes, int | None], ConnectionOrigin] = {}
        self._closed = False

    @property
    def connections(self) -> int:
        """The number of connections that are open or being opened, over all origins."""
        return sum(len(pool) for pool in self._pools.values())

    @property
    def idle_connections(self) -> int:
        """The number of open connections that wait for a request."""
        return sum(pool.idle for pool in self._pools.values())

    @property
    def waiting_requests(self) -> int:
        """The number of requests that wait for a connection."""
        return sum(pool.waiting for pool in self._pools.values())

    @property
    def origins(self) -> int:
        """The number of origins that have a connection or a waiting request."""
        return len(self._pools)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send `request` and return its complete response, which need not be closed."""
        try:
            stream = request.stream
            if isinstance(stream, httpx.ByteStream):
                payload = _payload(request, b"".join(stream))
            else:
                payload = _payload(request, await request.aread())
            origin = self._origin(request.url)
            answer = await self.exchange(origin, payload, total_s=self._total_s(request))
        except httpx.TransportError as exc:
            exc.request = request
            raise
        return LazyResponse.of(answer, request)

    async def aclose(self) -> None:
        """Accept no more requests. End the requests in flight after `close_grace` at the latest."""
        self._closed = True
        for pool in tuple(self._pools.values()):
            pool.close()
        try:
            await self._closed_within(self._limits.close_grace.total_seconds())
        finally:
            for pool in tuple(self._pools.values()):
                pool.abort()
            self._dialer.close()
        await self._closed_within(_ABORT_S)

    async def _closed_within(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._deadline_timer.drained()

    def exchange(
        self,
        origin: ConnectionOrigin,
        payload: bytes,
        *,
        total_s: float,
        may_start: MayStart | None = None,
    ) -> Coroutine[Any, Any, RawAnswer]:
        """Send `payload`, a request as bytes, and return its response.

        If the request had to wait for its connection, `may_start` is called before the request is
        written. If it returns False, LateStartError is raised.

        This method is for callers that send many similar requests, because httpx's request and
        response objects take more time than all other steps.
        """
        if self._closed:
            raise httpx.ConnectError("the transport is closed")
        # Return the coroutine of the pool and do not await it here, because each additional
        # coroutine takes time.
        return self._pool(origin).send(payload, self._loop.time() + total_s, may_start)

    async def addresses(self, origin: ConnectionOrigin, *, total_s: float) -> Sequence[Address]:
        """Look up the host within `total_s` seconds, and return all addresses that may be used."""
        return await self._dialer.addresses(origin, deadline=self._loop.time() + total_s)

    def begin(self, origin: ConnectionOrigin, exchange: PendingExchange) -> bool:
        """Send the request if it does not have to wait. Return whether it was sent.

        This method is for callers that need no future. The request cannot overtake a waiting
        request, because no connection is idle while a request waits.
        """
        pool = self._pools.get(origin)
        return pool is not None and not self._closed and pool.begin(exchange)

    def _origin(self, url: httpx.URL) -> ConnectionOrigin:
        key = (url.raw_scheme, url.raw_host, url.port)
        origin = self._origins.get(key)
        if origin is None:
            if len(self._origins) >= _ORIGINS_KNOWN_MAX:
                self._origins.clear()
            origin = self._origins[key] = ConnectionOrigin.of(url)
        return origin

    def _total_s(self, request: httpx.Request) -> float:
        timeout = request.extensions.get("timeout")
        total: float | None = timeout.get("read") if timeout else None
        return self._timeout_s if total is None else total

    def _pool(self, origin: ConnectionOrigin) -> "OriginPool | Http2Pool":
        pool = self._pools.get(origin)
        if pool is None:
            pool = self._pools[origin] = self._new_pool(origin)
        return pool

    def _new_pool(self, origin: ConnectionOrigin) -> "OriginPool | Http2Pool":
        if origin.credentials.http2:
            return self._new_http2_pool(origin)
        return OriginPool(
            origin,
            dialer=self._dialer,
            deadline_timer=self._deadline_timer,
            limits=self._limits,
            on_empty=self._drop,
        )

    def _new_http2_pool(self, origin: ConnectionOrigin) -> "Http2Pool":
        from workers.transport.http2_pool import Choices, Http2Pool  # noqa: PLC0415 - imports h2, which few subscriptions need

        self._choices = self._choices or Choices()
        return Http2Pool(
            origin,
            dialer=self._dialer,
            deadline_timer=self._deadline_timer,
            limits=self._limits,
            choices=self._choices,
            on_empty=self._drop,
        )

    def _drop(self, origin: ConnectionOrigin) -> None:
        # Remove the empty pool of the origin. Subscriptions come and go, and unused pools must not
        # accumulate.
        self._pools.pop(origin, None)


def _payload(request: httpx.Request, body: bytes) -> bytes:
    if request.method in _BODILESS_ANSWER:
        message = f"{request.method} is not supported"
        raise httpx.LocalProtocolError(message)
    method = request.method.encode("ascii")
    return one_request(method, request.url.raw_path, headers=request.headers.raw, body=body)
