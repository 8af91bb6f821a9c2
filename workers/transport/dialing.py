"""Origins, and connecting to them."""

import asyncio
import ssl
from functools import cached_property
from typing import Final, NamedTuple

import httpx

from workers.transport.connection import Connection

_PORTS: Final = {"http": 80, "https": 443}
_PORT_MAX: Final = 65_535
# How long a polite end of TLS may take before the socket is closed without it.
_TLS_SHUTDOWN_S: Final = 1.0


class Origin(NamedTuple):
    """Where a connection leads: connections are shared within one origin only."""

    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, url: httpx.URL) -> "Origin":
        """The origin of `url`; httpx.UnsupportedProtocol when it is not an HTTP URL with a host."""
        # Not `url.host`: it decodes IDNA, and raises for some names that are merely unknown.
        host = url.raw_host.decode("ascii")
        port = _PORTS.get(url.scheme, 0) if url.port is None else url.port
        if url.scheme not in _PORTS or not host or not 0 < port <= _PORT_MAX:
            message = f"not an http:// or https:// URL with a host: {url.scheme}://{host}:{port}"
            raise httpx.UnsupportedProtocol(message)
        return cls(url.scheme, host, port)


class Dialer:
    """Opens connections. TLS verifies the certificate and the host unless the context says not."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._given_tls = tls

    async def dial(self, origin: Origin, connection: Connection, *, deadline: float) -> None:
        """Connect `connection` to `origin` by `deadline` (loop's clock), TLS handshake included.

        Raises httpx.ConnectTimeout or httpx.ConnectError; then nothing has been sent.
        """
        try:
            async with asyncio.timeout_at(deadline):
                await self._connect(origin, connection)
        except TimeoutError as exc:
            message = f"no connection to {origin.host}:{origin.port} in time"
            raise httpx.ConnectTimeout(message) from exc
        except (OSError, ValueError) as exc:
            # ValueError: a host that cannot be a name (an empty or overlong label).
            raise httpx.ConnectError(str(exc) or type(exc).__name__) from exc

    async def _connect(self, origin: Origin, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        if origin.scheme == "http":
            await loop.create_connection(lambda: connection, origin.host, origin.port)
            return
        await loop.create_connection(
            lambda: connection,
            origin.host,
            origin.port,
            ssl=self._tls,
            ssl_shutdown_timeout=_TLS_SHUTDOWN_S,
        )

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        # Reading the system's certificates takes tens of milliseconds: only when https is used.
        return self._given_tls or ssl.create_default_context()
