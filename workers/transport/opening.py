"""What is known of a connection that is opened for a request, for whoever wants to know."""

import asyncio
import time
from contextvars import ContextVar
from typing import Final


class Opening:
    """`address` and `opened_at` (monotonic seconds) of a connection, once it is open."""

    __slots__ = ("address", "opened_at")

    def __init__(self) -> None:
        self.address = ""
        self.opened_at: float | None = None

    def forget(self) -> None:
        """What was opened so far was for something else."""
        self.address, self.opened_at = "", None

    def opened(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open; through a proxy, `address` is the proxy's."""
        self.opened_at = time.monotonic()
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            host, port = peer[:2]
            self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


OPENING: Final[ContextVar[Opening | None]] = ContextVar("opening", default=None)
"""Of the request that is sent in this context: set it before, and look at it after."""
