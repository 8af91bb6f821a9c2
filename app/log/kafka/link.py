"""A connection to a broker: bytes in, whole frames out."""

import asyncio
from asyncio import Transport
from datetime import timedelta
from typing import Final, Protocol, cast

import structlog

from app.log.kafka.wire import MalformedAnswerError, frames
from app.log.patience import CallDeadline

Address = tuple[str, int]
"""Host and port."""

CONNECT_TIMEOUT: Final = timedelta(seconds=1)
# An answer of which so much comes in the time that an answer may take is waited for.
PACE_BYTES: Final = 64 * 1024

_log = structlog.get_logger(__name__)


class Listener(Protocol):
    """Hears what a connection says."""

    def hear(self, frame: bytes) -> None:
        """An answer came; MalformedAnswerError if it is not the next one's."""

    def misunderstood(self, error: MalformedAnswerError) -> None:
        """Nothing that comes after it can be trusted."""

    def disconnected(self, link: "Link", exc: Exception | None) -> None:
        """The connection is gone."""


class Link(asyncio.Protocol):
    """One connection of a listener's, which hears nothing of those before it."""

    def __init__(self, listener: Listener, *, bytes_max: int) -> None:
        """No answer has more than `bytes_max` bytes."""
        self._listener = listener
        self._bytes_max = bytes_max
        self._received = bytearray()
        self._looked_at = 0
        self.transport: Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take over the socket."""
        self.transport = cast("Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Pass on what is whole by now."""
        self._received += data
        try:
            for frame in frames(self._received, bytes_max=self._bytes_max):
                self._listener.hear(frame)
        except MalformedAnswerError as error:
            self._listener.misunderstood(error)

    def is_receiving(self) -> bool:
        """Whether so much of an answer came since this was asked last that it is worth waiting."""
        before, now = self._looked_at, len(self._received)
        self._looked_at = now
        return now - (before if before <= now else 0) >= PACE_BYTES

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the listener."""
        self._listener.disconnected(self, exc)


async def connected(link: Link, address: Address, *, node: int, patience: CallDeadline) -> bool:
    """Connect `link` to the broker `node`, within `patience`: whether it is."""
    loop = asyncio.get_running_loop()
    try:
        with patience.limit():
            await loop.create_connection(lambda: link, *address)
    except (OSError, ValueError) as error:  # ValueError: no name of a host
        _log.warning("kafka_broker_unreachable", node=node, error=repr(error))
        return False
    # It may be gone again already: then nobody would hear of that any more.
    return link.transport is not None and not link.transport.is_closing()
