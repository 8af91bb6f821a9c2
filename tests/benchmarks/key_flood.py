"""Requests with wrong keys at a given pace, on connections that are kept full."""

import asyncio
from contextlib import suppress
from typing import Final

_REQUEST: Final = (
    b"POST /topics/shop.orders HTTP/1.1\r\nHost: api\r\nContent-Length: 1\r\n"
    b"Authorization: Bearer ang_%012x_" + b"x" * 43 + b"\r\n\r\n1"
)
_TURN_S: Final = 0.005


class Flood(asyncio.Protocol):
    """One connection; `answers` counts what came back."""

    def __init__(self) -> None:
        self.answers = 0
        self.sent = 0
        self.lost = asyncio.Event()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ready to send."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """The server has had enough."""
        del exc
        self.lost.set()

    def data_received(self, data: bytes) -> None:
        """Refusals, one after the other."""
        self.answers += data.count(b"HTTP/1.1 401 ")

    def send(self, count: int) -> None:
        """So many requests, each with another key."""
        assert self._transport is not None
        keys = range(self.sent, self.sent + count)
        self._transport.write(b"".join(_REQUEST % key for key in keys))
        self.sent += count


async def flood(host: str, port: int, *, rate: float, seconds: float) -> float:
    """Send `rate` wrong keys a second over a few connections; how many a second were refused.

    Whoever is behind is not sent more: what is measured is what was answered.
    """
    loop = asyncio.get_running_loop()
    lines = [(await loop.create_connection(Flood, host, port))[1] for _ in range(8)]
    began = loop.time()
    sent = 0
    while (now := loop.time()) < began + seconds:
        due = int((now - began) * rate)
        for line in lines:
            count = (due - sent) // len(lines)
            if count and line.sent - line.answers < rate / len(lines):
                line.send(count)
        sent = due - (due - sent) % len(lines)
        with suppress(TimeoutError):
            await asyncio.wait_for(lines[0].lost.wait(), _TURN_S)
    return sum(line.answers for line in lines) / seconds
