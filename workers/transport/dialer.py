"""The origins of requests, and the opening of connections to them."""

import asyncio
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from socket import socket
from typing import Final, NamedTuple

import httpx

from app.domain.network.egress import DEFAULT_PORTS, PORT_MAX, Address
from workers.transport.resolver import Resolver
from workers.transport.routes import HasRoute, has_route, of_reachable_kinds
from workers.transport.sockets import connected_to
from workers.transport.tls import PLAIN, Credentials, TlsContexts, tls_problem
from workers.transport.tunneler import Tunneler
from workers.transport.used_connection import USED_CONNECTION

# How long a graceful end of TLS may take before the socket is closed.
_TLS_SHUTDOWN_S: Final = 1.0

Watch = Callable[[asyncio.BaseTransport], None]


class ConnectionOrigin(NamedTuple):
    """The target and the credentials of a connection.

    Only requests with the same origin share connections.

    `address` selects one of the host's addresses. None means any address that can be reached.
    """

    scheme: str
    host: str
    port: int
    credentials: Credentials = PLAIN
    address: Address | None = None

    @classmethod
    def of(cls, url: httpx.URL, credentials: Credentials = PLAIN) -> "ConnectionOrigin":
        """Return the origin of `url`. An origin without TLS has no credentials.

        Raises:
            httpx.UnsupportedProtocol: `url` is not an HTTP URL with a host.
        """
        # Use `raw_host` of the URL and not `host`. Reading `host` decodes IDNA, and raises an error
        # for some names that are only unknown.
        host = url.raw_host.decode("ascii")
        port = DEFAULT_PORTS.get(url.scheme, 0) if url.port is None else url.port
        if url.scheme not in DEFAULT_PORTS or not host or not 0 < port <= PORT_MAX:
            message = f"not an http:// or https:// URL with a host: {url.scheme}://{host}:{port}"
            raise httpx.UnsupportedProtocol(message)
        return cls(url.scheme, host, port, credentials if url.scheme == "https" else PLAIN)


class Dialer:
    """Opens connections to allowed addresses only.

    Each connection goes exactly to the address that was checked, directly or through the proxy. No
    name is looked up after the check. TLS is 1.2 or newer. It verifies the certificate and the name
    of the host with the system's authorities and the authorities in `ca_file`.
    """

    def __init__(
        self,
        resolver: Resolver,
        ca_file: Path | None = None,
        tunneler: Tunneler | None = None,
        *,
        watch: Watch | None = None,
        has_route: HasRoute = has_route,
    ) -> None:
        self._watch = watch
        self._has_route = has_route
        self._resolver = resolver
        self._contexts = TlsContexts(ca_file)
        self._tunneler = tunneler

    async def dial(
        self, origin: ConnectionOrigin, connection: asyncio.Protocol, *, deadline: float
    ) -> None:
        """Connect `connection` to `origin`, with the TLS handshake if it is an https origin.

        `deadline` is a time of the event loop's clock. After an error, no bytes of a request were
        sent. A RefusedAddressError is an httpx.ConnectError.

        Raises:
            httpx.ConnectTimeout: The deadline passed.
            httpx.ProxyError: The proxy failed.
            httpx.ConnectError: The host cannot be reached, or the egress policy refuses it.
        """
        try:
            connected = await self._connected(origin, deadline)
            try:
                async with asyncio.timeout_at(deadline):
                    made = await self._speak(origin, connection, connected)
            except BaseException:
                connected.close()
                raise
            if self._watch is not None:
                self._watch(made)
            if (opening := USED_CONNECTION.get()) is not None:
                opening.opened(made)
        except (OSError, ValueError) as exc:
            raise _unconnected(exc, origin) from exc

    async def addresses(self, origin: ConnectionOrigin, *, deadline: float) -> Sequence[Address]:
        """Return all addresses of the host, the preferred ones first.

        If this machine can reach only IPv4 or only IPv6, return only addresses of that kind.
        `deadline` is a time of the event loop's clock.

        Raises:
            httpx.ConnectTimeout: The deadline passed.
            httpx.ConnectError: The name cannot be looked up.
            RefusedAddressError: The egress policy refuses an address.
        """
        try:
            async with asyncio.timeout_at(deadline):
                found = await self._resolver.addresses(origin.host, origin.port)
        except (OSError, ValueError) as exc:
            raise _unconnected(exc, origin) from exc
        return of_reachable_kinds(found, self._reaches)

    async def learn(self, origin: ConnectionOrigin, tls: ssl.SSLObject | None) -> None:
        """Called after a response over the TLS connection `tls`.

        Later connections to this origin may resume the TLS session. The session cannot be stored
        earlier, because with TLS 1.3 a server sends the session ticket after the handshake.
        """
        if tls is not None:
            context = await self._contexts.of(origin.credentials)
            context.learn(origin.host, tls)

    def close(self) -> None:
        """Stop opening connections."""
        self._resolver.close()
        self._contexts.close()
        if self._tunneler is not None:
            self._tunneler.close()

    def _reaches(self, address: Address) -> bool:
        # An address that is reached through the proxy counts as reachable here. Only the proxy can
        # find out whether it is.
        by_proxy = self._tunneler is not None and self._tunneler.leads_to((address,))
        return by_proxy or self._has_route(address)

    async def _connected(self, origin: ConnectionOrigin, deadline: float) -> socket:
        async with asyncio.timeout_at(deadline):
            # If the origin selects one address, give this address to the resolver like a name, so
            # that it is checked, too.
            named = origin.host if origin.address is None else str(origin.address)
            addresses = await self._resolver.addresses(named, origin.port)
            if self._tunneler is None or not self._tunneler.leads_to(addresses):
                return await connected_to(addresses, origin.port)
        return await self._tunneler.open(addresses, origin.port, deadline=deadline)

    async def _speak(
        self, origin: ConnectionOrigin, connection: asyncio.Protocol, connected: socket
    ) -> asyncio.BaseTransport:
        loop = asyncio.get_running_loop()
        if origin.scheme == "http":
            made, _ = await loop.create_connection(lambda: connection, sock=connected)
            return made
        context = await self._contexts.of(origin.credentials)
        try:
            made, _ = await loop.create_connection(
                lambda: connection,
                sock=connected,
                ssl=context,
                server_hostname=origin.host,
                ssl_shutdown_timeout=_TLS_SHUTDOWN_S,
            )
        except OSError as exc:
            # After any error, forget the TLS session of the host, so that the next handshake is a
            # full one.
            context.forget(origin.host)
            if isinstance(exc, ConnectionError):
                raise httpx.ConnectError("TLS failed: the handshake was broken off") from exc
            raise
        return made


def _unconnected(error: OSError | ValueError, origin: ConnectionOrigin) -> httpx.TransportError:
    """Return the httpx error for a connection that could not be opened.

    A ValueError means an invalid host name.
    """
    if isinstance(error, TimeoutError):
        return httpx.ConnectTimeout(f"no connection to {origin.host}:{origin.port} in time")
    if isinstance(error, ssl.SSLError):
        return httpx.ConnectError(tls_problem(error))
    return httpx.ConnectError(str(error) or type(error).__name__)
