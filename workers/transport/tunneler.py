"""Tunnels through the egress proxy: CONNECT to an address that was checked."""

import asyncio
import re
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network
from socket import socket
from typing import Final

import httpx
import structlog

from app.domain.network.egress import Address, EgressPolicy
from app.domain.network.egress_proxy import EgressProxy
from workers.transport.resolver import Resolver
from workers.transport.sockets import connected_to

# The maximum size of the proxy's responses in bytes, including interim responses. Their content is
# not used.
_HEAD_MAX: Final = 16 * 1024
# The maximum number of addresses of one host that are tried, one after another.
_ADDRESSES_MAX: Final = 4
# The shortest time in seconds between two log lines about errors of the proxy. An error of the
# proxy affects all requests, so every request would log it.
_LOG_INTERVAL_S: Final = 10.0
_END_OF_HEAD: Final = b"\r\n\r\n"
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9])(?: [^\r\n]*)?\r\n")
_INTERIM, _SUCCESS, _SERVER_ERROR = 1, 2, 5
_AUTHENTICATION_REQUIRED: Final = 407
# The proxy itself may have any address, because the operator has chosen it, and it is often in a
# private network.
_ANYWHERE: Final = EgressPolicy(allowed=(IPv4Network("0.0.0.0/0"), IPv6Network("::/0")))

_log = structlog.get_logger()


class TunnelTimeoutError(httpx.ConnectTimeout):
    """The proxy was reached, but opened no tunnel in time.

    The proxy, or the host behind it, did not respond.
    """


class Tunneler:
    """Opens tunnels through the egress proxy.

    The proxy gets addresses and not names, because it would look up a name without a check of the
    address. An error of the proxy is an httpx.ProxyError. If the proxy cannot reach a host (5xx),
    the error is an httpx.ConnectError, as without a proxy, because the host may be down.
    """

    def __init__(self, proxy: EgressProxy) -> None:
        self._proxy = proxy
        self._resolver = Resolver(_ANYWHERE)
        self._loop = asyncio.get_running_loop()
        self._logged_at = -_LOG_INTERVAL_S

    def leads_to(self, addresses: Sequence[Address]) -> bool:
        """Whether a host with these addresses is reached through the proxy."""
        return self._proxy.leads_to(addresses)

    async def open(self, addresses: Sequence[Address], port: int, *, deadline: float) -> socket:
        """Return a socket that leads to the first of `addresses` that the proxy reaches.

        Addresses that need no proxy are not tried.

        Args:
            addresses: The checked addresses of the host.
            port: The port of the host.
            deadline: When the attempt ends, as a time of the event loop's clock.

        Raises:
            TunnelTimeoutError: The proxy opened no tunnel by `deadline`.
            httpx.ProxyError: The proxy was not reached, or failed.
        """
        problem = httpx.ConnectError("it has no address")
        for address in self._proxy.beyond(addresses)[:_ADDRESSES_MAX]:
            try:
                return await self._to(address, port, deadline)
            except httpx.ProxyError as exc:
                self._log_problem(str(exc))
                raise
            except httpx.ConnectError as exc:
                problem = exc
        raise problem

    def close(self) -> None:
        """Stop opening tunnels."""
        self._resolver.close()

    async def _to(self, address: Address, port: int, deadline: float) -> socket:
        reached = await self._reached(deadline)
        try:
            async with asyncio.timeout_at(deadline):
                await self._ask(reached, _spelled(address, port))
        except TimeoutError as exc:
            reached.close()
            raise TunnelTimeoutError("the egress proxy had opened no tunnel in time") from exc
        except BaseException:
            reached.close()
            raise
        return reached

    async def _reached(self, deadline: float) -> socket:
        proxy = self._proxy
        try:
            async with asyncio.timeout_at(deadline):
                addresses = await self._resolver.addresses(proxy.host, proxy.port)
                return await connected_to(addresses, proxy.port)
        except TimeoutError as exc:
            raise httpx.ProxyError("it was not reached in time") from exc
        except (OSError, ValueError) as exc:
            raise httpx.ProxyError(f"it cannot be reached: {exc}") from exc

    async def _ask(self, reached: socket, target: str) -> None:
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        authorization = self._proxy.authorization
        if authorization is not None:
            lines.append(f"Proxy-Authorization: {authorization}")
        try:
            await self._loop.sock_sendall(reached, "\r\n".join([*lines, "", ""]).encode("ascii"))
            status = await self._status(reached)
        except OSError as exc:
            raise httpx.ProxyError(f"the connection to it broke: {exc}") from exc
        _require_tunnel(status, target)

    async def _status(self, reached: socket) -> int:
        """Return the status of the proxy's final response. No bytes may follow a 2xx response."""
        received, unread = 0, b""
        while received <= _HEAD_MAX:
            part = await self._loop.sock_recv(reached, 4096)
            if not part:
                raise httpx.ProxyError("it closed the connection instead of an answer")
            received, unread = received + len(part), unread + part
            while _END_OF_HEAD in unread:
                head, _, unread = unread.partition(_END_OF_HEAD)
                status = _read_status(head)
                if status // 100 == _INTERIM:
                    continue
                if unread and status // 100 == _SUCCESS:
                    # Refuse data after the proxy's response, because no server behind the proxy
                    # sends data before it gets a request.
                    raise httpx.ProxyError("it said more than its answer")
                return status
        raise httpx.ProxyError("its answer has no end")

    def _log_problem(self, problem: str) -> None:
        now = self._loop.time()
        if now - self._logged_at >= _LOG_INTERVAL_S:
            self._logged_at = now
            proxy = f"{self._proxy.host}:{self._proxy.port}"
            _log.warning("egress_proxy_failed", proxy=proxy, reason=problem)


def _read_status(head: bytes) -> int:
    line = _STATUS_LINE.match(head + b"\r\n")
    if line is None:
        raise httpx.ProxyError("its answer is not HTTP")
    return int(line[1])


def _require_tunnel(status: int, target: str) -> None:
    if status // 100 == _SUCCESS:
        return
    if status // 100 == _SERVER_ERROR:
        message = f"the egress proxy cannot connect to {target} (status {status})"
        raise httpx.ConnectError(message)
    if status == _AUTHENTICATION_REQUIRED:
        raise httpx.ProxyError("it does not accept our credentials (status 407)")
    message = f"it refuses to connect to {target} (status {status})"
    raise httpx.ProxyError(message)


def _spelled(address: Address, port: int) -> str:
    return f"[{address}]:{port}" if isinstance(address, IPv6Address) else f"{address}:{port}"
