"""Details of the connection that a request uses."""

import asyncio
import time
from contextvars import ContextVar
from typing import Final


class UsedConnection:
    """The connection that a request used.

    `address` is the remote side. If the connection was opened for this request, `opened_at` has the
    time of the opening in monotonic seconds.
    """

    __slots__ = ("address", "opened_at")

    def __init__(self) -> None:
        self.address = ""
        self.opened_at: float | None = None

    def forget(self) -> None:
        """Drop the stored details, because they belong to another request."""
        self.address, self.opened_at = "", None

    def take(self, other: "UsedConnection | None") -> None:
        """Copy the details of `other`, if it is not None."""
        if other is not None:
            self.address, self.opened_at = other.address, other.opened_at

    def opened(self, transport: asyncio.BaseTransport) -> None:
        """Called when the connection was opened for this request."""
        self.opened_at = time.monotonic()
        self.address = peer_of(transport)


def peer_of(transport: asyncio.BaseTransport) -> str:
    """Return the remote side as `host:port`, which may be a proxy; empty if unknown."""
    peer = transport.get_extra_info("peername")
    if not isinstance(peer, tuple):
        return ""
    host, port = peer[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


USED_CONNECTION: Final[ContextVar[UsedConnection | None]] = ContextVar("opening", default=None)
"""The connection of the request in this context: set it before the request, and read it after."""


def goes_by(peer: str) -> None:
    """Record in USED_CONNECTION that this request uses an open connection to `peer`."""
    if (opening := USED_CONNECTION.get()) is not None:
        opening.address = peer
