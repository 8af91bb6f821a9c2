"""What is known of the connection that a request goes by."""

import asyncio
import time
from contextvars import ContextVar
from typing import Final


class UsedConnection:
    """`address` of the connection, once there is one, and `opened_at` if it was opened for it.

    That is monotonic seconds.
    """

    __slots__ = ("address", "opened_at")

    def __init__(self) -> None:
        self.address = ""
        self.opened_at: float | None = None

    def forget(self) -> None:
        """What there was so far was for something else."""
        self.address, self.opened_at = "", None

    def take(self, other: "UsedConnection | None") -> None:
        """The connection is that of `other`, as far as anybody knows."""
        if other is not None:
            self.address, self.opened_at = other.address, other.opened_at

    def opened(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open."""
        self.opened_at = time.monotonic()
        self.address = peer_of(transport)


def peer_of(transport: asyncio.BaseTransport) -> str:
    """Where a connection leads, as `host:port`, to a proxy if by a proxy; empty if not known."""
    peer = transport.get_extra_info("peername")
    if not isinstance(peer, tuple):
        return ""
    host, port = peer[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


USED_CONNECTION: Final[ContextVar[UsedConnection | None]] = ContextVar("opening", default=None)
"""Of the request that is sent in this context: set it before, and look at it after."""


def goes_by(peer: str) -> None:
    """The request that is sent in this context goes to `peer`, by a connection that was open."""
    if (opening := USED_CONNECTION.get()) is not None:
        opening.address = peer
